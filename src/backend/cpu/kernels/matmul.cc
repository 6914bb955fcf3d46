#include "backend/cpu/kernels/matmul.h"

#include <algorithm>

#include "backend/cpu/kernels/layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/matmul.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/v16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

inline constexpr int64_t kRun = 256;  // of the contract
inline constexpr int kTileRows = kRegisters == 2 ? 6 : 8;

// c[i][0..width) += (or = where `first`) one run: kRows rows of a by `depth` packed vectors of b.
template <int kRows>
HWY_INLINE void run_tile(const float* HWY_RESTRICT a, int64_t a_row, int64_t a_depth,
                         const float* HWY_RESTRICT b, int64_t depth, float* HWY_RESTRICT c,
                         int64_t c_row, int64_t width, bool first) {
  V16 acc[kRows];
  HWY_UNROLL(16)
  for (int i = 0; i < kRows; ++i) acc[i] = zero16();
  for (int64_t k = 0; k < depth; ++k) {
    const V16 vector = load16(b + k * kLanes);
    HWY_UNROLL(16)
    for (int i = 0; i < kRows; ++i) {
      acc[i] = fma16(set16(a[i * a_row + k * a_depth]), vector, acc[i]);
    }
  }
  HWY_UNROLL(16)
  for (int i = 0; i < kRows; ++i) {
    float* to = c + i * c_row;
    if (width == kLanes) {
      store16(to, first ? acc[i] : add16(load16(to), acc[i]));
    } else {
      store_first16(to, first ? acc[i] : add16(load_first16(to, width), acc[i]), width);
    }
  }
}

// Sixteen columns of c: each run of b's columns is packed, then all rows of a pass over it.
void product_columns(const MatmulShape& s, Range tiles, const float* a, const float* b, float* c) {
  HWY_ALIGN float packed[kRun * kLanes];
  const int64_t a_row = s.transpose_a ? 1 : s.depth, a_depth = s.transpose_a ? s.rows : 1;
  const int64_t b_depth = s.transpose_b ? 1 : s.columns, b_column = s.transpose_b ? s.depth : 1;
  for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
    const int64_t j = tile * kLanes;
    const int64_t width = std::min<int64_t>(kLanes, s.columns - j);
    std::fill(packed, packed + kRun * kLanes, 0.0f);
    // A product without depth is 0.
    for (int64_t run = 0; run == 0 || run < s.depth; run += kRun) {
      const int64_t depth = std::min(kRun, s.depth - run);
      for (int64_t k = 0; k < depth; ++k) {
        const float* from = b + (run + k) * b_depth + j * b_column;
        for (int64_t l = 0; l < width; ++l) packed[k * kLanes + l] = from[l * b_column];
      }
      const float* rows = a + run * a_depth;
      int64_t i = 0;
      for (; i + kTileRows <= s.rows; i += kTileRows) {
        run_tile<kTileRows>(rows + i * a_row, a_row, a_depth, packed, depth, c + i * s.columns + j,
                            s.columns, width, run == 0);
      }
      for (; i < s.rows; ++i) {
        run_tile<1>(rows + i * a_row, a_row, a_depth, packed, depth, c + i * s.columns + j,
                    s.columns, width, run == 0);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(product_columns);

int matmul_parts(const MatmulShape& shape) {
  return parts_of(blocks_of(shape.columns), kLanes * shape.rows * shape.depth, 1 << 19);
}
void matmul(const MatmulShape& shape, const float* a, const float* b, float* c, int part) {
  const Range tiles = share_of(blocks_of(shape.columns), matmul_parts(shape), part);
  PODIUM_DISPATCH(product_columns)(shape, tiles, a, b, c);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
