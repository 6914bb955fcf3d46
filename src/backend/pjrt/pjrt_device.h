// Devices of a PJRT plugin: TPUs, GPUs, or XLA's own CPU (plugin.h says how one is chosen).
// Programs are handed to it as StableHLO.
//
// A Buffer stands for one vector of 32-bit words in the plugin's memory, which never changes: what
// writes to a part of it makes a new vector, in the memory of the old one, since the program takes
// that as donated. Worker i computes on device i mod the plugin's devices; a vector is copied to
// the device where it is read.
#pragma once

#include <memory>

#include "backend/device.h"

namespace podium {

// Throws UserError where the environment names no plugin that works.
std::unique_ptr<Device> make_pjrt_device(const DeviceOptions& options);
// For the text of programs (WholeStep::text()): so many devices that are not there. Nothing can run
// on them.
std::unique_ptr<Device> make_absent_pjrt_device(const DeviceOptions& options, int devices);

}  // namespace podium
