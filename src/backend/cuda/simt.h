// What a file of kernels (kernels/*.cu) includes. nvcc compiles it for GPUs; the compiler of the
// rest compiles the same source for the emulation (simt_emulated.h), on which the tests compare its
// results with the contracts, bit for bit, on a machine without a GPU.
//
//   struct Shared { float tile[16][16]; };
//   __global__ void kernel(const float* x, float* y) { auto& shared = simt::shared<Shared>(); ... }
//   simt::launch(kernel, {.blocks = {8}, .threads = {128}, .shared_bytes = sizeof(Shared)}, stream,
//                x, y);
//
// A kernel uses threadIdx, blockIdx, blockDim, gridDim, __syncthreads(), __syncwarp() and
// __shfl_xor_sync() alone. Shared memory holds anything at the start. Arithmetic is that of the
// contracts: std::fma where they say fma, plain operators elsewhere; no compiler contracts
// (-fmad=false, -ffp-contract=off), and division and std::sqrt are correctly rounded.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backend/cuda/launch.h"
#include "backend/cuda/space.h"

#ifdef PODIUM_CUDA_EMULATED
#include "backend/cuda/simt_emulated.h"  // IWYU pragma: export
#else
#include <cuda_runtime.h>

namespace podium::PODIUM_CUDA_SPACE {

// Of runtime_cuda.cc: the cudaStream_t of a stream, and an error that says which call failed.
void* simt_stream(Stream stream);
void simt_require(int error, const char* call);

namespace simt {

// The size of a launch.
struct Grid {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;
};

// The block's shared memory.
template <typename T>
__device__ T& shared() {
  extern __shared__ __align__(16) unsigned char podium_shared_memory[];
  return *reinterpret_cast<T*>(podium_shared_memory);
}

template <typename... P, typename... A>
void launch(void (*kernel)(P...), const Grid& grid, Stream stream, A&&... arguments) {
  constexpr std::size_t kWithoutAsking = 48 * 1024;
  if (grid.shared_bytes > kWithoutAsking)
    simt_require(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(grid.shared_bytes)),
                 "cudaFuncSetAttribute");
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = static_cast<cudaStream_t>(simt_stream(stream));
  simt_require(cudaLaunchKernelEx(&config, kernel, static_cast<P>(arguments)...),
               "cudaLaunchKernelEx");
}

}  // namespace simt
}  // namespace podium::PODIUM_CUDA_SPACE
#endif
