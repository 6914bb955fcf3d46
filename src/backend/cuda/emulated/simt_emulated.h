// CUDA's execution model on one thread of a processor, for tests. The blocks of a grid run one
// after the other, and so do the threads of a block; one that meets a barrier waits on a stack of
// its own until the others have come. Shared memory begins as NaN. A barrier that not all threads
// reach ends the program. A missing barrier gives other bits in another order of the threads, and
// ThreadSanitizer names it.
//
// Copies to shared memory (copy16) are made when they are waited for, so that what reads earlier
// finds NaN.
//
// What this cannot show: races between blocks, faults of the assembler or the driver, and all
// speed.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>

#include "backend/cuda/launch.h"
#include "base/numerics/precision.h"

// CUDA's own names.
// NOLINTBEGIN(*-reserved-identifier,cert-*,readability-identifier-naming)
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

namespace podium::cuda_emulated {

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace simt {

// The size of a launch.
struct Grid {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;
};

// The order in which the threads of a block run between two barriers.
enum class Order : std::uint8_t { kForward, kReverse, kShuffled };
void set_order(Order order);
Order order();

// Runs a kernel now.
void run(const Grid& grid, const std::function<void()>& kernel);
// Does what the runtime does with a launch: now, or later if the stream is being captured
// (runtime.h).
void submit(Stream stream, const Grid& grid, std::function<void()> kernel);
// The same for a kernel whose threads do not cooperate, as one loop over all of them, forwards or
// reversed.
void submit_elements(Stream stream, std::function<void(bool reversed)> loop);

void wait_for_block();
void wait_for_warp(unsigned mask);
std::uint32_t exchange(unsigned mask, std::uint32_t value, int lane_mask);
// The values of all 32 lanes of a warp, which call it together; valid until the next exchange.
const std::uint32_t* gather(std::uint32_t value);
// The order in which tensor cores add from now on; none: each sum of 16 products and d is rounded
// once, which is no rule that a GPU has.
void set_tensor_core(std::optional<Bf16Order> order);
// d += a b on a tensor core (simt.h).
void add_bf16_products(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);
// Copies to shared memory (simt.h).
void copy16(void* shared, const void* from, bool there);
void end_copies();
void wait_for_copies(int groups);
template <int kGroups>
void wait_for_copies() {
  wait_for_copies(kGroups);
}
int lane();
// Matrices from shared memory (simt.h). A lane reads what it gets, so that nothing is exchanged.
template <bool kTransposed, typename Row>
void load_matrices(std::uint32_t (&to)[4], const Row& row) {
  const int group = lane() / 4, first = lane() % 4 * 2;
  const auto element = [&](int matrix, int i, int j) {
    return std::uint32_t{static_cast<const std::uint16_t*>(row(matrix * 8 + i))[j]};
  };
  for (int matrix = 0; matrix < 4; ++matrix)
    to[matrix] = kTransposed
                     ? element(matrix, first, group) | element(matrix, first + 1, group) << 16
                     : element(matrix, group, first) | element(matrix, group, first + 1) << 16;
}
void* shared_memory();
// Of a place of it: the bytes before it.
unsigned shared_address(const void* place);

// Products of a warpgroup (simt_warpgroup.h). With the threads in forward order they are computed
// where they begin, else where they are waited for.
bool has_warpgroup_code();
void add_warpgroup_products(float* sums, int columns, bool side_by_side, std::uint64_t a,
                            std::uint64_t b);
template <int kN, bool kColumns>
void add_warpgroup_products(float (&sums)[kN / 2], std::uint64_t a, std::uint64_t b) {
  add_warpgroup_products(sums, kN, kColumns, a, b);
}
inline constexpr bool kHasWarpgroups = true;
inline void begin_products() {}
void end_products();
void wait_for_products(int groups);
template <int kGroups>
void wait_for_products() {
  wait_for_products(kGroups);
}
template <int kGroups>
void wait_for_operands() {
  wait_for_copies(kGroups);
}
template <int kCount>
void settle(float (&/*sums*/)[kCount]) {}
template <int kCount>
void take_sums(float (&/*sums*/)[kCount]) {
  wait_for_products(0);
}
// Ends the program (simt.h).
void stop();

template <typename T>
T& shared() {
  return *static_cast<T*>(shared_memory());
}

// The most shared memory of a block.
std::size_t most_shared_bytes();

int emulated_code_version();
template <typename... P>
int code_version(void (* /*kernel*/)(P...)) {
  return emulated_code_version();
}

template <typename... P, typename... A>
void launch(void (*kernel)(P...), const Grid& grid, Stream stream, A&&... arguments) {
  submit(stream, grid,
         [kernel, values = std::tuple<std::decay_t<P>...>(static_cast<P>(arguments)...)] {
           std::apply(kernel, values);
         });
}

}  // namespace simt

inline void __syncthreads() { simt::wait_for_block(); }
inline void __syncwarp(unsigned mask = ~0u) { simt::wait_for_warp(mask); }
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask) {
  static_assert(sizeof(T) == sizeof(std::uint32_t));
  return std::bit_cast<T>(simt::exchange(mask, std::bit_cast<std::uint32_t>(value), lane_mask));
}

}  // namespace podium::cuda_emulated
// NOLINTEND(*-reserved-identifier,cert-*,readability-identifier-naming)
