#include "backend/cpu/kernels/products/matmul.h"

#include <algorithm>

#include "backend/cpu/kernels/layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/products/matmul.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/products/matmul-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

// Columns of c, in panels: each run of b's columns is packed, then all rows of a pass over it. One
// run for all panels, then the next: a run of a stays in a near cache.
void product_columns(const MatmulShape& s, Range columns, const float* a, const float* b,
                     float* c) {
  HWY_ALIGN float packed[kRun * kPanel];
  const int64_t a_row = s.transpose_a ? 1 : s.depth, a_column = s.transpose_a ? s.rows : 1,
                b_row = s.transpose_b ? 1 : s.columns, b_column = s.transpose_b ? s.depth : 1;
  // A product without depth is 0.
  for (int64_t run = 0; run == 0 || run < s.depth; run += kRun) {
    const int64_t depth = std::min(kRun, s.depth - run);
    for (int64_t j = columns.begin; j < columns.end; j += kPanel) {
      const int64_t width = std::min(kPanel, columns.end - j);
      pack_panel({b + run * b_row + j * b_column, b_row, b_column}, depth, width, packed);
      run_panel(s.rows, {a + run * a_column, a_row, a_column}, packed, depth, c + j, s.columns,
                width, run == 0);
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
  return parts_of(pairs_of(shape.columns), kPairColumns * shape.rows * shape.depth, 1 << 19);
}
void matmul(const MatmulShape& shape, const float* a, const float* b, float* c, int part) {
  const Range panels = share_of(pairs_of(shape.columns), matmul_parts(shape), part);
  const Range columns = {panels.begin * kPairColumns,
                         std::min(panels.end * kPairColumns, shape.columns)};
  PODIUM_DISPATCH(product_columns)(shape, columns, a, b, c);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
