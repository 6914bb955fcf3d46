// Whether a file is still what it was.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

namespace podium {

// What tells that a file has changed.
struct FileState {
  std::int64_t size = 0, time = 0;  // of its last change, in ns
  bool operator==(const FileState&) const = default;
};

FileState state_in(const struct stat& status);
// Of a file that can be found; links are followed. nullopt with errno set: it cannot.
std::optional<FileState> state_of(const std::string& path);

}  // namespace podium
