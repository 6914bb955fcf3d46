// `podium bench data`: what a core makes of a recipe's photographs.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"

namespace podium {

struct BenchDataArguments {
  RecipeArguments recipe;
  std::string data_dir;
  std::int64_t pictures = 512;  // that are held in memory and gone through again and again
  bool json = false;
};
ExitCode bench_data(const BenchDataArguments& arguments);

}  // namespace podium
