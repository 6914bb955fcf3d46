// Files whose parts are read by what an index says of them: they must be as they were then.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "files/file_state.h"

namespace podium {

// Fills `out` with the bytes from `offset` on. Throws UserError(kData), which names the file, where
// it is not there any more, not readable, or not as `state` says.
void read_indexed(const std::string& path, const FileState& state, std::int64_t offset,
                  std::span<std::uint8_t> out);

}  // namespace podium
