// The page of `podium data show RECIPE --out FILE`: the images as a recipe augments them.
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

// One row per example: its name, the original, and its versions in the epochs from `epoch` on.
ExitCode write_data_page(const PageArguments& arguments);

}  // namespace podium
