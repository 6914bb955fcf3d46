#include "files/archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <cerrno>
#include <exception>
#include <memory>
#include <vector>

#include "base/error.h"

namespace podium {
namespace {

// Most of the bytes that are read from disk at a time.
constexpr std::size_t kBlock = std::size_t{1} << 20;

class Archive {
 public:
  enum class Format : std::uint8_t { kTar, kZip };
  Archive(std::string name, std::string remedy, Format format = Format::kTar)
      : name_(std::move(name)), remedy_(std::move(remedy)), archive_(::archive_read_new()) {
    PODIUM_CHECK(archive_ != nullptr);
    if (format == Format::kZip) {
      ::archive_read_support_format_zip(archive_);
      return;
    }
    // Not all of them: some would start programs, by what bytes from outside say.
    ::archive_read_support_filter_gzip(archive_);
    ::archive_read_support_filter_bzip2(archive_);
    ::archive_read_support_filter_xz(archive_);
    ::archive_read_support_filter_zstd(archive_);
    ::archive_read_support_format_tar(archive_);
  }
  ~Archive() { ::archive_read_free(archive_); }
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  // Through our own reader: libarchive names no path, waits on a pipe, and does not tell a file
  // that cannot be read from a damaged one.
  void open_file() {
    file_ = open_file_as_is(name_, remedy_);
    block_.resize(kBlock);
    check(::archive_read_open(archive_, this, nullptr, &Archive::read_block, nullptr));
  }
  void open_bytes(std::span<const std::uint8_t> bytes) {
    check(::archive_read_open_memory(archive_, bytes.data(), bytes.size()));
  }

  void visit(const ArchiveVisitor& visitor) {
    while (true) {
      archive_entry* entry = nullptr;
      const int status = ::archive_read_next_header(archive_, &entry);
      if (status == ARCHIVE_EOF) return;
      check(status);
      if (::archive_entry_filetype(entry) != AE_IFREG) continue;
      const char* path = ::archive_entry_pathname(entry);
      member_ = path == nullptr ? "" : path;
      Member bytes(*this, ::archive_entry_size(entry));
      if (!visitor(member_, bytes)) return;
      member_.clear();
    }
  }

 private:
  class Member : public ByteSource {
   public:
    Member(Archive& archive, std::int64_t size)
        : archive_(archive), size_(size < 0 ? 0 : static_cast<std::uint64_t>(size)) {}
    std::size_t read(std::span<std::uint8_t> out) override {
      std::size_t done = 0;
      while (done < out.size()) {
        const la_ssize_t n =
            ::archive_read_data(archive_.archive_, out.data() + done, out.size() - done);
        if (n == 0) break;
        if (n < 0) archive_.fail();
        done += static_cast<std::size_t>(n);
      }
      return done;
    }
    std::uint64_t most_bytes() const override { return size_; }
    bool packed() const override { return false; }

   private:
    Archive& archive_;
    std::uint64_t size_;
  };

  // No exception may pass through libarchive: it is kept, and thrown again by fail().
  static la_ssize_t read_block(::archive* archive, void* self, const void** block) {
    auto* const reader = static_cast<Archive*>(self);
    try {
      *block = reader->block_.data();
      return static_cast<la_ssize_t>(reader->file_->read(reader->block_));
    } catch (...) {
      reader->error_ = std::current_exception();
      ::archive_set_error(archive, EIO, "the file cannot be read");
      return ARCHIVE_FATAL;
    }
  }

  // ARCHIVE_WARN is about what does not matter here, such as the spelling of a name.
  void check(int status) const {
    if (status != ARCHIVE_OK && status != ARCHIVE_WARN) fail();
  }
  [[noreturn]] void fail() const {
    if (error_) std::rethrow_exception(error_);
    const char* why = ::archive_error_string(archive_);
    throw UserError(
        cat(name_, member_.empty() ? "" : ": in ", member_, ": the archive ",
            "cannot be read: ", why == nullptr ? "it is corrupt or truncated" : why, "; ", remedy_),
        ExitCode::kData);
  }

  std::string name_, remedy_, member_;
  ::archive* archive_;
  std::unique_ptr<ByteSource> file_;
  std::vector<std::uint8_t> block_;
  std::exception_ptr error_;
};

}  // namespace

void read_archive(const std::string& path, const std::string& remedy, const ArchiveVisitor& visit) {
  Archive archive(path, remedy);
  archive.open_file();
  archive.visit(visit);
}

void parse_archive(std::span<const std::uint8_t> bytes, const std::string& name,
                   const std::string& remedy, const ArchiveVisitor& visit) {
  Archive archive(name, remedy);
  archive.open_bytes(bytes);
  archive.visit(visit);
}

void parse_zip(std::span<const std::uint8_t> bytes, const std::string& name,
               const std::string& remedy, const ArchiveVisitor& visit) {
  Archive archive(name, remedy, Archive::Format::kZip);
  archive.open_bytes(bytes);
  archive.visit(visit);
}

}  // namespace podium
