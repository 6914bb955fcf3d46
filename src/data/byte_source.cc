#include "data/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"

namespace podium {
namespace {

// The most that deflate can expand: 258 bytes from 2 bits, and then some.
constexpr std::uint64_t kMostExpansion = 1032;

[[noreturn]] void fail(const std::string& name, const std::string& what,
                       const std::string& remedy) {
  throw UserError(cat(name, ": ", what, "; ", remedy), ExitCode::kData);
}

class PlainFile : public ByteSource {
 public:
  PlainFile(const std::string& path, std::string remedy) : path_(path), remedy_(std::move(remedy)) {
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) {
      const int error = errno;
      fail(path_, cat("cannot be opened: ", std::strerror(error)), remedy_);
    }
    struct stat status {};
    if (::fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(file_);
      fail(path_, "is a folder or device, where a file is needed", remedy_);
    }
    size_ = static_cast<std::uint64_t>(status.st_size);
  }
  ~PlainFile() override { ::close(file_); }
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;

  std::size_t read(std::span<std::uint8_t> out) override {
    std::size_t done = 0;
    while (done < out.size()) {
      const ssize_t n = ::read(file_, out.data() + done, out.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        const int error = errno;
        fail(path_, cat("reading at byte ", position_ + done, " failed: ", std::strerror(error)),
             remedy_);
      }
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    position_ += done;
    return done;
  }
  std::uint64_t most_bytes() const override { return size_; }
  bool packed() const override { return false; }
  void rewind() {
    ::lseek(file_, 0, SEEK_SET);
    position_ = 0;
  }

 private:
  std::string path_, remedy_;
  int file_ = -1;
  std::uint64_t size_ = 0, position_ = 0;
};

class PlainBytes : public ByteSource {
 public:
  explicit PlainBytes(std::span<const std::uint8_t> bytes) : bytes_(bytes), size_(bytes.size()) {}
  std::size_t read(std::span<std::uint8_t> out) override {
    const std::size_t n = std::min(out.size(), bytes_.size());
    std::copy_n(bytes_.begin(), n, out.begin());
    bytes_ = bytes_.subspan(n);
    return n;
  }
  std::uint64_t most_bytes() const override { return size_; }
  bool packed() const override { return false; }

 private:
  std::span<const std::uint8_t> bytes_;
  std::uint64_t size_;
};

// Gzip in memory: one member or several, nothing after them.
class GzipBytes : public ByteSource {
 public:
  GzipBytes(std::span<const std::uint8_t> bytes, std::string name, std::string remedy)
      : bytes_(bytes), name_(std::move(name)), remedy_(std::move(remedy)) {
    PODIUM_CHECK(::inflateInit2(&stream_, 15 + 16) == Z_OK);  // 16: gzip wrapping
  }
  GzipBytes(std::vector<std::uint8_t> owned, std::string name, std::string remedy)
      : GzipBytes(std::span<const std::uint8_t>(owned), std::move(name), std::move(remedy)) {
    owned_ = std::move(owned);  // the heap block, and so bytes_, stays where it is
  }
  ~GzipBytes() override { ::inflateEnd(&stream_); }
  GzipBytes(const GzipBytes&) = delete;
  GzipBytes& operator=(const GzipBytes&) = delete;

  std::size_t read(std::span<std::uint8_t> out) override {
    std::size_t done = 0;
    while (done < out.size() && !ended_) {
      const std::size_t given = std::min<std::size_t>(bytes_.size() - used_, kChunk);
      const std::size_t room = std::min<std::size_t>(out.size() - done, kChunk);
      stream_.next_in = const_cast<Bytef*>(bytes_.data() + used_);
      stream_.avail_in = static_cast<uInt>(given);
      stream_.next_out = out.data() + done;
      stream_.avail_out = static_cast<uInt>(room);
      const int status = ::inflate(&stream_, Z_NO_FLUSH);
      used_ += given - stream_.avail_in;
      done += room - stream_.avail_out;
      if (status == Z_STREAM_END) {
        end_member();
      } else if (status == Z_BUF_ERROR ||
                 (status == Z_OK && used_ == bytes_.size() && stream_.avail_out != 0)) {
        fail(name_, cat("the gzip data ends at byte ", used_, ", in the middle of a stream"),
             remedy_);
      } else if (status != Z_OK) {
        fail(name_,
             cat("the gzip data is corrupt at byte ", used_, " (",
                 stream_.msg == nullptr ? "zlib error" : stream_.msg, ")"),
             remedy_);
      }
    }
    return done;
  }
  std::uint64_t most_bytes() const override { return kMostExpansion * bytes_.size(); }
  bool packed() const override { return true; }

 private:
  static constexpr std::size_t kChunk = std::size_t{1} << 30;  // zlib counts in 32 bits

  void end_member() {
    if (used_ == bytes_.size()) {
      ended_ = true;
      return;
    }
    const bool another =
        bytes_.size() - used_ >= 2 && bytes_[used_] == 0x1F && bytes_[used_ + 1] == 0x8B;
    if (!another) {
      fail(name_,
           cat("the gzip data ends at byte ", used_, ", but ", bytes_.size() - used_,
               " more bytes follow"),
           remedy_);
    }
    PODIUM_CHECK(::inflateReset(&stream_) == Z_OK);
  }

  std::vector<std::uint8_t> owned_;
  std::span<const std::uint8_t> bytes_;
  std::string name_, remedy_;
  std::size_t used_ = 0;
  bool ended_ = false;
  z_stream stream_{};
};

bool is_gzip(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B;
}

}  // namespace

std::unique_ptr<ByteSource> open_file(const std::string& path, const std::string& remedy) {
  auto file = std::make_unique<PlainFile>(path, remedy);
  std::uint8_t start[2] = {};
  const std::size_t n = file->read(start);
  file->rewind();
  if (!is_gzip({start, n})) return file;
  std::vector<std::uint8_t> packed(file->most_bytes());
  packed.resize(file->read(packed));
  return std::make_unique<GzipBytes>(std::move(packed), path, remedy);
}

std::unique_ptr<ByteSource> open_bytes(std::span<const std::uint8_t> bytes, const std::string& name,
                                       const std::string& remedy) {
  if (is_gzip(bytes)) return std::make_unique<GzipBytes>(bytes, name, remedy);
  return std::make_unique<PlainBytes>(bytes);
}

}  // namespace podium
