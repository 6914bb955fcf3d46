// Direct convolution, forward and gradient to the input. Both are one loop: an output pixel gathers
// taps from an input plane; forward walks the input by the stride, the gradient walks the output of
// each column class (x mod stride) by the stride. Registers hold up to 6 output channels of up to 4
// pixels.
#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/conv/pointwise.h"
#include "backend/cpu/kernels/conv/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/conv/direct.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/v16-inl.h"

#ifndef PODIUM_BACKEND_CPU_KERNELS_CONV_DIRECT_CC_
#define PODIUM_BACKEND_CPU_KERNELS_CONV_DIRECT_CC_
#include <algorithm>

namespace podium::cpu {
namespace {

constexpr int kMaxChannelBlock = 6;  // output channels in registers
constexpr int kMaxPixels = 4;        // output pixels in registers (2 where there are 16 registers)
constexpr int kChunk = 16;           // input channels between which the taps are walked

// The taps that an output row, or a run of pixels of a row, meets: tap first + i * tap_step reads
// position position + i * position_step of the input, for i in [0, count).
struct Taps {
  std::int64_t count;
  std::int64_t first;
  std::int64_t tap_step;
  std::int64_t position;
  std::int64_t position_step;
};

struct Tile {
  const float* in;     // channel 0 of the block of images
  std::int64_t plane;  // floats between input channels
  std::int64_t channels;
  std::int64_t width;  // of the input
  const float* w;      // packed [chunk][r][s][channel][output channel]
  std::int64_t kernel_height;
  std::int64_t kernel_width;
  Taps rows;                // all inside the input
  Taps columns;             // of the first pixel; may lie outside
  std::int64_t pixel_step;  // input columns between output pixels
  float* out;               // channel 0, first pixel
  std::int64_t out_plane;
  std::int64_t out_step;  // floats between output pixels
};

// Weights in the order of use, for output channels cut into blocks of about equal size. `out` and
// `in` are the strides of the two channel indices of w.
struct Packing {
  std::int64_t out_channels, in_channels, taps;
  std::int64_t out_stride, in_stride;

