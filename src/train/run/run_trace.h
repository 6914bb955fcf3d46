// Writes the trace of a run (RunOptions::trace).
#pragma once

#include <functional>

#include "train/run/run.h"

namespace podium {

// Calls `run` with these options, where one of the ranks is to keep a trace with one for all of
// them, and lets rank 0 write it down afterwards. Throws UserError before that where the file
// cannot be written.
RunResult with_trace(const RunOptions& options, RunObserver& observer,
                     const std::function<RunResult(const RunOptions&)>& run);

}  // namespace podium
