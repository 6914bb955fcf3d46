#include "backend/cpu/kernels/products/dense.h"

#include <algorithm>
#include <type_traits>

#include "backend/cpu/kernels/products/pack.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/products/dense.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/v16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

// Register tiles: blocks of images (or vectors of inputs) by columns. AVX-512 has 32 registers of a
// whole vector each, AVX2 16 of half a vector, NEON 32 of a quarter.
inline constexpr int kTileVectors = kRegisters == 1 ? 2 : 1;
inline constexpr int kTileColumns = kRegisters == 1 ? 12 : 6;
inline constexpr int64_t kRun = 256;  // of the contract
// What a run reads again and again, so many vectors of kRun numbers, stays in a near cache (1 MiB).
inline constexpr int64_t kNearVectors = 64;

// y[b][j] (lanes) = (or += where not `first`) the sum over one run, k < depth, of x[b][k] w[k,j],
// j < kColumns: with unit_column w[k,j] is w[k * stride + j], else w[j * stride + k]. Blocks of x
// and y are x_block and y_block floats apart.
template <int kBlocks, int kColumns, bool kUnitColumn>
HWY_INLINE void lanes_tile(const float* HWY_RESTRICT x, int64_t x_block, int64_t depth,
                           const float* HWY_RESTRICT w, int64_t stride, float* HWY_RESTRICT y,
                           int64_t y_block, bool first) {
  V16 acc[kBlocks][kColumns];
  HWY_UNROLL(16)
  for (int b = 0; b < kBlocks; ++b) {
    HWY_UNROLL(16)
    for (int j = 0; j < kColumns; ++j) acc[b][j] = zero16();
  }
  for (int64_t k = 0; k < depth; ++k) {
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
      store16(to, first ? acc[b][j] : add16(load16(to), acc[b][j]));
    }
  }
}

// Calls f.operator()<columns>(j) for tiles of columns from `begin` to `end`.
template <typename F>
HWY_INLINE void for_tiles(int64_t begin, int64_t end, const F& f) {
  int64_t j = begin;
  const auto tiles = [&]<int kColumns>(std::integral_constant<int, kColumns>) HWY_ATTR {
    for (; j + kColumns <= end; j += kColumns) f.template operator()<kColumns>(j);
  };
  tiles(std::integral_constant<int, kTileColumns>());
  if constexpr (kTileColumns > 8) tiles(std::integral_constant<int, 8>());
  tiles(std::integral_constant<int, 4>());
  tiles(std::integral_constant<int, 2>());
  tiles(std::integral_constant<int, 1>());
}

// Some blocks of a tile of columns, by one run.
template <int kColumns, bool kUnitColumn>
HWY_INLINE void lanes_blocks(int64_t blocks, const float* x, int64_t x_block, int64_t depth,
                             const float* w, int64_t stride, float* y, int64_t y_block,
                             bool first) {
  int64_t b = 0;
  for (; b + kTileVectors <= blocks; b += kTileVectors)
    lanes_tile<kTileVectors, kColumns, kUnitColumn>(x + b * x_block, x_block, depth, w, stride,
                                                    y + b * y_block, y_block, first);
  for (; b < blocks; ++b)
    lanes_tile<1, kColumns, kUnitColumn>(x + b * x_block, x_block, depth, w, stride,
                                         y + b * y_block, y_block, first);
}

