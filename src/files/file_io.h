// Files of a run, written so that a kill at any moment, a full disk or a flipped bit is detected:
// complete writes, fsync, CRC-32 of every byte, replacement by rename. Every failed system call is
// a UserError(kData) that names the file, the action, the reason and the remedy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/stop.h"

namespace podium {

// The CRC-32 of zlib, gzip and PNG; `crc` continues an earlier one.
std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t crc = 0);
std::uint32_t crc32_of(std::string_view text, std::uint32_t crc = 0);
std::string crc32_text(std::uint32_t crc);  // eight lower-case hexadecimal digits

// Throws the UserError for a failed system call: "PATH: cannot ACTION: REASON; REMEDY".
[[noreturn]] void throw_io_error(const std::filesystem::path& path, std::string_view action,
                                 int error);

// A file being written, unbuffered: each write is complete or throws. sync() syncs it; large files
// are also synced while they are written.
class OutputFile {
 public:
  enum class Mode { kReplace, kAppend };
  OutputFile() = default;
  OutputFile(std::filesystem::path path, Mode mode);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // Waits until the bytes are on the disk.
  void sync();
  void close();

  bool is_open() const { return descriptor_ >= 0; }
  // Whether its path still leads to it: it was not deleted, moved or replaced.
  bool is_in_place() const;
  const std::filesystem::path& path() const { return path_; }
  // The number and CRC-32 of the bytes that this object wrote.
  std::uint64_t bytes() const { return bytes_; }
  std::uint32_t crc() const { return crc_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
  std::uint32_t crc_ = 0;
  std::size_t unsynced_ = 0;  // bytes
};

// Whether the path leads to the open file.
bool leads_to(const std::filesystem::path& path, int descriptor);

// A regular file being read, by position.
class InputFile {
 public:
  // read() throws Stopped if `stop` requests it.
  explicit InputFile(std::filesystem::path path, StopToken stop = {});
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::uint64_t size() const { return size_; }  // when it was opened
  // Fills `bytes` from `offset` on; throws if the file is too short.
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  StopToken stop_;
};

// The whole text of a file; nothing if there is no file. Longer than `limit` is an error.
std::optional<std::string> read_text(const std::filesystem::path& path,
                                     std::uint64_t limit = std::uint64_t{1} << 30);
std::uint32_t crc32_of_file(const std::filesystem::path& path, StopToken stop = {});

// Creates a folder and its parents, which may exist already.
void make_folders(const std::filesystem::path& folder);
// Waits until the folder's entries (new, renamed and removed ones) are on the disk.
void sync_folder(const std::filesystem::path& folder);
struct WrittenFile {
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;  // CRC-32 of all of them
};
// Calls write(file) on a file beside `path`, syncs it and renames it: a reader sees the old file or
// the new one, complete. Follows symbolic links. Refuses to replace anything other than a regular
// file, such as a device or a pipe.
WrittenFile replace_file(const std::filesystem::path& path,
                         const std::function<void(OutputFile&)>& write);
void replace_text(const std::filesystem::path& path, std::string_view text);

}  // namespace podium
