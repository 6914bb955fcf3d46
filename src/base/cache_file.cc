#include "base/cache_file.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/environment_text.h"
#include "base/error.h"

namespace podium {

namespace fs = std::filesystem;

std::string cache_folder() {
  const std::string xdg = environment_text("XDG_CACHE_HOME"), home = environment_text("HOME");
  if (!xdg.empty()) return (fs::path(xdg) / "podium").string();
  return home.empty() ? "" : (fs::path(home) / ".cache" / "podium").string();
}

std::optional<std::string> read_cache_file(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return std::nullopt;
  std::error_code error;
  const auto size = fs::file_size(path, error);
  std::string bytes(error ? 0 : size, '\0');
  const bool whole = std::fread(bytes.data(), 1, bytes.size(), file) == bytes.size();
  std::fclose(file);
  if (!whole || error) return std::nullopt;
  return bytes;
}

bool keep_cache_file(const std::string& path, std::string_view bytes) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  const std::string aside = cat(path, ".", ::getpid());
  std::FILE* const file = std::fopen(aside.c_str(), "wbe");
  if (file == nullptr) return false;
  bool whole = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  whole = std::fclose(file) == 0 && whole;
  if (whole) fs::rename(aside, path, error);
  if (whole && !error) return true;
  fs::remove(aside, error);
  return false;
}

}  // namespace podium
