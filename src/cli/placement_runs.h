// Runs of one recipe with several placements, each by a `podium train` of its own, one after the
// other: what `podium compare --placements` compares.
#pragma once

#include <string>
#include <vector>

namespace podium {

// One placement of "workers=1;workers=2,threads=2;ranks=2".
struct NamedPlacement {
  std::string name;                // for the run's folder: "workers-2-threads-2"
  std::vector<std::string> flags;  // of `podium train`
  int ranks = 1;
};

// UserError (kUsage) for what is no placement, with the keys that there are.
std::vector<NamedPlacement> parse_placements(const std::string& text);

struct PlacementRuns {
  std::string recipe;  // RECIPE and its overrides
  std::vector<std::string> overrides;
  std::vector<NamedPlacement> placements;
  std::vector<std::string> train_flags;  // for all: --steps, --data-dir, --price, ...
  std::string out;                       // folder of the runs
  std::string launcher;                  // starts ranks: LAUNCHER -n N podium train ...
};

// Makes those that have not been made, and resumes the unfinished. Returns their folders. UserError
// where one fails, with its exit code.
std::vector<std::string> run_placements(const PlacementRuns& runs);

}  // namespace podium
