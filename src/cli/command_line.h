// The command line, whole: `podium COMMAND ...`.
#pragma once

namespace podium {

// Runs what the arguments ask for. Returns the exit code (base/error.h); throws nothing.
int run_command_line(int argc, char** argv);

}  // namespace podium
