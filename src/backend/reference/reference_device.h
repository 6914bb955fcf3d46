// The interpreter that is the contract: each node's scalar reference loops, one after the other.
// Oracle of every other backend; slow.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/device.h"

namespace podium {

std::unique_ptr<Device> make_reference_device(const DeviceOptions& options);

// Runs a graph once on host tensors, in the order of its inputs; returns its outputs.
std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs);

}  // namespace podium
