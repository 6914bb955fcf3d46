// For this folder's tests: files of given bytes, gzip, the environment.
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/scratch_test_util.h"

namespace podium::test_files {

using Bytes = std::vector<std::uint8_t>;
using Labels = std::vector<std::int32_t>;

// A folder whose files are named by strings, as this folder's readers take them.
class TempFolder : public TestFolder {
 public:
  std::string operator/(const std::string& name) const { return (path() / name).string(); }
};

inline std::string write_file(const std::string& path, const Bytes& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return path;
}

inline Bytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Bytes gzip(const Bytes& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  Bytes packed(deflateBound(&stream, bytes.size()) + 64);
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  return packed;
}

// A tar of these files, in this order, packed by gzip.
inline Bytes tar_gz(const std::vector<std::pair<std::string, Bytes>>& files) {
  std::size_t room = 1 << 16;
  for (const auto& file : files) room += file.second.size() + 4096;
  Bytes packed(room);
  std::size_t used = 0;
  ::archive* out = ::archive_write_new();
  ::archive_write_add_filter_gzip(out);
  ::archive_write_set_format_ustar(out);
  ::archive_write_open_memory(out, packed.data(), packed.size(), &used);
  for (const auto& [name, bytes] : files) {
    ::archive_entry* entry = ::archive_entry_new();
    ::archive_entry_set_pathname(entry, name.c_str());
    ::archive_entry_set_size(entry, static_cast<la_int64_t>(bytes.size()));
    ::archive_entry_set_filetype(entry, name.ends_with('/') ? AE_IFDIR : AE_IFREG);
    ::archive_entry_set_perm(entry, 0755);
    ::archive_write_header(out, entry);
    ::archive_write_data(out, bytes.data(), bytes.size());
    ::archive_entry_free(entry);
  }
  ::archive_write_close(out);
  ::archive_write_free(out);
  packed.resize(used);
  return packed;
}

inline Bytes idx(const std::vector<std::uint32_t>& extents, const Bytes& elements) {
  Bytes bytes = {0, 0, 8, static_cast<std::uint8_t>(extents.size())};
  for (const std::uint32_t extent : extents) {
    for (const int shift : {24, 16, 8, 0}) {
      bytes.push_back(static_cast<std::uint8_t>(extent >> shift));
    }
  }
  bytes.insert(bytes.end(), elements.begin(), elements.end());
  return bytes;
}

class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~ScopedEnvironment() {
    if (old_) {
      ::setenv(name_, old_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

template <typename Action>
std::string data_error(const Action& action) {
  return user_error(ExitCode::kData, action);
}

// The same in a child process that may not read and write everything, as root may. nullopt: it
// cannot become such a one. `folder` is made one that it may enter.
template <typename Action>
std::optional<std::string> data_error_as_nobody(const TempFolder& folder, const Action& action) {
  int pipe[2];
  if (::pipe(pipe) != 0) return std::nullopt;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && (::chmod(folder.path().c_str(), 0755) != 0 || ::setuid(65534) != 0))
      ::_exit(3);
    std::string text = "no UserError(kData)";
    try {
      action();
    } catch (const UserError& error) {
      if (error.code() == ExitCode::kData) text = error.what();
    } catch (...) {
    }
    ::_exit(::write(pipe[1], text.data(), text.size()) < 0 ? 1 : 0);
  }
  ::close(pipe[1]);
  std::string text;
  char part[256];
  for (ssize_t n = 0; (n = ::read(pipe[0], part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(n));
  ::close(pipe[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) return std::nullopt;
  return text;
}

// A file of these bytes and then of nothing, `size` in all, which takes no room on the disk; false
// where the file system cannot have it.
inline bool write_sparse_file(const std::string& path, const Bytes& start, std::uintmax_t size) {
  write_file(path, start);
  std::error_code error;
  std::filesystem::resize_file(path, size, error);
  return !error;
}

}  // namespace podium::test_files
