// How fast a core of this machine prepares the examples of a recipe: decodes, crops, resizes,
// normalises and augments them.
#pragma once

#include <string>

#include "train/recipe/recipe.h"
#include "train/run/rank_plan.h"

namespace podium {

struct InputRate {
  double examples_per_core = 0;  // in a second
  std::string of;                // what was prepared, for people
};

// Measured now, in less than a second. Of a recipe with pictures in files, these are its own; if
// they are not here or cannot be decoded, it is one that is drawn, a JPEG of 500 x 375 pixels.
InputRate measure_input_rate(const Recipe& recipe, const DataShape& data,
                             const std::string& data_dir = "");

}  // namespace podium
