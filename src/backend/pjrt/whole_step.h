// A whole step as one program of a plugin.
#pragma once

#include <functional>
#include <memory>

#include "backend/device.h"
#include "backend/pjrt/memory.h"

namespace podium::pjrt {

// On one device of the plugin. `graph_of`: of the executables of the step's calls. Compiled when it
// first runs.
std::unique_ptr<WholeStep> compile_whole_step(
    Memory& memory, int device, const StepProgram& step,
    const std::function<const Graph&(const Executable&)>& graph_of);

}  // namespace podium::pjrt
