// A whole step as one program of a plugin.
#pragma once

#include <memory>
#include <vector>

#include "backend/device.h"
#include "backend/pjrt/memory.h"
#include "backend/pjrt/step_module.h"

namespace podium::pjrt {

// On these devices of the plugin, one for each worker. Compiled when it first runs.
std::unique_ptr<WholeStep> compile_whole_step(Memory& memory, std::vector<int> devices,
                                              const StepProgram& step, const GraphOf& graph_of,
                                              ReplicaOrder order);

}  // namespace podium::pjrt
