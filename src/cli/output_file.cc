#include "cli/output_file.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "files/file_io.h"

namespace podium {

void require_writable(const std::string& path, const std::string& flag, bool force) {
  std::error_code ignored;
  PODIUM_REQUIRE(!std::filesystem::is_directory(path, ignored), ExitCode::kUsage, flag, " ", path,
                 ": is a folder; name a file in it");
  // What is neither, a device or a pipe, is refused where the file is written.
  PODIUM_REQUIRE(force || !std::filesystem::is_regular_file(path, ignored), ExitCode::kUsage, flag,
                 " ", path, ": exists already; name another file, or replace it with --force");
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK) != 0)
    throw_io_error(path, "write", errno);
}

void add_force_flag(CLI::App& command, bool& force) {
  command.add_flag("--force", force, "Replace the file if it exists");
}

}  // namespace podium
