// Files of the user's cache folder: what can be made again, kept so that it need not be.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace podium {

// $XDG_CACHE_HOME/podium or ~/.cache/podium; empty if neither variable is set.
std::string cache_folder();

// The bytes of a file; nothing where it cannot be read.
std::optional<std::string> read_cache_file(const std::string& path);

// Writes a file beside `path` and renames it, so that a reader sees the old one or the new one,
// whole; makes the folder. False where that cannot be done: `path` is as it was.
bool keep_cache_file(const std::string& path, std::string_view bytes);

}  // namespace podium
