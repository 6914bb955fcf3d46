#include "data/storage/shard_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace podium {
namespace {

// Enough for the headers and the label between two pictures.
constexpr std::int64_t kWindow = 8192;

}  // namespace

ShardFile::ShardFile(const std::string& path) : name_(path) {
  const auto require = [&](bool condition) {
    if (condition) return;
    const std::string why = std::generic_category().message(errno);
    if (descriptor_ >= 0) ::close(descriptor_);
    throw UserError(cat(path, ": ", why, "; make it readable, or leave it out"), ExitCode::kData);
  };
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  require(descriptor_ >= 0);
  struct stat status {};
  require(::fstat(descriptor_, &status) == 0);
  if (!S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw UserError(cat(path, ": is a folder, pipe or device, not a file; leave it out"),
                    ExitCode::kData);
  }
  state_ = state_in(status);
}

ShardFile::ShardFile(std::span<const std::uint8_t> bytes, std::string name)
    : name_(std::move(name)), state_{std::ssize(bytes), 0}, bytes_(bytes) {}

ShardFile::~ShardFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string_view ShardFile::at(std::int64_t offset, std::int64_t size) {
  PODIUM_CHECK(offset >= 0 && size >= 0 && size <= state_.size - offset, offset, " ", size);
  if (descriptor_ < 0)
    return {reinterpret_cast<const char*>(bytes_.data()) + offset, static_cast<std::size_t>(size)};
  if (offset < begin_ || offset + size > end_) {
    const std::int64_t wanted = std::min(std::max(size, kWindow), state_.size - offset);
    window_.resize(static_cast<std::size_t>(wanted));
    begin_ = end_ = offset;
    while (end_ - begin_ < wanted) {
      const ssize_t got =
          ::pread(descriptor_, window_.data() + (end_ - begin_),
                  static_cast<std::size_t>(wanted - (end_ - begin_)), static_cast<off_t>(end_));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        fail(end_, cat(std::generic_category().message(errno), "; mend the disk, or leave it out"));
      if (got == 0) fail(end_, "the file became shorter while it was indexed: run the same again");
      end_ += got;
    }
  }
  return {window_.data() + (offset - begin_), static_cast<std::size_t>(size)};
}

void ShardFile::fail(std::int64_t offset, const std::string& what) const {
  throw UserError(cat(name_, ": at byte ", offset, ": ", what), ExitCode::kData);
}

}  // namespace podium