// y[n,j] = sum over k of x[n,k] w[k,j] for a range of j and one of blocks of n, x [N, depth] and
// y [N, columns] in lanes, by one run for all of them, then by the next. Of many blocks, a copy of
// w has the numbers of each tile together, in a far cache, and as many blocks as a tile has are
// read for all tiles from the nearest one.
template <bool kUnitColumn>
HWY_INLINE void lanes_product(int64_t depth, int64_t columns, Range blocks, Range range,
                              const float* x, const float* w, float* y) {
  constexpr int64_t kReadAgain = 8 * kTileVectors, kTogether = 192;
  HWY_ALIGN float together[kRun * kTogether];
  const int64_t stride = kUnitColumn ? columns : depth;
  const int64_t x_block = depth * kLanes, y_block = columns * kLanes;
  const int64_t next_j = kUnitColumn ? 1 : stride, next_k = kUnitColumn ? stride : 1;
  const int64_t count = blocks.end - blocks.begin;
  x += blocks.begin * x_block, y += blocks.begin * y_block;
  // A product without depth is 0.
  for (int64_t run = 0; run == 0 || run < depth; run += kRun) {
    const int64_t length = std::min(kRun, depth - run);
    const float *const x_run = x + run * kLanes, *const w_run = w + run * next_k;
    if (count < kReadAgain) {
      for_tiles(range.begin, range.end, [&]<int kColumns>(int64_t j) HWY_ATTR {
        lanes_blocks<kColumns, kUnitColumn>(count, x_run, x_block, length, w_run + j * next_j,
                                            stride, y + j * kLanes, y_block, run == 0);
      });
      continue;
    }
    for (int64_t begin = range.begin; begin < range.end; begin += kTogether) {
      const int64_t end = std::min(begin + kTogether, range.end);
      for_tiles(begin, end, [&]<int kColumns>(int64_t j) HWY_ATTR {
        float* const to = together + (j - begin) * length;
        for (int64_t k = 0; k < length; ++k)
          for (int c = 0; c < kColumns; ++c)
            to[k * kColumns + c] = w_run[k * next_k + (j + c) * next_j];
      });
      for (int64_t b = 0; b < count; b += kTileVectors)
        for_tiles(begin, end, [&]<int kColumns>(int64_t j) HWY_ATTR {
          lanes_blocks<kColumns, true>(std::min<int64_t>(kTileVectors, count - b),
                                       x_run + b * x_block, x_block, length,
                                       together + (j - begin) * length, kColumns,
                                       y + b * y_block + j * kLanes, y_block, run == 0);
        });
    }
  }
}

void forward_outputs(const DenseShape& shape, Range blocks, Range outputs, const float* x,
                     const float* w, float* y) {
  lanes_product<false>(shape.inputs, shape.outputs, blocks, outputs, x, w, y);
}

void grad_input_inputs(const DenseShape& shape, Range blocks, Range inputs, const float* dy,
                       const float* w, float* dx) {
  lanes_product<true>(shape.outputs, shape.inputs, blocks, inputs, dy, w, dx);
}

// dw[j][v] = (or += where not `first`) the sum over one run, n < images, of dy[n,j] x[n,v] for
// kColumns rows j of dw, kVectors vectors of inputs v, whose tiles in x are x_tile floats apart. Of
// the last vector `last` lanes are stored.
template <int kVectors, int kColumns>
HWY_INLINE void weight_tile(int64_t images, const float* HWY_RESTRICT dy, int64_t dy_block,
                            const float* HWY_RESTRICT x, int64_t x_tile, float* HWY_RESTRICT dw,
                            int64_t dw_stride, int64_t last, bool first) {
  V16 acc[kColumns][kVectors];
  HWY_UNROLL(16)
  for (int j = 0; j < kColumns; ++j) {
    HWY_UNROLL(16)
    for (int v = 0; v < kVectors; ++v) acc[j][v] = zero16();
  }
  for (int64_t block = 0; block < images; block += kLanes) {
    const float* d = dy + block / kLanes * dy_block;
    const float* row = x + block * kLanes;
    const int64_t lanes = std::min<int64_t>(kLanes, images - block);
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
        store16(to, first ? acc[j][v] : add16(load16(to), acc[j][v]));
      } else {
        const V16 sum = first ? acc[j][v] : add16(load_first16(to, last), acc[j][v]);
        store_first16(to, sum, last);
      }
    }
  }
}

// One run of images [run, run + images) by a range of inputs.
template <int kColumns>
HWY_INLINE void weight_rows(const DenseShape& s, int64_t run, int64_t images, Range inputs,
                            const float* dy, const float* x_rows, float* dw) {
  const int64_t dy_block = s.outputs * kLanes, x_tile = padded(s.images) * kLanes;
  const float* const d = dy + run / kLanes * dy_block;
  const bool first = run == 0 && !s.adds;
  for (int64_t i = inputs.begin; i < inputs.end;) {
    const float* x = x_rows + i * padded(s.images) + run * kLanes;
    const int64_t rest = inputs.end - i;
    if (rest > (kTileVectors - 1) * kLanes) {
      weight_tile<kTileVectors, kColumns>(
          images, d, dy_block, x, x_tile, dw + i, s.inputs,
          std::min<int64_t>(kLanes, rest - (kTileVectors - 1) * kLanes), first);
      i += kTileVectors * kLanes;
    } else {
      weight_tile<1, kColumns>(images, d, dy_block, x, x_tile, dw + i, s.inputs,
                               std::min<int64_t>(kLanes, rest), first);
      i += kLanes;
    }
  }
}

