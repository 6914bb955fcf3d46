// Makes runs of one recipe with several placements, one after the other, each with its own `podium
// train`, for `podium compare --placements`.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace podium {

// One placement of "workers=1;workers=2,threads=2;ranks=2".
struct NamedPlacement {
  std::string name;                // for the run's folder: "workers-2-threads-2"
  std::vector<std::string> flags;  // of `podium train`
  int ranks = 1;
};

// Throws UserError(kUsage) if it is not a placement, with the known keys.
std::vector<NamedPlacement> parse_placements(const std::string& text);

struct PlacementRuns {
  std::string recipe;  // RECIPE and its overrides
  std::vector<std::string> overrides;
  std::vector<NamedPlacement> placements;
  std::vector<std::string> train_flags;  // for all: --steps, --data-dir, --price, ...
  std::string out;                       // folder of the runs
  std::string launcher;                  // starts ranks: LAUNCHER -n N podium train ...
};

struct MadeRuns {
  std::vector<std::string> folders;  // of the runs that were begun
  // The first that failed, for people, and its exit code; none: empty.
  std::string failure;
  ExitCode code = ExitCode::kDone;
};

// Makes the missing runs and resumes the unfinished ones. One that fails does not keep the others
// from running; one that was stopped does.
MadeRuns run_placements(const PlacementRuns& runs);

}  // namespace podium
