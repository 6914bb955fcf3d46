// Files whose parts are read by what an index says of them: they must be as they were then.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
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

// Calls work(i) for i in [0, count), on as many threads as the machine has cores, in any order. The
// first exception ends it and is thrown.
void for_each_file(std::int64_t count, const std::function<void(std::int64_t)>& work);

// Fills `out` with the bytes from `offset` on. Throws UserError(kData), which names the file, where
// it is not there any more, not readable, or not as `state` says.
void read_indexed(const std::string& path, const FileState& state, std::int64_t offset,
                  std::span<std::uint8_t> out);

}  // namespace podium
