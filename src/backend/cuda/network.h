// Messages between GPUs by NCCL, on a stream of their own.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "backend/cuda/executable.h"
#include "backend/device_network.h"

namespace podium::PODIUM_CUDA_SPACE {

// The text that ranks join by.
std::string make_nccl_key();
// By all ranks; does not wait for them. The queue must outlive the network.
std::unique_ptr<DeviceNetwork> join_nccl(Queue& queue, const std::string& key, int rank,
                                         std::span<const std::string> names);

}  // namespace podium::PODIUM_CUDA_SPACE
