#include "cli/as_rank.h"

#include <CLI/CLI.hpp>
#include <exception>
#include <memory>

#include "cli/command.h"
#include "parallel/ranks.h"

namespace podium {

ExitCode as_rank(const RankOptions& options, const std::function<ExitCode(Transport&)>& work) {
  const std::unique_ptr<Transport> ranks = join_ranks(options);
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

void add_rank_flags(CLI::App& command, RankOptions& options) {
  command
      .add_option("--rank-timeout", options.timeout,
                  "With several ranks: seconds that a rank may be silent or late before the run "
                  "ends and names it; default: 60")
      ->check(between(1, 86400), "SECONDS");
  command
      .add_option("--check-messages", options.check_messages,
                  "With several ranks: give each message between hosts a checksum, which the "
                  "receiver compares: on, off, or auto, where the ranks are on several hosts; "
                  "default: auto")
      ->check(CLI::IsMember({"on", "off", "auto"}));
}

}  // namespace podium
