#include "cli/as_rank.h"

#include <CLI/CLI.hpp>
#include <exception>
#include <memory>

#include "cli/command.h"
#include "parallel/ranks.h"

namespace podium {

ExitCode as_rank(double timeout, const std::function<ExitCode(Transport&)>& work) {
  const std::unique_ptr<Transport> ranks = join_ranks({.timeout = timeout});
  if (ranks->ranks() == 1) return work(*ranks);
  try {
    const ExitCode code = work(*ranks);
    ranks->leave();
    return code;
  } catch (const UserError& error) {
    if (!ranks->has_left()) ranks->abort(error.what(), error.code());
    // All ranks have found the same, and one says so.
    if (ranks->rank() == 0) throw;
    return error.code();
  } catch (const std::exception& error) {
    ranks->abort(error.what(), ExitCode::kInternal);
  }
  return ExitCode::kInternal;  // abort() does not return
}

void add_rank_timeout_flag(CLI::App& command, double& timeout) {
  command
      .add_option("--rank-timeout", timeout,
                  "With several ranks: seconds that a rank may be silent or late before the run "
                  "ends and names it; default: 60")
      ->check(between(1, 86400), "SECONDS");
}

}  // namespace podium
