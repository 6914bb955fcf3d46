// How much memory a run may take, and what to change where that is too little.
#pragma once

#include <cstdint>
#include <string>

#include "train/environment.h"
#include "train/run_plan.h"

namespace podium {

// "2GiB", "512MiB", "1.5GB", "100000" in bytes, at least one; UserError otherwise.
std::int64_t parse_bytes(const std::string& text);
std::string format_bytes(std::int64_t bytes);

// UserError (kMemory) where the run would need more than `limit` bytes, or, with 0, than `usable`,
// what this process may take of the machine; it names a setting that fits. Nothing is made for it:
// plans say what runs need (train/run_plan.h). With ranks, all call it, and all throw where one of
// them needs too much; a limit is of each rank, and ranks on one host share its machine. Throws
// Stopped as `stop` says.
void check_memory(const Recipe& recipe, const Model& model, const DataShape& data,
                  const Placement& placement, std::int64_t limit,
                  std::int64_t usable = usable_memory_bytes(), StopToken stop = {});

}  // namespace podium
