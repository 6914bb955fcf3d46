// The roof of a GPU.
#pragma once

#include "backend/cuda/executable.h"
#include "backend/cuda/runtime.h"
#include "backend/device_roof.h"

namespace podium::PODIUM_CUDA_SPACE {

// Bandwidths are measured; peaks are the multiprocessors, their clock at most and what one of them
// does in a cycle. The caller holds the queue's mutex.
DeviceRoof roof_of(Queue& queue, const runtime::DeviceInfo& device);

}  // namespace podium::PODIUM_CUDA_SPACE
