// One thread for each element: what kernels without cooperation between threads are launched with.
// For *.cu files only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backend/cuda/simt.h"

namespace podium::PODIUM_CUDA_SPACE {

#ifdef PODIUM_CUDA_EMULATED

// Calls f(i, replica) for all i below `count` and each replica, in any order.
template <typename F>
void launch_flat(const Launch& launch, std::int64_t count, F f) {
  simt::submit_elements(launch.stream, [count, f, replicas = launch.replicas](bool reversed) {
    for (unsigned replica = 0; replica < static_cast<unsigned>(replicas); ++replica)
      if (reversed)
        for (std::int64_t i = count; i-- > 0;) f(i, replica);
      else
        for (std::int64_t i = 0; i < count; ++i) f(i, replica);
  });
}

#else

inline constexpr int kFlatThreads = 256;
inline constexpr std::int64_t kMostFlatBlocks = 4096;  // beyond, a thread takes several elements

// A template, so that each file has its own instances.
template <typename F>
__global__ void __launch_bounds__(kFlatThreads) flat_kernel(std::int64_t count, F f) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step)
    f(i, blockIdx.z);
}

// Calls f(i, replica) for all i below `count` and each replica, in any order.
template <typename F>
void launch_flat(const Launch& launch, std::int64_t count, F f) {
  if (count == 0) return;
  const auto blocks =
      static_cast<unsigned>(std::min((count + kFlatThreads - 1) / kFlatThreads, kMostFlatBlocks));
  simt::launch(flat_kernel<F>,
               {.blocks = {blocks, 1, static_cast<unsigned>(launch.replicas)},
                .threads = {kFlatThreads, 1, 1}},
               launch.stream, count, f);
}

#endif

}  // namespace podium::PODIUM_CUDA_SPACE
