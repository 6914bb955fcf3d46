// How much memory a run may use, and which settings need less.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "train/machine/environment.h"
#include "train/run/rank_plan.h"

namespace podium {

// Throws UserError(kMemory), which names a setting that fits, if the run would need more than
// `limit` bytes or, if that is 0, more than this process may use of the machine (`usable`). A limit
// is of the process: what the program itself holds counts, less `loaded` bytes of data that are in
// memory already and that the plan counts. Only plans are made for this (train/run/rank_plan.h).
// With ranks, all call it, and all throw if one of them needs too much; the limit is per rank, and
// ranks on one host share its memory. Throws Stopped if `stop` requests it. Returns
// RankPlan::program_bytes of this rank.
std::int64_t check_memory(const Recipe& recipe, const Model& model, const DataShape& data,
                          const Placement& placement, std::int64_t limit,
                          std::int64_t usable = usable_memory_bytes(), StopToken stop = {},
                          std::int64_t loaded = 0);

// Compiles a step (Trainer::compile_step()). Throws UserError(kMemory), which names a setting to
// try, if it does not fit the device, or, where that has the host's memory and a compiler that says
// what a step takes, if the run would need more than `limit` or `usable`.
void compile_within_memory(Trainer& trainer, std::int64_t limit,
                           std::int64_t usable = usable_memory_bytes());

// Calls `compile`, which compiles a step of the recipe: a UserError(kMemory) of it then names a
// setting to try, if one is known.
void with_memory_remedy(const Recipe& recipe, const std::function<void()>& compile);

}  // namespace podium
