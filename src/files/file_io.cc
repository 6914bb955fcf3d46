#include "files/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/progress.h"

namespace podium {
namespace {

std::string_view remedy_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return "; free some space or choose another folder with --out";
    case EACCES:
    case EPERM:
    case EROFS: return "; change its permissions or choose another folder with --out";
    case ENOTDIR:
    case EEXIST: return "; a file is in the place of a folder: move it or choose another name";
    case EISDIR: return "; a folder is in the place of a file: move it or choose another name";
    case ENOENT: return "; check the path";
    case EMFILE:
    case ENFILE: return "; too many files are open: raise the limit (ulimit -n)";
    default: return "";
  }
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// A file system or a special file that cannot sync says EINVAL; there is nothing to wait for then.
void sync_descriptor(int descriptor, const std::filesystem::path& path) {
  while (::fsync(descriptor) != 0) {
    if (errno == EINTR) continue;
    if (errno == EINVAL || errno == ENOTSUP) return;
    throw_io_error(path, "write", errno);
  }
}

}  // namespace

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t crc) {
  return static_cast<std::uint32_t>(
      ::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::uint32_t crc32_of(std::string_view text, std::uint32_t crc) {
  return crc32_of(std::as_bytes(std::span(text)), crc);
}

std::string crc32_text(std::uint32_t crc) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(crc));
  return text;
}

void throw_io_error(const std::filesystem::path& path, std::string_view action, int error) {
  throw UserError(cat(path.string(), ": cannot ", action, ": ",
                      std::generic_category().message(error), remedy_for(error)),
                  ExitCode::kData);
}

OutputFile::OutputFile(std::filesystem::path path, Mode mode) : path_(std::move(path)) {
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (mode == Mode::kReplace ? O_TRUNC : O_APPEND);
  do {
    descriptor_ = ::open(path_.c_str(), flags, 0666);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) throw_io_error(path_, "open for writing", errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(other.bytes_),
      crc_(other.crc_),
      unsynced_(other.unsynced_) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(bytes_, other.bytes_);
  std::swap(crc_, other.crc_);
  std::swap(unsynced_, other.unsynced_);
  return *this;
}

void OutputFile::write(std::span<const std::byte> bytes) {
  PODIUM_CHECK(is_open(), path_.string());
  crc_ = crc32_of(bytes, crc_);
  bytes_ += bytes.size();
  // A slow disk is heard of again and again, and the last sync of a large file finds little to do.
  constexpr std::size_t kMost = std::size_t{4} << 20, kUnsynced = 8 * kMost;
  while (!bytes.empty()) {
    note_progress();
    if (unsynced_ >= kUnsynced) sync();
    const ssize_t written = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMost));
    if (written < 0) {
      if (errno == EINTR) continue;
      throw_io_error(path_, "write", errno);
    }
    if (written == 0) throw_io_error(path_, "write", ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    unsynced_ += static_cast<std::size_t>(written);
  }
}

void OutputFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

bool OutputFile::is_in_place() const { return is_open() && leads_to(path_, descriptor_); }

bool leads_to(const std::filesystem::path& path, int descriptor) {
  struct stat own {
  }, found{};
  return ::fstat(descriptor, &own) == 0 && ::stat(path.c_str(), &found) == 0 &&
         own.st_dev == found.st_dev && own.st_ino == found.st_ino;
}

void OutputFile::sync() {
  sync_descriptor(descriptor_, path_);
  unsynced_ = 0;
  note_progress();
}

void OutputFile::close() {
  if (descriptor_ < 0) return;
  // Network file systems report a full disk only here. After EINTR the descriptor is gone as well.
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0 && errno != EINTR) throw_io_error(path_, "write", errno);
}

InputFile::InputFile(std::filesystem::path path, StopToken stop)
    : path_(std::move(path)), stop_(stop) {
  // Without O_NONBLOCK a named pipe would wait for a writer here; it is refused below.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) throw_io_error(path_, "open", errno);
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw UserError(cat(path_.string(), ": is not a regular file; name a file"), ExitCode::kData);
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  constexpr std::size_t kAtOnce = std::size_t{1} << 25;  // so that a stop is noticed soon
  while (!bytes.empty()) {
    stop_.check();
    note_progress();
    const ssize_t got = ::pread(descriptor_, bytes.data(), std::min(bytes.size(), kAtOnce),
                                static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      throw_io_error(path_, "read", errno);
    }
    PODIUM_REQUIRE(got > 0, ExitCode::kData, path_.string(), ": ends at byte ", offset,
                   " although more was expected; it was truncated while being read: try again");
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

std::optional<std::string> read_text(const std::filesystem::path& path, std::uint64_t limit) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return std::nullopt;
    throw_io_error(path, "open", errno);
  }
  const InputFile file(path);
  PODIUM_REQUIRE(file.size() <= limit, ExitCode::kData, path.string(), ": has ", file.size(),
                 " bytes, at most ", limit,
                 " are expected here; the file is damaged or not the right one");
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

std::uint32_t crc32_of_file(const std::filesystem::path& path, StopToken stop) {
  const InputFile file(path, stop);
  std::vector<std::byte> buffer(std::size_t{1} << 18);
  std::uint32_t crc = 0;
  for (std::uint64_t offset = 0; offset < file.size();) {
    const auto part = std::span(buffer).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), file.size() - offset)));
    file.read(offset, part);
    crc = crc32_of(part, crc);
    offset += part.size();
  }
  return crc;
}

void make_folders(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw_io_error(folder, "make this folder", error.value());
  if (!std::filesystem::is_directory(folder)) throw_io_error(folder, "make this folder", ENOTDIR);
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) throw_io_error(folder, "open", errno);
  try {
    sync_descriptor(descriptor, folder);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  ::close(descriptor);
}

WrittenFile replace_file(const std::filesystem::path& path,
                         const std::function<void(OutputFile&)>& write) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  PODIUM_REQUIRE(!std::filesystem::is_other(status), ExitCode::kData, path.string(),
                 ": is a device or a pipe, not a file; name a file that can be replaced");
  const std::filesystem::path place =
      std::filesystem::is_symlink(path, error) && std::filesystem::exists(status)
          ? std::filesystem::canonical(path)
          : path;
  std::filesystem::path beside = place;
  beside += cat(".writing-", ::getpid());
  WrittenFile written;
  try {
    OutputFile file(beside, OutputFile::Mode::kReplace);
    write(file);
    file.sync();
    file.close();
    written = {file.bytes(), file.crc()};
    if (::rename(beside.c_str(), place.c_str()) != 0) throw_io_error(path, "replace", errno);
  } catch (...) {
    ::unlink(beside.c_str());
    throw;
  }
  sync_folder(folder_of(place));
  return written;
}

void replace_text(const std::filesystem::path& path, std::string_view text) {
  replace_file(path, [&](OutputFile& file) { file.write(text); });
}

}  // namespace podium