// A group of inputs by one run for all outputs, then by the next run.
void grad_weight_outputs(const DenseShape& s, Range outputs, const float* dy, const float* x_rows,
                         float* dw) {
  for (int64_t i = 0; i < s.inputs; i += kNearVectors * kLanes) {
    const Range inputs = {i, std::min(i + kNearVectors * kLanes, s.inputs)};
    for (int64_t run = 0; run < s.images; run += kRun) {
      const int64_t images = std::min(kRun, s.images - run);
      for_tiles(outputs.begin, outputs.end, [&]<int kColumns>(int64_t o) HWY_ATTR {
        weight_rows<kColumns>(s, run, images, inputs, dy + o * kLanes, x_rows, dw + o * s.inputs);
      });
    }
  }
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
// a million multiply-adds or more. Of large products a part has as many columns as are copied
// together, and not all rows: what it reads again and again then stays in a near cache.
constexpr std::int64_t kUnit = 24, kWide = 96;
constexpr std::int64_t kGroupBlocks = 16;
constexpr std::int64_t kPartWork = 1 << 19;

struct Part {
  Range blocks, columns;
};
// A product of so many rows, in blocks, by so many columns.
class Parts {
 public:
  Parts(std::int64_t rows, std::int64_t columns, std::int64_t depth)
      : blocks_(blocks_of(rows)), columns_(columns) {
    const bool is_large = columns >= kWide && blocks_ >= kGroupBlocks;
    if (is_large) groups_ = blocks_ / kGroupBlocks;
    const std::int64_t width = is_large ? kWide : kUnit;
    parts_ = parts_of((columns + width - 1) / width, width * (padded(rows) / groups_) * depth,
                      kPartWork);
  }
  int count() const { return static_cast<int>(groups_) * parts_; }
  Part at(int part) const {
    const Range units = share_of((columns_ + kUnit - 1) / kUnit, parts_, part % parts_);
    return {share_of(blocks_, static_cast<int>(groups_), part / parts_),
            {units.begin * kUnit, std::min(units.end * kUnit, columns_)}};
  }

 private:
  std::int64_t blocks_, columns_, groups_ = 1;
  int parts_ = 1;
};

Parts forward_parts(const DenseShape& s) { return {s.images, s.outputs, s.inputs}; }
Parts grad_input_parts(const DenseShape& s) { return {s.images, s.inputs, s.outputs}; }

// The images are the depth, and the inputs, of which each part has all, the rows.
std::int64_t weight_unit(const DenseShape& s) {
  return s.outputs >= 8 * kWide && s.images >= 256 ? kWide : kUnit;
}

}  // namespace

int dense_forward_parts(const DenseShape& shape) { return forward_parts(shape).count(); }
void dense_forward(const DenseShape& shape, const float* x, const float* w, float* y, int part) {
  const Part of = forward_parts(shape).at(part);
  PODIUM_DISPATCH(forward_outputs)(shape, of.blocks, of.columns, x, w, y);
}

int dense_grad_input_parts(const DenseShape& shape) { return grad_input_parts(shape).count(); }
void dense_grad_input(const DenseShape& shape, const float* dy, const float* w, float* dx,
                      int part) {
  const Part of = grad_input_parts(shape).at(part);
  PODIUM_DISPATCH(grad_input_inputs)(shape, of.blocks, of.columns, dy, w, dx);
}

int dense_grad_weight_parts(const DenseShape& s) {
  const std::int64_t unit = weight_unit(s);
  return parts_of((s.outputs + unit - 1) / unit, unit * s.images * s.inputs, kPartWork);
}
void dense_grad_weight(const DenseShape& s, const float* dy, const float* x_rows, float* dw,
                       int part) {
  const std::int64_t unit = weight_unit(s);
  const Range units = share_of((s.outputs + unit - 1) / unit, dense_grad_weight_parts(s), part);
  const Range outputs = {units.begin * unit, std::min(units.end * unit, s.outputs)};
  PODIUM_DISPATCH(grad_weight_outputs)(s, outputs, dy, x_rows, dw);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