  std::int64_t blocks() const { return (out_channels + kMaxChannelBlock - 1) / kMaxChannelBlock; }
  Range block(std::int64_t b) const { return share_of(out_channels, blocks(), b); }
  std::int64_t offset(std::int64_t b) const { return block(b).begin * in_channels * taps; }
};

void pack(const Packing& p, const float* w, float* packed, std::int64_t b) {
  const Range block = p.block(b);
  const std::int64_t size = block.end - block.begin;
  float* base = packed + p.offset(b);
  for (std::int64_t chunk = 0; chunk < p.in_channels; chunk += kChunk) {
    const std::int64_t channels = std::min<std::int64_t>(kChunk, p.in_channels - chunk);
    for (std::int64_t k = 0; k < size; ++k)
      for (std::int64_t c = 0; c < channels; ++c) {
        const float* from = w + (block.begin + k) * p.out_stride + (chunk + c) * p.in_stride;
        float* to = base + chunk * p.taps * size + c * size + k;
        for (std::int64_t t = 0; t < p.taps; ++t) to[t * channels * size] = from[t];
      }
  }
}

Packing forward_packing(const ConvShape& s) {
  return {s.out_channels, s.in_channels, s.taps(), s.in_channels * s.taps(), s.taps()};
}
Packing grad_input_packing(const ConvShape& s) {
  return {s.in_channels, s.out_channels, s.taps(), s.taps(), s.in_channels * s.taps()};
}

// Parts of the main phase are runs of output rows of one block of images.
constexpr std::int64_t kPartWork = 200000;  // multiply-adds of vectors
int row_groups(std::int64_t rows, std::int64_t row_work) {
  return parts_of(rows, row_work, kPartWork);
}
int forward_groups(const ConvShape& s) {
  return row_groups(s.out_height, s.out_width * s.out_channels * s.in_channels * s.taps());
}
int grad_input_groups(const ConvShape& s) {
  return row_groups(s.in_height, s.out_pixels() * s.out_channels * s.in_channels * s.taps() /
                                     std::max<std::int64_t>(s.in_height, 1));
}

}  // namespace
}  // namespace podium::cpu
#endif  // PODIUM_BACKEND_CPU_KERNELS_CONV_DIRECT_CC_

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace {

constexpr int kPixels = HWY_TARGET == HWY_AVX2 ? 2 : kMaxPixels;

template <int kChannels, int kRun>
void tile(const Tile& t, int lane) {
  const NativeTag d;
  Native acc[kChannels][kRun];
  PODIUM_UNROLL
  for (int k = 0; k < kChannels; ++k) PODIUM_UNROLL
  for (int j = 0; j < kRun; ++j) acc[k][j] = hn::Zero(d);
  const std::int64_t step = t.pixel_step * kLanes;
  for (std::int64_t chunk = 0; chunk < t.channels; chunk += kChunk) {
    const std::int64_t channels = std::min<std::int64_t>(kChunk, t.channels - chunk);
    const float* chunk_in = t.in + chunk * t.plane + lane;
    const float* chunk_w = t.w + chunk * t.kernel_height * t.kernel_width * kChannels;
    for (std::int64_t i = 0; i < t.rows.count; ++i) {
      const float* row = chunk_in + (t.rows.position + i * t.rows.position_step) * t.width * kLanes;
      const float* row_w =
          chunk_w + (t.rows.first + i * t.rows.tap_step) * t.kernel_width * channels * kChannels;
      for (std::int64_t l = 0; l < t.columns.count; ++l) {
        const std::int64_t column = t.columns.position + l * t.columns.position_step;
        const float* HWY_RESTRICT x = row + column * kLanes;
        const float* HWY_RESTRICT w =
            row_w + (t.columns.first + l * t.columns.tap_step) * channels * kChannels;
        if (column >= 0 && column + (kRun - 1) * t.pixel_step < t.width) {
          for (std::int64_t c = 0; c < channels; ++c, x += t.plane, w += kChannels) {
            Native v[kRun];
            PODIUM_UNROLL
            for (int j = 0; j < kRun; ++j) v[j] = hn::LoadU(d, x + j * step);
            PODIUM_UNROLL
            for (int k = 0; k < kChannels; ++k) {
              const Native b = hn::Set(d, w[k]);
              PODIUM_UNROLL
              for (int j = 0; j < kRun; ++j) acc[k][j] = hn::MulAdd(v[j], b, acc[k][j]);
            }
          }
        } else {
          bool inside[kRun];
          PODIUM_UNROLL
          for (int j = 0; j < kRun; ++j)
            inside[j] = column + j * t.pixel_step >= 0 && column + j * t.pixel_step < t.width;
          for (std::int64_t c = 0; c < channels; ++c, x += t.plane, w += kChannels) PODIUM_UNROLL
          for (int j = 0; j < kRun; ++j) {
            if (!inside[j]) continue;
            const Native v = hn::LoadU(d, x + j * step);
            PODIUM_UNROLL
            for (int k = 0; k < kChannels; ++k)
              acc[k][j] = hn::MulAdd(v, hn::Set(d, w[k]), acc[k][j]);
          }
        }
      }
    }
  }
  PODIUM_UNROLL
  for (int k = 0; k < kChannels; ++k) PODIUM_UNROLL
  for (int j = 0; j < kRun; ++j)
    hn::StoreU(acc[k][j], d, t.out + k * t.out_plane + j * t.out_step + lane);
}

using TileFunction = void (*)(const Tile&, int);
constexpr TileFunction kTiles[kMaxChannelBlock][kMaxPixels] = {
    {tile<1, 1>, tile<1, 2>, tile<1, 3>, tile<1, 4>},
    {tile<2, 1>, tile<2, 2>, tile<2, 3>, tile<2, 4>},
    {tile<3, 1>, tile<3, 2>, tile<3, 3>, tile<3, 4>},
    {tile<4, 1>, tile<4, 2>, tile<4, 3>, tile<4, 4>},
    {tile<5, 1>, tile<5, 2>, tile<5, 3>, tile<5, 4>},
    {tile<6, 1>, tile<6, 2>, tile<6, 3>, tile<6, 4>}};

void run_tile(const Tile& t, std::int64_t channels, std::int64_t pixels) {
  const TileFunction function = kTiles[channels - 1][pixels - 1];
  for (int lane = 0; lane < kLanes; lane += kNative) function(t, lane);
}

void forward_rows(const ConvShape& s, const float* x, const float* packed, float* y,
                  std::int64_t block, Range rows) {
  const Packing packing = forward_packing(s);
  const std::int64_t runs = (s.out_width + kPixels - 1) / kPixels;
  Tile t;
  t.in = x + block * s.in_channels * s.in_pixels() * kLanes;
  t.plane = s.in_pixels() * kLanes;
  t.channels = s.in_channels;
  t.width = s.in_width;
  t.kernel_height = s.kernel_height;
  t.kernel_width = s.kernel_width;
  t.pixel_step = s.stride_width;
  t.out_plane = s.out_pixels() * kLanes;
  t.out_step = kLanes;
  for (std::int64_t p = rows.begin; p < rows.end; ++p) {
    const std::int64_t top = p * s.stride_height - s.pad_top;
    const std::int64_t first = std::max<std::int64_t>(0, -top);
    const std::int64_t last = std::min(s.kernel_height, s.in_height - top);
    t.rows = {std::max<std::int64_t>(0, last - first), first, 1, top + first, 1};
    for (std::int64_t b = 0; b < packing.blocks(); ++b) {
      const Range channels = packing.block(b);
      t.w = packed + packing.offset(b);
      for (std::int64_t run = 0; run < runs; ++run) {
        const Range q = share_of(s.out_width, runs, run);
        t.columns = {s.kernel_width, 0, 1, q.begin * s.stride_width - s.pad_left, 1};
        t.out = y + (((block * s.out_channels + channels.begin) * s.out_height + p) * s.out_width +
                     q.begin) *
                        kLanes;
        run_tile(t, channels.end - channels.begin, q.end - q.begin);
      }
    }
  }
}

void grad_input_rows(const ConvShape& s, const float* dy, const float* packed, float* dx,
                     std::int64_t block, Range rows) {
  const Packing packing = grad_input_packing(s);
  Tile t;
  t.in = dy + block * s.out_channels * s.out_pixels() * kLanes;
  t.plane = s.out_pixels() * kLanes;
  t.channels = s.out_channels;
  t.width = s.out_width;
  t.kernel_height = s.kernel_height;
  t.kernel_width = s.kernel_width;
  t.pixel_step = 1;
  t.out_plane = s.in_pixels() * kLanes;
  t.out_step = s.stride_width * kLanes;
  for (std::int64_t y = rows.begin; y < rows.end; ++y) {
    // Taps r = phase + i * stride read row p - i of dy.
    const std::int64_t phase = (y + s.pad_top) % s.stride_height;
    const std::int64_t p = (y + s.pad_top) / s.stride_height;
    const std::int64_t taps = (s.kernel_height - phase + s.stride_height - 1) / s.stride_height;
    const std::int64_t first = std::max<std::int64_t>(0, p - s.out_height + 1);
    const std::int64_t last = std::min(taps, p + 1);
    t.rows = {std::max<std::int64_t>(0, last - first), phase + first * s.stride_height,
              s.stride_height, p - first, -1};
    for (std::int64_t b = 0; b < packing.blocks(); ++b) {
      const Range channels = packing.block(b);
      t.w = packed + packing.offset(b);
      for (std::int64_t x = 0; x < std::min(s.stride_width, s.in_width); ++x) {
        const std::int64_t pixels = (s.in_width - x + s.stride_width - 1) / s.stride_width;
        const std::int64_t runs = (pixels + kPixels - 1) / kPixels;
        const std::int64_t column_phase = (x + s.pad_left) % s.stride_width;
        const std::int64_t column_taps = std::max<std::int64_t>(
            0, (s.kernel_width - column_phase + s.stride_width - 1) / s.stride_width);
        for (std::int64_t run = 0; run < runs; ++run) {
          const Range j = share_of(pixels, runs, run);
          t.columns = {column_taps, column_phase, s.stride_width,
                       (x + s.pad_left) / s.stride_width + j.begin, -1};
          t.out = dx + (((block * s.in_channels + channels.begin) * s.in_height + y) * s.in_width +
                        x + j.begin * s.stride_width) *
                           kLanes;
          run_tile(t, channels.end - channels.begin, j.end - j.begin);
        }
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(forward_rows);
HWY_EXPORT(grad_input_rows);

ConvWork conv_forward_work(const ConvShape& s) {
  if (is_pointwise_forward(s)) return pointwise_work(pointwise_forward(s));
  ConvWork work;
  work.phases = 2;
  work.parts[0] = static_cast<int>(forward_packing(s).blocks());
  work.parts[1] = static_cast<int>(blocks_of(s.images)) * forward_groups(s);
  work.shared = s.weight_floats();
  return work;
}

void conv_forward(const ConvShape& s, const float* x, const float* w, float* y, float* shared,
                  float* scratch, int phase, int part) {
  if (is_pointwise_forward(s))
    return pointwise(pointwise_forward(s), x, w, y, shared, scratch, phase, part);
  if (phase == 0) return pack(forward_packing(s), w, shared, part);
  const int groups = forward_groups(s);
  PODIUM_DISPATCH(forward_rows)
  (s, x, shared, y, part / groups, share_of(s.out_height, groups, part % groups));
}

ConvWork conv_grad_input_work(const ConvShape& s) {
  if (is_pointwise_grad_input(s)) return pointwise_work(pointwise_grad_input(s));
  ConvWork work;
  work.phases = 2;
  work.parts[0] = static_cast<int>(grad_input_packing(s).blocks());
  work.parts[1] = static_cast<int>(blocks_of(s.images)) * grad_input_groups(s);
  work.shared = s.weight_floats();
  return work;
}

void conv_grad_input(const ConvShape& s, const float* dy, const float* w, float* dx, float* shared,
                     float* scratch, int phase, int part) {
  if (is_pointwise_grad_input(s))
    return pointwise(pointwise_grad_input(s), dy, w, dx, shared, scratch, phase, part);
  if (phase == 0) return pack(grad_input_packing(s), w, shared, part);
  const int groups = grad_input_groups(s);
  PODIUM_DISPATCH(grad_input_rows)
  (s, dy, shared, dx, part / groups, share_of(s.in_height, groups, part % groups));
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
