// A command that mpirun or srun may start as one of several ranks.
#pragma once

#include <functional>

#include "base/error.h"
#include "cli/command.h"
#include "parallel/ranks.h"

namespace podium {

// Joins the ranks, and leaves them after `work`, which every rank does. A rank that cannot go on
// ends them all.
ExitCode as_rank(const RankOptions& options, const std::function<ExitCode(Transport&)>& work);

void add_rank_flags(CLI::App& command, RankOptions& options);

}  // namespace podium
