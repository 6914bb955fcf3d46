// The CPU backend: own kernels on Highway (kernels/), the batch of a replica in the vector lanes. A
// graph becomes a flat list of kernel calls with offsets into one arena; a worker runs it on one
// thread, or shares the parts of each kernel out among several, with the same bits. A worker that
// waits for others takes parts of their kernels.
#pragma once

#include <memory>

#include "backend/device.h"

namespace podium {

std::unique_ptr<Device> make_cpu_device(const DeviceOptions& options);

}  // namespace podium
