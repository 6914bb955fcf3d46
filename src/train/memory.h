// How much memory a run may take, and what to change where that is too little.
#pragma once

#include <cstdint>
#include <string>

#include "train/environment.h"
#include "train/run.h"

namespace podium {

// "2GiB", "512MiB", "1.5GB", "100000" in bytes, at least one; UserError otherwise.
std::int64_t parse_bytes(const std::string& text);
std::string format_bytes(std::int64_t bytes);

// UserError (kMemory) where the trainer needs more than `limit` bytes, or, with 0, than `usable`,
// what this process may take of the machine; it names a setting that fits. A trainer's memory is
// address space until its first step, so one that is far too large can be asked.
void check_memory(const Trainer& trainer, const Model& model, const RunData& data,
                  std::int64_t limit, std::int64_t usable = usable_memory_bytes(),
                  StopToken stop = {});
// The same before any data are loaded, by the sizes of the sets that the recipe and the dataset
// state. With a limit of 0 only what the data alone need is looked at: a run that the user did not
// limit starts without the work of asking. Both throw Stopped as `stop` says.
void check_memory_before_loading(const Recipe& recipe, const Model& model,
                                 const Placement& placement, std::int64_t limit,
                                 std::int64_t usable = usable_memory_bytes(), StopToken stop = {});

}  // namespace podium
