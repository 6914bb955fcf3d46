#include "data/storage/indexed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

#include "base/error.h"

namespace podium {
namespace {

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace

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

}  // namespace podium
