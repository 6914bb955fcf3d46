// What a file of kernels (kernels/*.cu) includes. nvcc compiles it for GPUs; the compiler of the
// rest compiles the same source for the emulation (simt_emulated.h), on which the tests compare its
// results with the contracts, bit for bit, on a machine without a GPU.
//
//   struct Shared { float tile[16][16]; };
//   __global__ void kernel(const float* x, float* y) { auto& shared = simt::shared<Shared>(); ... }
//   simt::launch(kernel, {.blocks = {8}, .threads = {128}, .shared_bytes = sizeof(Shared)}, stream,
//                x, y);
//
// A kernel uses threadIdx, blockIdx, blockDim, gridDim, __syncthreads(), __syncwarp(),
// __shfl_xor_sync() and the functions of namespace simt alone. Shared memory holds anything at the
// start. Arithmetic is that of the contracts: std::fma where they say fma, plain operators
// elsewhere; no compiler contracts (-fmad=false, -ffp-contract=off), and division and std::sqrt are
// correctly rounded.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backend/cuda/launch.h"
#include "backend/cuda/space.h"

#ifdef PODIUM_CUDA_EMULATED
#include "backend/cuda/emulated/simt_emulated.h"  // IWYU pragma: export
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
  extern __shared__ __align__(1024) unsigned char podium_shared_memory[];
  return *reinterpret_cast<T*>(podium_shared_memory);
}
// How instructions name a place of it.
__device__ inline unsigned shared_address(const void* place) {
  return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

// Ends the program: for code that the device has been asked not to run.
__device__ inline void stop() { __trap(); }

// Copies of 16 bytes to shared memory that go on while the thread does something else; zeros
// instead if nothing is there. Copies since the last end_copies() are a group. A thread sees its
// own once wait_for_copies<N>() has waited for all groups but the last N, and those of others after
// a barrier, too. Both addresses are multiples of 16.
__device__ inline void copy16(void* shared, const void* from, bool there) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  *static_cast<uint4*>(shared) = there ? *static_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(from), "r"(there ? 16 : 0)
               : "memory");
#endif
}
__device__ inline void end_copies() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int kGroups>
__device__ inline void wait_for_copies() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
#endif
}

// Four matrices of 8 x 8 numbers of 16 bits from shared memory, for a warp together: row(i) is
// where row i % 8 of matrix i / 8 begins, a multiple of 16 bytes. A lane gets of each matrix
// elements 2 i and 2 i + 1 of row `group`, with group = lane / 4 and i = lane % 4; with
// kTransposed, of column `group`.
template <bool kTransposed, typename Row>
__device__ inline void load_matrices(std::uint32_t (&to)[4], const Row& row) {
  const unsigned from = shared_address(row(static_cast<int>(threadIdx.x % 32)));
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

// d += a b on tensor cores: a is 16 x 16, row by row, b 16 x 8, column by column, both BF16 in
// pairs, d FP32. A warp calls it together. With group = lane / 4 and i = lane % 4, a lane has the
// pairs (i, i + 4) of rows (group, group + 8) of a, in the order (group, i), (group + 8, i),
// (group, i + 4), (group + 8, i + 4); pairs i and i + 4 of column `group` of b; and columns 2 i and
// 2 i + 1 of d, of row `group`, then of row group + 8. Products are added as
// base/numerics/tensor_core.h says, on GPUs that tensor_cores.h has found to keep its rule.
__device__ inline void add_bf16_products(float (&d)[4], const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  stop();
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// The compute capability, times ten, that the kernel's code was made for: that of a virtual GPU
// where the driver has translated it.
template <typename... P>
int code_version(void (*kernel)(P...)) {
  cudaFuncAttributes attributes{};
  simt_require(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  return attributes.ptxVersion;
}

// The most shared memory of a block that the current device has.
std::size_t most_shared_bytes();

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
