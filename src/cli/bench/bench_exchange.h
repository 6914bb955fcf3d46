// `podium bench exchange`: what the sums over ranks cost, beside MPI's own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.h"
#include "parallel/ranks.h"
#include "parallel/transport.h"
#include "train/loop/trainer.h"

namespace podium {

struct BenchExchangeArguments {
  RecipeArguments recipe;          // empty: sums of memory of these sizes
  std::vector<std::string> sizes;  // as parse_bytes() reads them
  Placement placement;
  std::string data_dir;
  std::int64_t rounds = 5, steps = 20;
  RankOptions ranks;
  bool json = false;
};
// Every rank calls it; rank 0 prints.
ExitCode bench_exchange(const BenchExchangeArguments& arguments, Transport& ranks);

}  // namespace podium
