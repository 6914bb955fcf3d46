// What the kernels on tensor cores share: a block computes a tile of kM x kN sums, and each of its
// warps a part of it, in units of 16 x 8. The terms come in slices of 32, as 16 pairs of BF16
// numbers, through shared memory in two buffers. For *.cu files only.
#pragma once

#include <cstdint>

#include "backend/cuda/simt.h"

namespace podium::PODIUM_CUDA_SPACE {

using Pair = std::uint32_t;  // two BF16 numbers, the first in the lower half

struct alignas(16) Pair4 {
  Pair x, y, z, w;
};
__device__ inline Pair4 load_pairs(const Pair* p) { return *reinterpret_cast<const Pair4*>(p); }
__device__ inline void store_pairs(Pair* p, const Pair4& v) { *reinterpret_cast<Pair4*>(p) = v; }

inline constexpr int kPairs = 16;  // of a slice
inline constexpr int kHalf = 16;   // terms of half a slice, which one instruction adds

// kByTerm: neighbours in memory are rows of one pair, otherwise pairs of one row. Strides keep the
// 32 lanes that read a register of an operand in different banks.
template <int kRows, bool kByTerm>
struct OperandTile {
  static constexpr int kStride = kByTerm ? kRows + 8 : kPairs + 4;
  alignas(16) Pair values[kByTerm ? kPairs : kRows][kStride];
  __device__ Pair at(int row, int pair) const {
    return kByTerm ? values[pair][row] : values[row][pair];
  }
};

template <int kTileM, int kTileN, int kWarpsM, int kWarpsN, bool kByTerm>
struct TensorTile {
  static constexpr int kM = kTileM, kN = kTileN, kThreads = 32 * kWarpsM * kWarpsN;
  static constexpr int kUnitsM = kM / kWarpsM / 16, kUnitsN = kN / kWarpsN / 8;
  static_assert(kUnitsM * 16 * kWarpsM == kM && kUnitsN * 8 * kWarpsN == kN);

  struct Shared {
    OperandTile<kM, kByTerm> a[2];
    OperandTile<kN, kByTerm> b[2];
  };
  // What a thread fetches of a slice, in fours: fetch(row, pair) reads the next ones of one pair,
  // or of one row.
  template <int kRows>
  struct Fetched {
    static constexpr int kFours = kRows * kPairs / 4, kLoads = (kFours + kThreads - 1) / kThreads;
    Pair4 values[kLoads];

    template <typename Fetch>
    __device__ void fetch(const Fetch& from) {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int at = i * kThreads + thread();
        if (kFours % kThreads != 0 && at >= kFours) return;
        values[i] = kByTerm ? from(at % (kRows / 4) * 4, at / (kRows / 4))
                            : from(at / (kPairs / 4), at % (kPairs / 4) * 4);
      }
    }
    __device__ void put(OperandTile<kRows, kByTerm>& to) const {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int at = i * kThreads + thread();
        if (kFours % kThreads != 0 && at >= kFours) return;
        if (kByTerm)
          store_pairs(&to.values[at / (kRows / 4)][at % (kRows / 4) * 4], values[i]);
        else
          store_pairs(&to.values[at / (kPairs / 4)][at % (kPairs / 4) * 4], values[i]);
      }
    }
  };
  using Sums = float[kUnitsM][kUnitsN][4];

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int lane() { return thread() % 32; }
  // The first row and column of the warp's part.
  __device__ static int first_row() { return thread() / 32 / kWarpsN * (kM / kWarpsM); }
  __device__ static int first_column() { return thread() / 32 % kWarpsN * (kN / kWarpsN); }

  __device__ static void clear(Sums& sums) {
#pragma unroll
    for (int i = 0; i < kUnitsM; ++i)
#pragma unroll
      for (int j = 0; j < kUnitsN; ++j)
#pragma unroll
        for (int k = 0; k < 4; ++k) sums[i][j][k] = 0;
  }
  __device__ static void multiply(const Shared& shared, int buffer, Sums& sums) {
    const auto& a = shared.a[buffer];
    const auto& b = shared.b[buffer];
    const int group = lane() / 4, in_group = lane() % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int pair = half * (kHalf / 2) + in_group;
      Pair columns[kUnitsN][2];
#pragma unroll
      for (int j = 0; j < kUnitsN; ++j) {
        const int column = first_column() + 8 * j + group;
        columns[j][0] = b.at(column, pair);
        columns[j][1] = b.at(column, pair + 4);
      }
#pragma unroll
      for (int i = 0; i < kUnitsM; ++i) {
        const int row = first_row() + 16 * i + group;
        const Pair rows[4] = {a.at(row, pair), a.at(row + 8, pair), a.at(row, pair + 4),
                              a.at(row + 8, pair + 4)};
#pragma unroll
        for (int j = 0; j < kUnitsN; ++j) simt::add_bf16_products(sums[i][j], rows, columns[j]);
      }
    }
  }
  // Calls put(row, column, first, second) for each two neighbours of a row.
  template <typename Put>
  __device__ static void for_each_two(const Sums& sums, const Put& put) {
    const int row = first_row() + lane() / 4, column = first_column() + lane() % 4 * 2;
#pragma unroll
    for (int j = 0; j < kUnitsN; ++j)
#pragma unroll
      for (int i = 0; i < kUnitsM; ++i) {
        put(row + 16 * i, column + 8 * j, sums[i][j][0], sums[i][j][1]);
        put(row + 16 * i + 8, column + 8 * j, sums[i][j][2], sums[i][j][3]);
      }
  }
};

// The sums of all slices: source.next() goes to the next slice and says whether there is one,
// source.fetch(a, b) reads it.
template <typename T, typename Source>
__device__ void sum_slices(typename T::Shared& shared, Source& source, typename T::Sums& sums) {
  typename T::template Fetched<T::kM> a;
  typename T::template Fetched<T::kN> b;
  T::clear(sums);
  bool more = source.next();
  if (more) source.fetch(a, b);
  for (int buffer = 0; more; buffer ^= 1) {
    a.put(shared.a[buffer]);
    b.put(shared.b[buffer]);
    __syncthreads();
    more = source.next();
    if (more) source.fetch(a, b);
    T::multiply(shared, buffer, sums);
  }
}

}  // namespace podium::PODIUM_CUDA_SPACE
