// `podium bench data`: the speed at which a core prepares a recipe's photographs.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"

namespace podium {

struct BenchDataArguments {
  RecipeArguments recipe;
  std::string data_dir;
  std::int64_t pictures = 512;  // kept in memory and processed repeatedly
  bool json = false;
};
ExitCode bench_data(const BenchDataArguments& arguments);

}  // namespace podium
