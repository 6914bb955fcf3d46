#include "backend/cpu/kernels/dense.h"

#include <algorithm>

#include "backend/cpu/kernels/pack.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/dense.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/v16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

// Register tiles: blocks of images (or vectors of inputs) by columns. AVX-512 has 32 registers of a
// whole vector each, AVX2 16 of half a vector, NEON 32 of a quarter.
inline constexpr int kTileVectors = kRegisters == 1 ? 2 : 1;
inline constexpr int kTileColumns = kRegisters == 1 ? 8 : 6;
inline constexpr int64_t kRun = 256;  // of the contract

// y[b][j] (lanes) = sum over k of x[b][k] w[k,j], j < kColumns: with unit_column w[k,j] is
// w[k * stride + j], else w[j * stride + k]. Blocks of x and y are x_block and y_block floats
// apart.
template <int kBlocks, int kColumns, bool kUnitColumn>
HWY_INLINE void lanes_tile(const float* HWY_RESTRICT x, int64_t x_block, int64_t depth,
                           const float* HWY_RESTRICT w, int64_t stride, float* HWY_RESTRICT y,
                           int64_t y_block) {
  if (depth == 0) {
    for (int b = 0; b < kBlocks; ++b) {
      for (int j = 0; j < kColumns; ++j) store16(y + b * y_block + j * kLanes, zero16());
    }
  }
  for (int64_t run = 0; run < depth; run += kRun) {
    const int64_t end = std::min(run + kRun, depth);
    V16 acc[kBlocks][kColumns];
    HWY_UNROLL(16)
    for (int b = 0; b < kBlocks; ++b) {
      HWY_UNROLL(16)
      for (int j = 0; j < kColumns; ++j) acc[b][j] = zero16();
    }
    for (int64_t k = run; k < end; ++k) {
      V16 a[kBlocks];
      HWY_UNROLL(16)
      for (int b = 0; b < kBlocks; ++b) a[b] = load16(x + b * x_block + k * kLanes);
      HWY_UNROLL(16)
      for (int j = 0; j < kColumns; ++j) {
        const V16 c = set16(kUnitColumn ? w[k * stride + j] : w[j * stride + k]);
        HWY_UNROLL(16)
        for (int b = 0; b < kBlocks; ++b) acc[b][j] = fma16(a[b], c, acc[b][j]);
      }
    }
    HWY_UNROLL(16)
    for (int b = 0; b < kBlocks; ++b) {
      HWY_UNROLL(16)
      for (int j = 0; j < kColumns; ++j) {
        float* to = y + b * y_block + j * kLanes;
        store16(to, run == 0 ? acc[b][j] : add16(load16(to), acc[b][j]));
      }
    }
  }
}

// All blocks of one range of columns; y points to its first.
template <int kColumns, bool kUnitColumn>
HWY_INLINE void lanes_columns(int64_t blocks, const float* x, int64_t x_block, int64_t depth,
                              const float* w, int64_t stride, float* y, int64_t y_block) {
  int64_t b = 0;
  for (; b + kTileVectors <= blocks; b += kTileVectors) {
    lanes_tile<kTileVectors, kColumns, kUnitColumn>(x + b * x_block, x_block, depth, w, stride,
                                                    y + b * y_block, y_block);
  }
  for (; b < blocks; ++b) {
    lanes_tile<1, kColumns, kUnitColumn>(x + b * x_block, x_block, depth, w, stride,
                                         y + b * y_block, y_block);
  }
}

