// The page of `podium data show RECIPE --out FILE`: what a recipe makes of its images.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"

namespace podium {

struct PageArguments {
  RecipeArguments recipe;
  std::string out, data_dir, split;
  std::int64_t first = 0, count = 0, epoch = 0;
  bool json = false, force = false;
};

// One row an example: its name, the original, and what the epochs from `epoch` on show of it.
ExitCode write_data_page(const PageArguments& arguments);

}  // namespace podium
