// One thread for each element: what kernels without cooperation between threads are launched with.
// What keeps the memory busy: several floats a read, no division of an index by a number that only
// the host knows. For *.cu files only.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>

#include "backend/cuda/simt.h"
#include "base/error.h"
#include "base/numerics/bf16.h"

namespace podium::PODIUM_CUDA_SPACE {

// Division by a number that the host knows, as a multiplication and a shift (Granlund, Montgomery:
// Division by Invariant Integers using Multiplication, 1994). Dividends and divisor below 2^31.
class Divisor {
 public:
  explicit Divisor(std::int64_t divisor) : divisor_(static_cast<unsigned>(divisor)) {
    int log = 0;
    while (std::int64_t{1} << log < divisor) ++log;
    shift_ = 31 + log;
    factor_ = static_cast<unsigned>(((std::int64_t{1} << shift_) + divisor - 1) / divisor);
  }
  __device__ unsigned quotient(unsigned dividend) const {
    return static_cast<unsigned>(std::uint64_t{dividend} * factor_ >> shift_);
  }
  // Leaves the quotient in `dividend` and returns the remainder.
  __device__ unsigned split(unsigned& dividend) const {
    const unsigned whole = dividend;
    dividend = quotient(whole);
    return whole - dividend * divisor_;
  }

 private:
  unsigned divisor_, factor_;
  int shift_;
};

// Neighbouring floats that are read and written at once.
template <int kWidth>
struct alignas(kWidth * sizeof(float)) Pack {
  float v[kWidth];
};
template <int kWidth>
__device__ inline Pack<kWidth> load_pack(const float* from) {
  return *reinterpret_cast<const Pack<kWidth>*>(from);
}
template <int kWidth>
__device__ inline void store_pack(float* to, const Pack<kWidth>& pack) {
  *reinterpret_cast<Pack<kWidth>*>(to) = pack;
}
template <int kWidth>
struct alignas(kWidth * sizeof(std::uint16_t)) HalfPack {
  std::uint16_t v[kWidth];
};
template <int kWidth>
__device__ inline Pack<kWidth> widened(const HalfPack<kWidth>& halves) {
  Pack<kWidth> pack;
  for (int k = 0; k < kWidth; ++k) pack.v[k] = bf16_value(halves.v[k]);
  return pack;
}
// An operand from an element on. Bits that are read are turned into a value where it is needed, so
// that nothing waits for them before.
class SourceAt {
 public:
  __device__ SourceAt(const Source& from, unsigned r, std::int64_t at)
      : first_(from.has_halves() ? static_cast<const void*>(from.halves.of(r) + at)
                                 : from.floats.of(r) + at),
        halves_(from.has_halves()) {}
  __device__ float at(std::int64_t i) const { return value(bits(static_cast<unsigned>(i))); }
  __device__ std::uint32_t bits(unsigned i) const {
    return halves_ ? static_cast<const std::uint16_t*>(first_)[i]
                   : std::bit_cast<std::uint32_t>(static_cast<const float*>(first_)[i]);
  }
  __device__ float value(std::uint32_t bits) const {
    return std::bit_cast<float>(halves_ ? bits << 16 : bits);
  }
  // Where they begin, if they are halves; else null.
  __device__ const std::uint16_t* halves() const {
    return halves_ ? static_cast<const std::uint16_t*>(first_) : nullptr;
  }
  template <int kWidth>
  __device__ Pack<kWidth> pack(std::int64_t i) const {
    if (!halves_) return load_pack<kWidth>(static_cast<const float*>(first_) + i);
    return widened(
        *reinterpret_cast<const HalfPack<kWidth>*>(static_cast<const std::uint16_t*>(first_) + i));
  }

