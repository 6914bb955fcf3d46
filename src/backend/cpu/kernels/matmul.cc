#include "backend/cpu/kernels/matmul.h"

#include <algorithm>

#include "backend/cpu/kernels/layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/matmul.cc"
#include "backend/cpu/kernels/foreach_target.h"
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
      if (lanes >= kLanes) {
        store16(to, first ? acc[i][v] : add16(load16(to), acc[i][v]));
      } else {
        store_first16(to, first ? acc[i][v] : add16(load_first16(to, lanes), acc[i][v]), lanes);
      }
    }
  }
}

// All rows of c in one panel of columns, by one run.
template <int kVectors>
HWY_INLINE void run_rows(const MatmulShape& s, const float* a, const float* b, int64_t depth,
                         float* c, int64_t width, bool first) {
  const int64_t a_row = s.transpose_a ? 1 : s.depth, a_depth = s.transpose_a ? s.rows : 1;
  int64_t i = 0;
  for (; i + kTileRows <= s.rows; i += kTileRows)
    run_tile<kTileRows, kVectors>(a + i * a_row, a_row, a_depth, b, depth, c + i * s.columns,
                                  s.columns, width, first);
  for (; i + 4 <= s.rows; i += 4)
    run_tile<4, kVectors>(a + i * a_row, a_row, a_depth, b, depth, c + i * s.columns, s.columns,
                          width, first);
  for (; i < s.rows; ++i)
    run_tile<1, kVectors>(a + i * a_row, a_row, a_depth, b, depth, c + i * s.columns, s.columns,
                          width, first);
}

// packed[k][l] = column j + l of row k of a run of b, and +0 from `width` to a whole vector.
HWY_INLINE void pack_vector(const MatmulShape& s, const float* b, int64_t depth, int64_t width,
                            float* packed) {
  if (!s.transpose_b) {
    for (int64_t k = 0; k < depth; ++k)
      store16(packed + k * kPanel,
              width == kLanes ? load16(b + k * s.columns) : load_first16(b + k * s.columns, width));
    return;
  }
  int64_t k = 0;
  if (width == kLanes)
    for (; k + kLanes <= depth; k += kLanes)
      transpose16(b + k, s.depth, packed + k * kPanel, kPanel);
  for (; k < depth; ++k)
    for (int64_t l = 0; l < kLanes; ++l)
      packed[k * kPanel + l] = l < width ? b[l * s.depth + k] : 0.0f;
}

// Columns of c, in panels: each run of b's columns is packed, then all rows of a pass over it. One
// run for all panels, then the next: a run of a stays in a near cache.
void product_columns(const MatmulShape& s, Range columns, const float* a, const float* b,
                     float* c) {
  HWY_ALIGN float packed[kRun * kPanel];
  // A product without depth is 0.
  for (int64_t run = 0; run == 0 || run < s.depth; run += kRun) {
    const int64_t depth = std::min(kRun, s.depth - run);
    for (int64_t j = columns.begin; j < columns.end; j += kPanel) {
      const int64_t width = std::min(kPanel, columns.end - j);
      for (int64_t v = 0; v * kLanes < width; ++v) {
        const int64_t column = j + v * kLanes;
        pack_vector(s, s.transpose_b ? b + column * s.depth + run : b + run * s.columns + column,
                    depth, std::min<int64_t>(kLanes, width - v * kLanes), packed + v * kLanes);
      }
      const float* rows = a + run * (s.transpose_a ? s.rows : 1);
      if (kTileVectors == 2 && width > kLanes)
        run_rows<kTileVectors>(s, rows, packed, depth, c + j, width, run == 0);
      else
        run_rows<1>(s, rows, packed, depth, c + j, width, run == 0);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(product_columns);

namespace {

// Whole panels of every target.
constexpr std::int64_t kPartColumns = 2 * kLanes;
std::int64_t panels_of(const MatmulShape& shape) {
  return (shape.columns + kPartColumns - 1) / kPartColumns;
}

}  // namespace

int matmul_parts(const MatmulShape& shape) {
  return parts_of(panels_of(shape), kPartColumns * shape.rows * shape.depth, 1 << 19);
}
void matmul(const MatmulShape& shape, const float* a, const float* b, float* c, int part) {
  const Range panels = share_of(panels_of(shape), matmul_parts(shape), part);
  const Range columns = {panels.begin * kPartColumns,
                         std::min(panels.end * kPartColumns, shape.columns)};
  PODIUM_DISPATCH(product_columns)(shape, columns, a, b, c);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
