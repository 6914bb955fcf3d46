// Files that a command writes for --out or --plot. Existing files are replaced only with --force.
#pragma once

#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming)
class App;
}

namespace podium {

// Throws UserError(kUsage) if `path` is a folder, or a file and `force` is false. Call it before
// the work is done, not after. `flag` is the option that named the path.
void require_writable(const std::string& path, const std::string& flag, bool force);

void add_force_flag(CLI::App& command, bool& force);

}  // namespace podium