 private:
  const void* first_;
  bool halves_;
};
// Reads what begins at element `at` of an operand of replica r.
template <int kWidth>
__device__ inline Pack<kWidth> load_pack(const Source& from, unsigned r, std::int64_t at) {
  return SourceAt(from, r, at).template pack<kWidth>(0);
}
__device__ inline float load(const Source& from, unsigned r, std::int64_t at) {
  return load_pack<1>(from, r, at).v[0];
}
// Writes what begins at element `at` of a result of replica r.
template <int kWidth>
__device__ inline void store_pack(const Result& to, unsigned r, std::int64_t at,
                                  const Pack<kWidth>& pack) {
  if (to.halves.first == nullptr && !to.rounded) return store_pack(to.floats.of(r) + at, pack);
  HalfPack<kWidth> rounded;
  for (int k = 0; k < kWidth; ++k) rounded.v[k] = bf16_bits(pack.v[k]);
  if (to.floats.first != nullptr)
    store_pack(to.floats.of(r) + at, to.rounded ? widened(rounded) : pack);
  if (to.halves.first != nullptr)
    *reinterpret_cast<HalfPack<kWidth>*>(to.halves.of(r) + at) = rounded;
}
__device__ inline void store(const Result& to, unsigned r, std::int64_t at, float value) {
  store_pack<1>(to, r, at, {value});
}
// Whether tensors can be read in packs of four: rows of `extent` elements begin where packs do.
inline bool has_packs(std::int64_t extent, std::initializer_list<Source> tensors) {
  const auto begins = [](const auto& each) {
    return reinterpret_cast<std::uintptr_t>(each.first) % (4 * sizeof(*each.first)) == 0 &&
           each.stride % 4 == 0;
  };
  return extent % 4 == 0 && std::ranges::all_of(tensors, [&](const Source& tensor) {
           return begins(tensor.floats) && begins(tensor.halves);
         });
}

#ifdef PODIUM_CUDA_EMULATED

// Calls f(i, replica) for all i below `count` and each replica, in any order.
template <int kBlocks = 0, typename F>
void launch_flat(const Launch& launch, std::int64_t count, F f) {
  simt::submit_elements(launch.stream, [count, f, replicas = launch.replicas](bool reversed) {
    for (unsigned replica = 0; replica < static_cast<unsigned>(replicas); ++replica)
      if (reversed)
        for (std::int64_t i = count; i-- > 0;) f(i, replica);
      else
        for (std::int64_t i = 0; i < count; ++i) f(i, replica);
  });
}

// Calls f(row, i, replica) for all rows, all i below `count`, and each replica, in any order.
template <int kBlocks = 0, typename F>
void launch_rows(const Launch& launch, std::int64_t rows, std::int64_t count, F f) {
  launch_flat(launch, rows * count, [=](std::int64_t i, unsigned replica) {
    f(i / count, static_cast<unsigned>(i % count), replica);
  });
}

#else

inline constexpr int kFlatThreads = 256;
inline constexpr std::int64_t kMostFlatBlocks = 4096;  // beyond, a thread takes several elements

// A template, so that each file has its own instances. kBlocks: how many a multiprocessor should
// have at a time, which limits registers; 0: any number.
template <int kBlocks, typename F>
__global__ void __launch_bounds__(kFlatThreads, kBlocks) flat_kernel(std::int64_t count, F f) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step)
    f(i, blockIdx.z);
}

// Calls f(i, replica) for all i below `count` and each replica, in any order.
template <int kBlocks = 0, typename F>
void launch_flat(const Launch& launch, std::int64_t count, F f) {
  if (count == 0) return;
  const auto blocks =
      static_cast<unsigned>(std::min((count + kFlatThreads - 1) / kFlatThreads, kMostFlatBlocks));
  simt::launch(flat_kernel<kBlocks, F>,
               {.blocks = {blocks, 1, static_cast<unsigned>(launch.replicas)},
                .threads = {kFlatThreads, 1, 1}},
               launch.stream, count, f);
}

template <int kBlocks, typename F>
__global__ void __launch_bounds__(kFlatThreads, kBlocks)
    rows_kernel(std::int64_t rows, unsigned count, const __grid_constant__ F f) {
  const unsigned step = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y)
    for (unsigned i = first; i < count; i += step) f(row, i, blockIdx.z);
}

// Calls f(row, i, replica) for all rows, all i below `count`, and each replica, in any order.
// `count` is below 2^31.
template <int kBlocks = 0, typename F>
void launch_rows(const Launch& launch, std::int64_t rows, std::int64_t count, F f) {
  if (rows == 0 || count == 0) return;
  PODIUM_CHECK(count < std::int64_t{1} << 31, "a row of ", count, " elements is too long");
  constexpr std::int64_t kWarp = 32, kMostRows = 65535;
  const std::int64_t threads =
                         std::min<std::int64_t>((count + kWarp - 1) / kWarp * kWarp, kFlatThreads),
                     blocks = std::min((count + threads - 1) / threads, kMostFlatBlocks);
  simt::launch(
      rows_kernel<kBlocks, F>,
      {.blocks = {static_cast<unsigned>(blocks), static_cast<unsigned>(std::min(rows, kMostRows)),
                  static_cast<unsigned>(launch.replicas)},
       .threads = {static_cast<unsigned>(threads), 1, 1}},
      launch.stream, rows, static_cast<unsigned>(count), f);
}

#endif

// How many tensors one launch takes, as an argument of 4096 bytes at most.
inline constexpr std::int64_t kTogether = 32;

template <typename Part>
struct PartTable {
  Part parts[kTogether];
};

// Calls f(part, i, replica) for all parts, all i below part.count, and each replica, in any order.
template <typename Part, typename F>
void launch_parts(const Launch& launch, std::span<const Part> parts, F f) {
  static_assert(sizeof(PartTable<Part>) < 4000);
  while (!parts.empty()) {
    const auto some = parts.first(std::min<std::size_t>(parts.size(), kTogether));
    parts = parts.subspan(some.size());
    PartTable<Part> table;
    std::ranges::copy(some, table.parts);
    const std::int64_t most = std::ranges::max(some, {}, &Part::count).count;
    launch_rows(launch, std::ssize(some), most,
                [=] __device__(std::int64_t row, unsigned i, unsigned r) {
                  const Part& part = table.parts[row];
                  if (i < part.count) f(part, i, r);
                });
  }
}

}  // namespace podium::PODIUM_CUDA_SPACE
