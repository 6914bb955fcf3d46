// Products of few or many rows by packed columns (contract `matmul`): what the matrix product and
// recurrent layers share. Included once for each target.
#if defined(PODIUM_BACKEND_CPU_KERNELS_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PODIUM_BACKEND_CPU_KERNELS_MATMUL_INL_H_
#undef PODIUM_BACKEND_CPU_KERNELS_MATMUL_INL_H_
#else
#define PODIUM_BACKEND_CPU_KERNELS_MATMUL_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backend/cpu/kernels/transpose-inl.h"
#include "backend/cpu/kernels/v16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

inline constexpr int64_t kRun = 256;  // of the contract
// A tile of c is as many accumulators as leave registers for two vectors of b and a number of a.
inline constexpr int kTileRows = kRegisters == 1 ? 12 : kRegisters == 2 ? 6 : 8;
inline constexpr int kTileVectors = kRegisters == 1 ? 2 : 1;
inline constexpr int64_t kPanel = kLanes * kTileVectors;  // the distance between rows of packed b

// A matrix in memory: element (i, j) at first + i * row + j * column.
struct Operand {
  const float* first;
  int64_t row, column;
};

// c[i][0..width) += (or = where `first`) one run: kRows rows of a by `depth` packed rows of b.
template <int kRows, int kVectors>
HWY_INLINE void run_tile(const float* HWY_RESTRICT a, int64_t a_row, int64_t a_depth,
                         const float* HWY_RESTRICT b, int64_t depth, float* HWY_RESTRICT c,
                         int64_t c_row, int64_t width, bool first) {
  V16 acc[kRows][kVectors];
  HWY_UNROLL(16)
  for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v) acc[i][v] = zero16();
  }
  for (int64_t k = 0; k < depth; ++k) {
    V16 vector[kVectors];
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v) vector[v] = load16(b + k * kPanel + v * kLanes);
    HWY_UNROLL(16)
    for (int i = 0; i < kRows; ++i) {
      const V16 factor = set16(a[i * a_row + k * a_depth]);
      HWY_UNROLL(2)
      for (int v = 0; v < kVectors; ++v) acc[i][v] = fma16(factor, vector[v], acc[i][v]);
    }
  }
  HWY_UNROLL(16)
  for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v) {
      float* to = c + i * c_row + v * kLanes;
      const int64_t lanes = width - v * kLanes;
      store_some16(to, first ? acc[i][v] : add16(load_some16(to, lanes), acc[i][v]), lanes);
    }
  }
}

// All rows of c in one panel of columns, by one run.
template <int kVectors>
HWY_INLINE void run_rows(int64_t rows, const Operand& a, const float* b, int64_t depth, float* c,
                         int64_t c_row, int64_t width, bool first) {
  int64_t i = 0;
  const auto tiles = [&]<int kRows>(std::integral_constant<int, kRows>) HWY_ATTR {
    for (; i + kRows <= rows; i += kRows)
      run_tile<kRows, kVectors>(a.first + i * a.row, a.row, a.column, b, depth, c + i * c_row,
                                c_row, width, first);
  };
  tiles(std::integral_constant<int, kTileRows>());
  if constexpr (kTileRows > 8) tiles(std::integral_constant<int, 8>());
  tiles(std::integral_constant<int, 4>());
  tiles(std::integral_constant<int, 2>());
  tiles(std::integral_constant<int, 1>());
}
// The same of a whole panel, or of its first `width` columns.
HWY_INLINE void run_panel(int64_t rows, const Operand& a, const float* b, int64_t depth, float* c,
                          int64_t c_row, int64_t width, bool first) {
  if (kTileVectors == 2 && width > kLanes)
    run_rows<kTileVectors>(rows, a, b, depth, c, c_row, width, first);
  else
    run_rows<1>(rows, a, b, depth, c, c_row, width, first);
}

// packed[k][l] = b(k, l) for `width` columns, and +0 up to a whole vector.
HWY_INLINE void pack_vector(const Operand& b, int64_t depth, int64_t width, float* packed) {
  if (b.column == 1) {
    for (int64_t k = 0; k < depth; ++k)
      store16(packed + k * kPanel, load_some16(b.first + k * b.row, width));
    return;
  }
  int64_t k = 0;
  if (width == kLanes && b.row == 1)
    for (; k + kLanes <= depth; k += kLanes)
      transpose16(b.first + k, b.column, packed + k * kPanel, kPanel);
  for (; k < depth; ++k)
    for (int64_t l = 0; l < kLanes; ++l)
      packed[k * kPanel + l] = l < width ? b.first[k * b.row + l * b.column] : 0.0f;
}
// `depth` rows of b in a panel of `width` columns.
HWY_INLINE void pack_panel(const Operand& b, int64_t depth, int64_t width, float* packed) {
  for (int64_t v = 0; v * kLanes < width; ++v)
    pack_vector({b.first + v * kLanes * b.column, b.row, b.column}, depth,
                std::min<int64_t>(kLanes, width - v * kLanes), packed + v * kLanes);
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#endif  // PODIUM_BACKEND_CPU_KERNELS_MATMUL_INL_H_
