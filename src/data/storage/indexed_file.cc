#include "data/storage/indexed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"

namespace podium {
namespace {

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace

FileState state_in(const struct stat& status) {
  return {status.st_size,
          std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

std::optional<FileState> state_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return state_in(status);
}

void read_indexed(const std::string& path, const FileState& state, std::int64_t offset,
                  std::span<std::uint8_t> out) {
  const auto fail = [&](const std::string& what) {
    throw UserError(cat(path, ": ", what,
                        "; a run needs its pictures as they were when it began: restore it, "
                        "then index again with `podium data index`, and the run goes on"),
                    ExitCode::kData);
  };
  const Descriptor opened{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (opened.number < 0 && (errno == EACCES || errno == EPERM))
    throw UserError(cat(path, ": ", std::generic_category().message(errno),
                        "; make it readable, or remove it and index again"),
                    ExitCode::kData);
  if (opened.number < 0) fail(std::generic_category().message(errno));
  struct stat status {};
  if (::fstat(opened.number, &status) != 0) fail(std::generic_category().message(errno));
  if (state_in(status) != state) fail("it has changed since it was indexed");
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(opened.number, out.data() + done, out.size() - done,
                                offset + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(std::generic_category().message(errno));
    if (got == 0) fail("it became shorter while it was read");
    done += static_cast<std::size_t>(got);
  }
}

void for_each_file(std::int64_t count, const std::function<void(std::int64_t)>& work) {
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> ends{false};
  std::exception_ptr error;
  std::mutex mutex;
  const auto run = [&] {
    while (!ends) {
      const std::int64_t i = next++;
      if (i >= count) return;
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        ends = true;
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < std::min<std::int64_t>(usable_cores(), count); ++i)
      threads.emplace_back(run);
    run();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace podium
