// The sums that contracts are made of (docs/numerics.md), as the threads of a block compute them.
// For *.cu files only.
#pragma once

#include <bit>
#include <cstdint>

#include "backend/cuda/simt.h"
#include "base/numerics/tree.h"
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

// The largest lane of each half; NaN is left out. All lanes have it, and all 32 threads call it.
__device__ inline float lane_most(float lane) {
#ifdef PODIUM_CUDA_EMULATED
  const std::uint32_t* const all = simt::gather(std::bit_cast<std::uint32_t>(lane));
  const unsigned rank = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  for (unsigned i = rank / kLanes * kLanes % 32, end = i + kLanes; i < end; ++i)
    if (const auto other = std::bit_cast<float>(all[i]); other > lane) lane = other;
#else
#pragma unroll
  for (int step = 1; step < kLanes; step *= 2) {
    const float other = __shfl_xor_sync(~0u, lane, step);
    if (other > lane) lane = other;
  }
#endif
  return lane;
}

// The lane of an image sum over `part(n)`, several of which are read at once.
template <typename Part>
__device__ float image_lane(std::int64_t images, unsigned lane, const Part& part) {
  constexpr int kAhead = 8;
  float sum = 0;
  for (std::int64_t n = lane; n < images; n += kAhead * kLanes) {
    float parts[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      parts[k] = n + k * kLanes < images ? part(n + k * kLanes) : 0.0f;
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (n + k * kLanes < images) sum = sum + parts[k];
  }
  return sum;
}

inline constexpr int kTreeColumns = 32;
// The same of a block of threads [lane][column], each column having its own tree: all threads call
// it, and all get their column's sum.
struct LaneTable {
  float of[kLanes][kTreeColumns];
};
__device__ inline float column_tree(LaneTable& table, float lane_value) {
  const unsigned column = threadIdx.x, lane = threadIdx.y;
  __syncthreads();
  table.of[lane][column] = lane_value;
  for (unsigned step = 1; step < kLanes; step *= 2) {
    __syncthreads();
    if (lane % (2 * step) == 0)
      table.of[lane][column] = table.of[lane][column] + table.of[lane + step][column];
  }
  __syncthreads();
  return table.of[0][column];
}

}  // namespace podium::PODIUM_CUDA_SPACE
