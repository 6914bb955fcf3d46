// Files that a command writes where --out or --plot says: nothing is overwritten unasked.
#pragma once

#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming)
class App;
}

namespace podium {

// UserError (kUsage) where a folder stands at `path`, or a file and `force` is false. To be called
// before the work is done, not after. `flag` is the option that named the path.
void require_writable(const std::string& path, const std::string& flag, bool force);

void add_force_flag(CLI::App& command, bool& force);

}  // namespace podium
