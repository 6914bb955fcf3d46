// The flags that say where a run is computed. None of them changes a result.
#pragma once

#include <string>

#include "cli/command.h"
#include "train/loop/trainer.h"

namespace podium {

void add_placement_flags(CLI::App& command, Placement& placement);
// For commands that train.
void add_input_flags(CLI::App& command, Placement& placement);
void add_data_dir_flag(CLI::App& command, std::string& data_dir);

}  // namespace podium
