// Whether a GPU's tensor cores add as the rule of an order says (base/numerics/tensor_core.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backend/cuda/launch.h"
#include "backend/cuda/runtime.h"
#include "base/numerics/precision.h"

namespace podium::PODIUM_CUDA_SPACE {

// The order that GPUs of this compute capability have been found to add in; none for older ones,
// which have no tensor cores for BF16.
std::optional<Bf16Order> tensor_core_order(const runtime::DeviceInfo& device);
// Why the current device cannot multiply BF16 numbers in this program, for people; empty if it can.
std::string bf16_missing(const runtime::DeviceInfo& device);

// Adds random groups, in chains of several, of numbers of all sizes and near each other, zeros,
// infinities and NaN among them.
struct Probe {
  std::int64_t sums = 0, differences = 0;  // from the rule
};
Probe probe_tensor_cores(Stream stream, Bf16Order order, int warps, std::uint32_t seed);

// Whether the current device and this program's code for it have products of warpgroups, and these
// make of random tiles of such numbers what warps make of them.
struct WarpgroupProbe {
  bool has = false;
  std::int64_t sums = 0, differences = 0;
};
WarpgroupProbe probe_warpgroups(Stream stream, const runtime::DeviceInfo& device, int terms = 256);

}  // namespace podium::PODIUM_CUDA_SPACE