// y[n,j] = sum over k of x[n,k] w[k,j] for a range of j, x [N, depth] and y [N, columns] in lanes.
template <bool kUnitColumn>
HWY_INLINE void lanes_product(int64_t images, int64_t depth, int64_t columns, Range range,
                              const float* x, const float* w, float* y) {
  const int64_t blocks = blocks_of(images), stride = kUnitColumn ? columns : depth;
  const int64_t x_block = depth * kLanes, y_block = columns * kLanes;
  const int64_t next = kUnitColumn ? 1 : stride;  // from a column of w to the next
  int64_t j = range.begin;
  for (; j + kTileColumns <= range.end; j += kTileColumns) {
    lanes_columns<kTileColumns, kUnitColumn>(blocks, x, x_block, depth, w + j * next, stride,
                                             y + j * kLanes, y_block);
  }
  for (; j + 4 <= range.end; j += 4) {
    lanes_columns<4, kUnitColumn>(blocks, x, x_block, depth, w + j * next, stride, y + j * kLanes,
                                  y_block);
  }
  for (; j + 2 <= range.end; j += 2) {
    lanes_columns<2, kUnitColumn>(blocks, x, x_block, depth, w + j * next, stride, y + j * kLanes,
                                  y_block);
  }
  for (; j < range.end; ++j) {
    lanes_columns<1, kUnitColumn>(blocks, x, x_block, depth, w + j * next, stride, y + j * kLanes,
                                  y_block);
  }
}

void forward_outputs(const DenseShape& shape, Range outputs, const float* x, const float* w,
                     float* y) {
  lanes_product<false>(shape.images, shape.inputs, shape.outputs, outputs, x, w, y);
}

void grad_input_inputs(const DenseShape& shape, Range inputs, const float* dy, const float* w,
                       float* dx) {
  lanes_product<true>(shape.images, shape.outputs, shape.inputs, inputs, dy, w, dx);
}

// dw[j][v] = sum over n of dy[n,j] x[n,v] for kColumns rows j of dw, kVectors vectors of inputs v,
// whose tiles in x are x_tile floats apart. Of the last vector `last` lanes are stored.
template <int kVectors, int kColumns>
HWY_INLINE void weight_tile(int64_t images, const float* HWY_RESTRICT dy, int64_t dy_block,
                            const float* HWY_RESTRICT x, int64_t x_tile, float* HWY_RESTRICT dw,
                            int64_t dw_stride, int64_t last) {
  for (int64_t run = 0; run < images; run += kRun) {
    const int64_t end = std::min(run + kRun, images);
    V16 acc[kColumns][kVectors];
    HWY_UNROLL(16)
    for (int j = 0; j < kColumns; ++j) {
      HWY_UNROLL(16)
      for (int v = 0; v < kVectors; ++v) acc[j][v] = zero16();
    }
    for (int64_t block = run; block < end; block += kLanes) {
      const float* d = dy + block / kLanes * dy_block;
      const float* row = x + block * kLanes;
      const int64_t lanes = std::min<int64_t>(kLanes, end - block);
      HWY_UNROLL(4)
      for (int64_t lane = 0; lane < lanes; ++lane) {
        V16 a[kVectors];
        HWY_UNROLL(16)
        for (int v = 0; v < kVectors; ++v) a[v] = load16(row + v * x_tile + lane * kLanes);
        HWY_UNROLL(16)
        for (int j = 0; j < kColumns; ++j) {
          const V16 c = set16(d[j * kLanes + lane]);
          HWY_UNROLL(16)
          for (int v = 0; v < kVectors; ++v) acc[j][v] = fma16(a[v], c, acc[j][v]);
        }
      }
    }
    HWY_UNROLL(16)
    for (int j = 0; j < kColumns; ++j) {
      HWY_UNROLL(16)
      for (int v = 0; v < kVectors; ++v) {
        float* to = dw + j * dw_stride + v * kLanes;
        if (v + 1 < kVectors || last == kLanes) {
          store16(to, run == 0 ? acc[j][v] : add16(load16(to), acc[j][v]));
        } else {
          const V16 sum = run == 0 ? acc[j][v] : add16(load_first16(to, last), acc[j][v]);
          store_first16(to, sum, last);
        }
      }
    }
  }
}

