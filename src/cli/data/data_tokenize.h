// `podium data tokenize`: shards of tokens from texts.
#pragma once

#include "cli/command.h"

namespace podium {

void add_tokenize_command(CLI::App& data, CommandLine& line);

}  // namespace podium
