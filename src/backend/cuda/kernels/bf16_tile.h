// What the kernels on tensor cores share: a block computes a tile of kM x kN sums, and each of its
// warps a part of it, in units of 16 x 8. The terms come in slices of 32 through shared memory,
// which holds several: while one is multiplied, the next are on their way. For *.cu files only.
#pragma once

#include <cstdint>

#include "backend/cuda/seeded_fault.h"
#include "backend/cuda/simt.h"

namespace podium::PODIUM_CUDA_SPACE {

using Half = std::uint16_t;  // the bits of a BF16 number

inline constexpr int kTerms = 32;    // of a slice
inline constexpr int kOctet = 8;     // numbers of 16 bytes, which are copied at once
inline constexpr int kStages = 3;    // slices in shared memory
inline constexpr int kProduct = 16;  // terms that one instruction adds

// Operand a has the terms of a row side by side. So has b, or else, with kColumns, the columns of a
// term. Lines lie so far apart that the eight that one instruction reads are in different banks.
template <int kTileM, int kTileN, int kWarpsM, int kWarpsN, bool kColumns>
struct TensorTile {
  static constexpr int kM = kTileM, kN = kTileN, kThreads = 32 * kWarpsM * kWarpsN;
  static constexpr int kUnitsM = kM / kWarpsM / 16, kUnitsN = kN / kWarpsN / 8;
  static_assert(kUnitsM * 16 * kWarpsM == kM && kUnitsN * 8 * kWarpsN == kN && kUnitsN % 2 == 0);
  static constexpr int kLineOctets = kColumns ? kN / kOctet : kTerms / kOctet;  // of b
  static constexpr int kLines = kColumns ? kTerms : kN;

  struct Stage {
    alignas(16) Half a[kM][kTerms + kOctet];
    alignas(16) Half b[kLines][kLineOctets * kOctet + kOctet];
  };
  struct Shared {
    Stage stages[kStages];
  };
  using Sums = float[kUnitsM][kUnitsN][4];

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int lane() { return thread() % 32; }
  // The first row and column of the warp's part.
  __device__ static int first_row() { return thread() / 32 / kWarpsN * (kM / kWarpsM); }
  __device__ static int first_column() { return thread() / 32 % kWarpsN * (kN / kWarpsN); }

  // Calls f(i, line, octet) for the thread's share of a tile's octets. A thread has the same octet
  // of several lines, `i` being their number.
  template <int kTileLines, int kOctets, typename F>
  __device__ static void for_each_octet(const F& f) {
    static_assert(kThreads % kOctets == 0);
    constexpr int kStep = kThreads / kOctets;
#pragma unroll
    for (int i = 0; i < (kTileLines + kStep - 1) / kStep; ++i) {
      const int line = i * kStep + thread() / kOctets;
      if (kTileLines % kStep != 0 && line >= kTileLines) return;
      f(i, line, thread() % kOctets);
    }
  }

  __device__ static void clear(Sums& sums) {
#pragma unroll
    for (int i = 0; i < kUnitsM; ++i)
#pragma unroll
      for (int j = 0; j < kUnitsN; ++j)
#pragma unroll
        for (int k = 0; k < 4; ++k) sums[i][j][k] = 0;
  }
  // What a warp multiplies at once: 16 terms of its rows and columns.
  struct Operands {
    std::uint32_t rows[kUnitsM][4], columns[kUnitsN / 2][4];

    __device__ void load(const Stage& stage, int first) {
#pragma unroll
      for (int j = 0; j < kUnitsN / 2; ++j)
        simt::load_matrices<kColumns>(columns[j], [&](int i) -> const void* {
          const int column = first_column() + 16 * j + i / 16 * 8, term = first + i / 8 % 2 * 8;
          return kColumns ? &stage.b[term + i % 8][column] : &stage.b[column + i % 8][term];
        });
#pragma unroll
      for (int i = 0; i < kUnitsM; ++i)
        simt::load_matrices<false>(rows[i], [&](int k) -> const void* {
          return &stage.a[first_row() + 16 * i + k % 16][first + k / 16 * 8];
        });
    }
    __device__ void multiply(Sums& sums) const {
#pragma unroll
      for (int i = 0; i < kUnitsM; ++i)
#pragma unroll
        for (int j = 0; j < kUnitsN; ++j)
          simt::add_bf16_products(sums[i][j], rows[i],
                                  {columns[j / 2][j % 2 * 2], columns[j / 2][j % 2 * 2 + 1]});
    }
  };
  // Of each two neighbouring columns, calls put(row, first, second) of what `at(column)` returns
  // for each row.
  template <typename OfSums, typename At>
  __device__ static void for_each_two(OfSums& sums, const At& at) {
#pragma unroll
    for (int j = 0; j < kUnitsN; ++j) {
      const auto put = at(first_column() + 8 * j + lane() % 4 * 2);
#pragma unroll
      for (int i = 0; i < kUnitsM; ++i) {
        const int row = first_row() + 16 * i + lane() / 4;
        put(row, sums[i][j][0], sums[i][j][1]);
        put(row + 8, sums[i][j][2], sums[i][j][3]);
      }
    }
  }
};

// Adds `slices` slices, one or more, to the sums; source.copy(stage) begins to copy the next. While
// the tensor cores multiply, the operands of the next product are read and a slice to come is
// copied.
template <typename T, typename Source>
__device__ void sum_slices(typename T::Shared& shared, Source& source, int slices,
                           typename T::Sums& sums) {
  static_assert(kTerms == 2 * kProduct);
#pragma unroll
  for (int slice = 0; slice < kStages; ++slice) {
    if (slice < slices) source.copy(shared.stages[slice]);
    simt::end_copies();
  }
  if (!seeded(SeededFault::kCopyNotWaited)) simt::wait_for_copies<kStages - 1>();
  __syncthreads();
  typename T::Operands first, second;
  first.load(shared.stages[0], 0);
  int stage = 0;
#pragma unroll 1
  for (int slice = 0; slice < slices; ++slice) {
    auto& now = shared.stages[stage];
    stage = stage == kStages - 1 ? 0 : stage + 1;
    second.load(now, kProduct);
    first.multiply(sums);
    // The next slice is there, and everybody has read this one.
    simt::wait_for_copies<kStages - 2>();
    if (!seeded(SeededFault::kTileReadTooEarly)) __syncthreads();
    first.load(shared.stages[stage], 0);  // of the last slice, what nobody uses
    if (slice + kStages < slices) source.copy(now);
    simt::end_copies();
    second.multiply(sums);
  }
}

}  // namespace podium::PODIUM_CUDA_SPACE
