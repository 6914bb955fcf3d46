#include "train/run/run_trace.h"

#include <string>
#include <vector>

#include "base/trace.h"
#include "files/file_io.h"
#include "train/loop/run_ranks.h"

namespace podium {

RunResult with_trace(const RunOptions& options, RunObserver& observer,
                     const std::function<RunResult(const RunOptions&)>& run) {
  const RunRanks ranks(options.placement);
  if (ranks.agree(options.trace.empty() ? 0 : 1) == 0) return run(options);
  Trace trace;  // outlives the trainer
  RunOptions traced = options;
  traced.placement.trace = &trace;
  const bool writes = ranks.leads() && !options.trace.empty();
  // A file that cannot be written is found out now.
  if (writes) replace_text(options.trace, trace_text({}));
  ranks.agree(0);
  trace.start_at(Clock::now());  // the same moment on all hosts, within a message's time
  const RunResult result = run(traced);
  const std::vector<std::string> events = ranks.gather(
      trace.events(ranks.rank(), ranks.several() ? ranks.name() : std::string("podium")));
  if (writes) replace_text(options.trace, trace_text(events));
  if (trace.left_out() > 0)
    observer.warning(cat("the trace contains only the first spans; ", trace.left_out(),
                         " later ones were dropped"));
  return result;
}

}  // namespace podium
