// What the kernels on tensor cores share: a block computes a tile of kM x kN sums, and each of its
// warps a part of it, in units of 16 x 8. The terms come in slices of 32 through shared memory,
// which holds several: while one is multiplied, the next are on their way. For *.cu files only.
#pragma once

#include <cstdint>

#include "backend/cuda/seeded_fault.h"
#include "backend/cuda/simt.h"
#include "backend/cuda/simt_warpgroup.h"

namespace podium::PODIUM_CUDA_SPACE {

using Half = std::uint16_t;  // the bits of a BF16 number

inline constexpr int kTerms = 32;    // of a slice
inline constexpr int kOctet = 8;     // numbers of 16 bytes, which are copied at once
inline constexpr int kProduct = 16;  // terms that one instruction adds

// Where a sum of a tile is, and which of its thread's it is: of the unit, eight columns, and in it.
struct Spot {
  int row, column, unit, number;
};

// The sums of a tile, and who has them. Operand a has the terms of a row side by side. So has b, or
// else, with kColumns, the columns of a term.
template <int kTileM, int kTileN, int kWarpsM, int kWarpsN, bool kColumns>
struct TileSums {
  static constexpr int kM = kTileM, kN = kTileN, kThreads = 32 * kWarpsM * kWarpsN;
  static constexpr int kUnitsM = kM / kWarpsM / 16, kUnitsN = kN / kWarpsN / 8;
  static_assert(kUnitsM * 16 * kWarpsM == kM && kUnitsN * 8 * kWarpsN == kN && kUnitsN % 2 == 0);
  static constexpr int kLineOctets = kColumns ? kN / kOctet : kTerms / kOctet;  // of b
  static constexpr int kLines = kColumns ? kTerms : kN;

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
  // Calls f(sum, spot) for each of the sums of a thread whose warp has one unit of rows.
  template <typename OfSums, typename F>
  __device__ static void for_each_sum(OfSums& sums, const F& f) {
    static_assert(kUnitsM == 1);
#pragma unroll
    for (int j = 0; j < kUnitsN; ++j)
#pragma unroll
      for (int k = 0; k < 4; ++k)
        f(sums[0][j][k], Spot{first_row() + lane() / 4 + k / 2 * 8,
                              first_column() + 8 * j + lane() % 4 * 2 + k % 2, j, k});
  }
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

// Of warps that multiply for themselves (`mma.sync`). Lines lie so far apart that the eight that
// one instruction reads are in different banks.
template <int kTileM, int kTileN, int kWarpsM, int kWarpsN, bool kColumns>
struct TensorTile : TileSums<kTileM, kTileN, kWarpsM, kWarpsN, kColumns> {
  using Base = TileSums<kTileM, kTileN, kWarpsM, kWarpsN, kColumns>;
  static constexpr bool kWarpgroups = false;
  static constexpr int kStages = 3;                     // slices in shared memory
  static constexpr int kBlocks = 256 / Base::kThreads;  // of a multiprocessor at least

  struct Stage {
    alignas(16) Half a[kTileM][kTerms + kOctet];
    alignas(16) Half b[Base::kLines][Base::kLineOctets * kOctet + kOctet];
  };
  struct Shared {
    Stage stages[kStages];
  };
  // Where an octet of a line is copied to.
  __device__ static Half* a_at(Stage& stage, int row, int octet) {
    return &stage.a[row][octet * kOctet];
  }
  __device__ static Half* b_at(Stage& stage, int line, int octet) {
    return &stage.b[line][octet * kOctet];
  }

  // What a warp multiplies at once: 16 terms of its rows and columns.
  struct Operands {
    std::uint32_t rows[Base::kUnitsM][4], columns[Base::kUnitsN / 2][4];

    __device__ void load(const Stage& stage, int first) { load(stage.a, stage.b, first); }
    // Of a slice, 16 terms from `first` on.
    __device__ void load(const decltype(Stage::a)& a, const decltype(Stage::b)& b, int first) {
#pragma unroll
      for (int j = 0; j < Base::kUnitsN / 2; ++j)
        simt::load_matrices<kColumns>(columns[j], [&](int i) -> const void* {
          const int column = Base::first_column() + 16 * j + i / 16 * 8,
                    term = first + i / 8 % 2 * 8;
          return kColumns ? &b[term + i % 8][column] : &b[column + i % 8][term];
        });
#pragma unroll
      for (int i = 0; i < Base::kUnitsM; ++i)
        simt::load_matrices<false>(rows[i], [&](int k) -> const void* {
          return &a[Base::first_row() + 16 * i + k % 16][first + k / 16 * 8];
        });
    }
    __device__ void multiply(typename Base::Sums& sums) const {
#pragma unroll
      for (int i = 0; i < Base::kUnitsM; ++i)
#pragma unroll
        for (int j = 0; j < Base::kUnitsN; ++j)
          simt::add_bf16_products(sums[i][j], rows[i],
                                  {columns[j / 2][j % 2 * 2], columns[j / 2][j % 2 * 2 + 1]});
    }
  };

