// The sums that contracts are made of (docs/numerics.md), as the threads of a block compute them.
// For *.cu files only.
#pragma once

#include <bit>
#include <cstdint>

#include "backend/cuda/simt.h"
#include "base/tree.h"
#include "ops/reference_sums.h"

namespace podium::PODIUM_CUDA_SPACE {

inline constexpr int kLanes = 16;

// The tree over the lanes of each half of a warp; lane 0 of each has the sum. All 32 threads call
// it.
__device__ inline float lane_tree(float lane) {
#ifdef PODIUM_CUDA_EMULATED  // one exchange instead of four, which cost the emulation most
  const std::uint32_t* const all = simt::gather(std::bit_cast<std::uint32_t>(lane));
  const unsigned rank = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned half = rank % 32 / kLanes * kLanes;
  return tree_sum(0, kLanes, [&](std::int64_t i) { return std::bit_cast<float>(all[half + i]); });
#else
#pragma unroll
  for (int step = 1; step < kLanes; step *= 2) lane = lane + __shfl_xor_sync(~0u, lane, step);
  return lane;
#endif
}

}  // namespace podium::PODIUM_CUDA_SPACE