template <int kColumns>
HWY_INLINE void weight_rows(const DenseShape& s, const float* dy, const float* x_rows, float* dw) {
  const int64_t dy_block = s.outputs * kLanes, x_tile = padded(s.images) * kLanes;
  for (int64_t i = 0; i < s.inputs;) {
    const float* x = x_rows + i * padded(s.images);
    const int64_t rest = s.inputs - i;
    if (rest > (kTileVectors - 1) * kLanes) {
      weight_tile<kTileVectors, kColumns>(
          s.images, dy, dy_block, x, x_tile, dw + i, s.inputs,
          std::min<int64_t>(kLanes, rest - (kTileVectors - 1) * kLanes));
      i += kTileVectors * kLanes;
    } else {
      weight_tile<1, kColumns>(s.images, dy, dy_block, x, x_tile, dw + i, s.inputs,
                               std::min<int64_t>(kLanes, rest));
      i += kLanes;
    }
  }
}

void grad_weight_outputs(const DenseShape& s, Range outputs, const float* dy, const float* x_rows,
                         float* dw) {
  int64_t o = outputs.begin;
  for (; o + kTileColumns <= outputs.end; o += kTileColumns) {
    weight_rows<kTileColumns>(s, dy + o * kLanes, x_rows, dw + o * s.inputs);
  }
  for (; o + 4 <= outputs.end; o += 4) {
    weight_rows<4>(s, dy + o * kLanes, x_rows, dw + o * s.inputs);
  }
  for (; o + 2 <= outputs.end; o += 2) {
    weight_rows<2>(s, dy + o * kLanes, x_rows, dw + o * s.inputs);
  }
  for (; o < outputs.end; ++o) weight_rows<1>(s, dy + o * kLanes, x_rows, dw + o * s.inputs);
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(forward_outputs);
HWY_EXPORT(grad_input_inputs);
HWY_EXPORT(grad_weight_outputs);

namespace {

// Columns go to the parts in units that every target's register tile divides into; a part does half
// a million multiply-adds or more.
constexpr std::int64_t kUnit = 24;
constexpr std::int64_t kPartWork = 1 << 19;

int column_parts(std::int64_t columns, std::int64_t work_per_column) {
  return parts_of((columns + kUnit - 1) / kUnit, kUnit * work_per_column, kPartWork);
}
Range part_columns(std::int64_t columns, std::int64_t work_per_column, int part) {
  const Range units =
      share_of((columns + kUnit - 1) / kUnit, column_parts(columns, work_per_column), part);
  return {units.begin * kUnit, std::min(units.end * kUnit, columns)};
}

}  // namespace

int dense_forward_parts(const DenseShape& shape) {
  return column_parts(shape.outputs, padded(shape.images) * shape.inputs);
}
void dense_forward(const DenseShape& shape, const float* x, const float* w, float* y, int part) {
  const Range range = part_columns(shape.outputs, padded(shape.images) * shape.inputs, part);
  PODIUM_DISPATCH(forward_outputs)(shape, range, x, w, y);
}

int dense_grad_input_parts(const DenseShape& shape) {
  return column_parts(shape.inputs, padded(shape.images) * shape.outputs);
}
void dense_grad_input(const DenseShape& shape, const float* dy, const float* w, float* dx,
                      int part) {
  const Range range = part_columns(shape.inputs, padded(shape.images) * shape.outputs, part);
  PODIUM_DISPATCH(grad_input_inputs)(shape, range, dy, w, dx);
}

int dense_grad_weight_parts(const DenseShape& shape) {
  return column_parts(shape.outputs, shape.images * shape.inputs);
}
void dense_grad_weight(const DenseShape& shape, const float* dy, const float* x_rows, float* dw,
                       int part) {
  const Range range = part_columns(shape.outputs, shape.images * shape.inputs, part);
  PODIUM_DISPATCH(grad_weight_outputs)(shape, range, dy, x_rows, dw);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
