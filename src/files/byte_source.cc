#include "files/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"

namespace podium {
namespace {

// The most that deflate can expand: 258 bytes from 2 bits, and then some.
constexpr std::uint64_t kMostExpansion = 1032;

// Most of the packed bytes that are held at a time.
constexpr std::size_t kPackedChunk = std::size_t{1} << 18;

[[noreturn]] void fail(const std::string& name, const std::string& what,
                       const std::string& remedy) {
  throw UserError(cat(name, ": ", what, "; ", remedy), ExitCode::kData);
}

// What to try where the system opens no file: another copy is no help against a missing right.
std::string remedy_for(int error, const std::string& remedy) {
  if (error == EACCES || error == EPERM) return cat("change its permissions, or ", remedy);
  if (error == EMFILE || error == ENFILE) return "raise the limit on open files (ulimit -n)";
  return remedy;
}

class PlainFile : public ByteSource {
 public:
  PlainFile(const std::string& path, std::string remedy) : path_(path), remedy_(std::move(remedy)) {
    // Without O_NONBLOCK a named pipe would wait for a writer here; it is refused below.
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file_ < 0) {
      const int error = errno;
      throw UnreadableFile(cat(path_, ": cannot be opened: ", std::strerror(error), "; ",
                               remedy_for(error, remedy_)));
    }
    struct stat status {};
    if (::fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(file_);
      fail(path_, "is a folder, pipe or device, not a file", remedy_);
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
        throw UnreadableFile(cat(path_, ": reading at byte ", position_ + done,
                                 " failed: ", std::strerror(error), "; ", remedy_));
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

bool is_gzip(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B;
}

// Gzip, unpacked: one member or several, nothing after them.
class Gzip : public ByteSource {
 public:
  Gzip(std::unique_ptr<ByteSource> packed, std::string name, std::string remedy)
      : packed_(std::move(packed)),
        name_(std::move(name)),
        remedy_(std::move(remedy)),
        chunk_(kPackedChunk) {
    PODIUM_CHECK(::inflateInit2(&stream_, 15 + 16) == Z_OK);  // 16: gzip wrapping
  }
  ~Gzip() override { ::inflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  std::size_t read(std::span<std::uint8_t> out) override {
    std::size_t done = 0;
    while (done < out.size() && !ended_) {
      if (stream_.avail_in == 0) refill();
      const std::size_t room = std::min<std::size_t>(out.size() - done, kMostAtOnce);
      stream_.next_out = out.data() + done;
      stream_.avail_out = static_cast<uInt>(room);
      const int status = ::inflate(&stream_, Z_NO_FLUSH);
      done += room - stream_.avail_out;
      if (status == Z_STREAM_END) {
        end_member();
      } else if (status == Z_BUF_ERROR) {
        // Neither input nor output was to be had: refill() found the end.
        fail(name_, cat("the gzip data ends at byte ", used(), ", in the middle of a stream"),
             remedy_);
      } else if (status != Z_OK) {
        fail(name_,
             cat("the gzip data is corrupt at byte ", used(), " (",
                 stream_.msg == nullptr ? "zlib error" : stream_.msg, ")"),
             remedy_);
      }
    }
    return done;
  }
  std::uint64_t most_bytes() const override { return kMostExpansion * packed_->most_bytes(); }
  bool packed() const override { return true; }

 private:
  static constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // zlib counts in 32 bits

  std::uint64_t used() const { return taken_ - stream_.avail_in; }

  // Puts further packed bytes behind those that are not used yet.
  void refill() {
    const std::size_t kept = stream_.avail_in;
    if (kept > 0) std::memmove(chunk_.data(), stream_.next_in, kept);
    const std::size_t n = packed_->read(std::span(chunk_).subspan(kept));
    taken_ += n;
    stream_.next_in = chunk_.data();
    stream_.avail_in = static_cast<uInt>(kept + n);
  }

  void end_member() {
    if (stream_.avail_in < 2) refill();
    if (stream_.avail_in == 0) {
      ended_ = true;
      return;
    }
    if (!is_gzip({stream_.next_in, stream_.avail_in})) {
      fail(name_,
           cat("the gzip data ends at byte ", used(), ", but ",
               std::max(packed_->most_bytes(), taken_) - used(), " more bytes follow"),
           remedy_);
    }
    PODIUM_CHECK(::inflateReset(&stream_) == Z_OK);
  }

  std::unique_ptr<ByteSource> packed_;
  std::string name_, remedy_;
  std::vector<std::uint8_t> chunk_;
  std::uint64_t taken_ = 0;  // of the packed bytes, used or in chunk_
  bool ended_ = false;
  z_stream stream_{};
};

}  // namespace

std::unique_ptr<ByteSource> open_file(const std::string& path, const std::string& remedy) {
  auto file = std::make_unique<PlainFile>(path, remedy);
  std::uint8_t start[2] = {};
  const std::size_t n = file->read(start);
  file->rewind();
  if (!is_gzip({start, n})) return file;
  return std::make_unique<Gzip>(std::move(file), path, remedy);
}

std::string all_bytes(ByteSource& source, const std::string& name, const std::string& remedy,
                      std::uint64_t most) {
  std::string text, piece(std::size_t{1} << 20, '\0');
  while (const std::size_t got =
             source.read({reinterpret_cast<std::uint8_t*>(piece.data()), piece.size()})) {
    text.append(piece, 0, got);
    PODIUM_REQUIRE(text.size() <= most, ExitCode::kData, name, ": has more than ", most, " bytes; ",
                   remedy);
  }
  return text;
}

std::string unpacked_text(const std::string& path, const std::string& remedy, std::uint64_t most) {
  return all_bytes(*open_file(path, remedy), path, remedy, most);
}

std::unique_ptr<ByteSource> open_file_as_is(const std::string& path, const std::string& remedy) {
  return std::make_unique<PlainFile>(path, remedy);
}

std::unique_ptr<ByteSource> open_bytes(std::span<const std::uint8_t> bytes, const std::string& name,
                                       const std::string& remedy) {
  auto plain = std::make_unique<PlainBytes>(bytes);
  if (is_gzip(bytes)) return std::make_unique<Gzip>(std::move(plain), name, remedy);
  return plain;
}

}  // namespace podium
