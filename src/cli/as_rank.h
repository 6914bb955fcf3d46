// A command that mpirun or srun may start as one of several ranks.
#pragma once

#include <functional>

#include "base/error.h"
#include "cli/command.h"
#include "parallel/transport.h"

namespace podium {

// Joins the ranks, and leaves them after `work`, which every rank does. A rank that cannot go on
// ends them all. `timeout`: seconds for which a rank may be silent or awaited.
ExitCode as_rank(double timeout, const std::function<ExitCode(Transport&)>& work);

void add_rank_timeout_flag(CLI::App& command, double& timeout);

}  // namespace podium