  // Adds `slices` slices to the sums, none where no tap meets a pixel; source.copy(stage) begins to
  // copy the next. While the tensor cores multiply, the operands of the next product are read and a
  // slice to come is copied.
  template <typename Source>
  __device__ static void add(Shared& shared, Source& source, int slices,
                             typename Base::Sums& sums) {
    static_assert(kTerms == 2 * kProduct);
#pragma unroll
    for (int slice = 0; slice < kStages; ++slice) {
      if (slice < slices) source.copy(shared.stages[slice]);
      simt::end_copies();
    }
    if (!seeded(SeededFault::kCopyNotWaited)) simt::wait_for_copies<kStages - 1>();
    __syncthreads();
    Operands first, second;
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
};

// Of warpgroups, on compute capability 9.0 (simt_warpgroup.h): each multiplies 64 rows by all
// columns.
template <int kTileM, int kTileN, bool kColumns>
struct WarpgroupTile : TileSums<kTileM, kTileN, kTileM / 16, 1, kColumns> {
  using Base = TileSums<kTileM, kTileN, kTileM / 16, 1, kColumns>;
  static constexpr bool kWarpgroups = true;
  static constexpr int kStages = 5, kAhead = kStages - 2;
  static constexpr int kBlocks = 256 / Base::kThreads * (256 / kTileN);

  struct Stage {
    alignas(1024) Half a[kTileM * kTerms];
    alignas(1024) Half b[kTileN * kTerms];
  };
  struct Shared {
    Stage stages[kStages];
  };
  __device__ static Half* a_at(Stage& stage, int row, int octet) {
    return stage.a + simt::place_in_row(row, octet) * kOctet;
  }
  __device__ static Half* b_at(Stage& stage, int line, int octet) {
    return stage.b + (kColumns ? simt::place_in_column(line, octet, kTerms)
                               : simt::place_in_row(line, octet)) *
                         kOctet;
  }

  // As of TensorTile. A slice is multiplied while the copies of three others are on their way and
  // the next is begun.
  template <typename Source>
  __device__ static void add(Shared& shared, Source& source, int slices,
                             typename Base::Sums& of_threads) {
    if (slices == 0) return;
    auto& sums = *reinterpret_cast<float(*)[kTileN / 2]>(&of_threads);
    const int first_row = Base::first_row() / 64 * 64;
#pragma unroll
    for (int slice = 0; slice < kAhead; ++slice) {
      if (slice < slices) source.copy(shared.stages[slice]);
      simt::end_copies();
    }
    int now = 0, free = kAhead;
    simt::settle(sums);
    int slice = 0;
#pragma unroll 1
    do {
      if (!seeded(SeededFault::kOperandsNotWaited)) simt::wait_for_operands<kAhead - 1>();
      // This slice is there, and everybody's products of the one before the last are computed.
      __syncthreads();
      const Stage& stage = shared.stages[now];
      simt::begin_products();
#pragma unroll
      for (int term = 0; term < kTerms; term += kProduct) {
        // Sixteen terms are two octets of a row, or else sixteen lines.
        const Half* const b = stage.b + (kColumns ? term * 64 : term);
        simt::add_warpgroup_products<kTileN, kColumns>(
            sums, simt::rows_at(stage.a + first_row * kTerms + term),
            kColumns ? simt::columns_at(b, kTerms) : simt::rows_at(b));
      }
      simt::end_products();
      if (slice + kAhead < slices) source.copy(shared.stages[free]);
      simt::end_copies();
      if (!seeded(SeededFault::kProductsNotWaited)) simt::wait_for_products<1>();
      now = now == kStages - 1 ? 0 : now + 1;
      free = free == kStages - 1 ? 0 : free + 1;
    } while (++slice < slices);
    simt::take_sums(sums);
  }
};

}  // namespace podium::PODIUM_CUDA_SPACE
