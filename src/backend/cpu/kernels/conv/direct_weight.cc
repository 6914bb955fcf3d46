// Direct convolution, gradient to the weights: registers hold the sums of a few output channels and
// a rectangle of taps of one input channel, and run over the pixels of one block of images at a
// time.
#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/conv/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/conv/direct_weight.cc"
#include "backend/cpu/kernels/foreach_target.h"

#ifndef PODIUM_BACKEND_CPU_KERNELS_CONV_DIRECT_WEIGHT_CC_
#define PODIUM_BACKEND_CPU_KERNELS_CONV_DIRECT_WEIGHT_CC_
#include <algorithm>

namespace podium::cpu {
namespace {

constexpr std::int64_t kMaxTapRun = 6;  // taps of a row in registers
constexpr std::int64_t kMaxSums = 36;   // sums of one tile, for scratch

// A part is a block of output channels, one input channel and a group of kernel rows.
constexpr std::int64_t kPartChannels = 4;
struct WeightParts {
  std::int64_t channel_blocks;
  std::int64_t row_groups;

  explicit WeightParts(const ConvShape& s)
      : channel_blocks((s.out_channels + kPartChannels - 1) / kPartChannels),
        row_groups((s.kernel_height + 2) / 3) {}
};

// One tile: output channels k0 ..., taps (r0 ..., s0 ...) of input channel c.
struct WeightTile {
  const ConvShape* shape;
  const float* dy;  // channel k0
  const float* x;   // channel c
  std::int64_t r0, s0;
  float* sums;  // [channel][row][column][16]
};

}  // namespace
}  // namespace podium::cpu
#endif  // PODIUM_BACKEND_CPU_KERNELS_CONV_DIRECT_WEIGHT_CC_

#include "backend/cpu/kernels/conv/lane_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace {

constexpr bool kFewRegisters = HWY_TARGET == HWY_AVX2;

// ceil(a / b), b > 0
HWY_INLINE std::int64_t ceiling(std::int64_t a, std::int64_t b) {
  return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

template <int kChannels, int kRows, int kColumns>
void weight_tile(const WeightTile& t, int lane) {
  const NativeTag d;
  const ConvShape& s = *t.shape;
  const std::int64_t dy_plane = s.out_pixels() * kLanes;
  const std::int64_t dy_block = s.out_channels * dy_plane;
  const std::int64_t x_block = s.in_channels * s.in_pixels() * kLanes;
  // Output columns [from, to) meet all the tile's columns.
  const std::int64_t width = s.out_width;
  const std::int64_t from =
      std::clamp<std::int64_t>(ceiling(s.pad_left - t.s0, s.stride_width), 0, width);
  const std::int64_t to = std::clamp<std::int64_t>(
      ceiling(s.in_width + s.pad_left - t.s0 - (kColumns - 1), s.stride_width), from, width);
  Native acc[kChannels][kRows][kColumns];

  for (std::int64_t block = 0; block < s.blocks(); ++block) {
    PODIUM_UNROLL
    for (int k = 0; k < kChannels; ++k) PODIUM_UNROLL
    for (int r = 0; r < kRows; ++r) PODIUM_UNROLL
    for (int j = 0; j < kColumns; ++j) acc[k][r][j] = hn::Zero(d);
    for (std::int64_t p = 0; p < s.out_height; ++p) {
      const std::int64_t top = p * s.stride_height - s.pad_top + t.r0;
      if (top + kRows <= 0 || top >= s.in_height) continue;
      const bool whole = top >= 0 && top + kRows <= s.in_height;
      const float* HWY_RESTRICT g = t.dy + block * dy_block + p * width * kLanes + lane;
      const float* HWY_RESTRICT row =
          t.x + block * x_block + (top * s.in_width + t.s0 - s.pad_left) * kLanes + lane;
      const std::int64_t row_step = s.in_width * kLanes;
      for (std::int64_t q = 0; q < width; ++q) {
        const float* HWY_RESTRICT gq = g + q * kLanes;
        const float* HWY_RESTRICT xq = row + q * s.stride_width * kLanes;
        Native v[kChannels];
        PODIUM_UNROLL
        for (int k = 0; k < kChannels; ++k) v[k] = hn::LoadU(d, gq + k * dy_plane);
        if (whole && q >= from && q < to) {
          PODIUM_UNROLL
          for (int r = 0; r < kRows; ++r) PODIUM_UNROLL
          for (int j = 0; j < kColumns; ++j) {
            const Native u = hn::LoadU(d, xq + r * row_step + j * kLanes);
            PODIUM_UNROLL
            for (int k = 0; k < kChannels; ++k) acc[k][r][j] = hn::MulAdd(v[k], u, acc[k][r][j]);
          }
        } else {
          const std::int64_t left = q * s.stride_width - s.pad_left + t.s0;
          PODIUM_UNROLL
          for (int r = 0; r < kRows; ++r) {
            if (top + r < 0 || top + r >= s.in_height) continue;
            PODIUM_UNROLL
            for (int j = 0; j < kColumns; ++j) {
              if (left + j < 0 || left + j >= s.in_width) continue;
              const Native u = hn::LoadU(d, xq + r * row_step + j * kLanes);
              PODIUM_UNROLL
              for (int k = 0; k < kChannels; ++k) acc[k][r][j] = hn::MulAdd(v[k], u, acc[k][r][j]);
            }
          }
        }
      }
    }
    // The images' partial sums join those of the earlier blocks; lanes without an image add
    // nothing.
    const std::int64_t images = std::min<std::int64_t>(kLanes, s.images - block * kLanes);
    const auto present = hn::FirstN(
        d, static_cast<std::size_t>(std::clamp<std::int64_t>(images - lane, 0, kNative)));
    float* out = t.sums + lane;
    PODIUM_UNROLL
    for (int k = 0; k < kChannels; ++k) PODIUM_UNROLL
    for (int r = 0; r < kRows; ++r) PODIUM_UNROLL
    for (int j = 0; j < kColumns; ++j, out += kLanes) {
      const Native before = block == 0 ? hn::Zero(d) : hn::LoadU(d, out);
      hn::StoreU(hn::IfThenElse(present, hn::Add(before, acc[k][r][j]), before), d, out);
    }
  }
}

template <int kChannels, int kRows, int kColumns>
void run_tile(const WeightTile& t, float* dw, std::int64_t k0, std::int64_t c) {
  for (int lane = 0; lane < kLanes; lane += kNative)
    weight_tile<kChannels, kRows, kColumns>(t, lane);
  HWY_ALIGN float totals[kMaxSums];
  lane_sums(t.sums, kChannels * kRows * kColumns, totals);
  const ConvShape& s = *t.shape;
  for (int k = 0; k < kChannels; ++k)
    for (int r = 0; r < kRows; ++r)
      for (int j = 0; j < kColumns; ++j)
        dw[(((k0 + k) * s.in_channels + c) * s.kernel_height + t.r0 + r) * s.kernel_width + t.s0 +
           j] = totals[(k * kRows + r) * kColumns + j];
}

using TileFunction = void (*)(const WeightTile&, float*, std::int64_t, std::int64_t);
template <int kChannels>
constexpr TileFunction kRowTiles[kMaxTapRun] = {
    run_tile<kChannels, 1, 1>, run_tile<kChannels, 1, 2>, run_tile<kChannels, 1, 3>,
    run_tile<kChannels, 1, 4>, run_tile<kChannels, 1, 5>, run_tile<kChannels, 1, 6>};

void weight_part(const ConvShape& s, const float* dy, const float* x, float* dw, float* scratch,
                 int part) {
  const WeightParts parts(s);
  const Range channels =
      share_of(s.out_channels, parts.channel_blocks, part / (parts.row_groups * s.in_channels));
  const std::int64_t c = part / parts.row_groups % s.in_channels;
  const Range rows = share_of(s.kernel_height, parts.row_groups, part % parts.row_groups);
  WeightTile t;
  t.shape = &s;
  t.x = x + c * s.in_pixels() * kLanes;
  t.sums = scratch;
  const auto dy_of = [&](std::int64_t k) { return dy + k * s.out_pixels() * kLanes; };
  const bool square3 = s.kernel_width == 3 && rows.end - rows.begin == 3;
  for (std::int64_t k = channels.begin; k < channels.end;) {
    const std::int64_t left = channels.end - k;
    t.dy = dy_of(k);
    if (square3 && !kFewRegisters) {
      t.r0 = rows.begin;
      t.s0 = 0;
      if (left >= 3) {
        run_tile<3, 3, 3>(t, dw, k, c);
        k += 3;
      } else if (left == 2) {
        run_tile<2, 3, 3>(t, dw, k, c);
        k += 2;
      } else {
        run_tile<1, 3, 3>(t, dw, k, c);
        k += 1;
      }
      continue;
    }
    const std::int64_t runs = (s.kernel_width + kMaxTapRun - 1) / kMaxTapRun;
    const std::int64_t widest = (s.kernel_width + runs - 1) / runs;
    const std::int64_t most = kFewRegisters ? std::min<std::int64_t>(4, 12 / widest) : 4;
    const std::int64_t count = std::min(left, most);
    for (t.r0 = rows.begin; t.r0 < rows.end; ++t.r0)
      for (std::int64_t run = 0; run < runs; ++run) {
        const Range taps = share_of(s.kernel_width, runs, run);
        t.s0 = taps.begin;
        const std::int64_t width = taps.end - taps.begin - 1;
        switch (count) {
          case 1: kRowTiles<1>[width](t, dw, k, c); break;
          case 2: kRowTiles<2>[width](t, dw, k, c); break;
          case 3: kRowTiles<3>[width](t, dw, k, c); break;
          default: kRowTiles<4>[width](t, dw, k, c); break;
        }
      }
    k += count;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(weight_part);

ConvWork conv_grad_weight_work(const ConvShape& s) {
  const WeightParts parts(s);
  ConvWork work;
  work.phases = 1;
  work.parts[0] = static_cast<int>(parts.channel_blocks * parts.row_groups * s.in_channels);
  work.scratch = kMaxSums * kLanes;
  return work;
}

void conv_grad_weight(const ConvShape& s, const float* dy, const float* x, float* dw,
                      float* /*shared*/, float* scratch, int /*phase*/, int part) {
  PODIUM_DISPATCH(weight_part)(s, dy, x, dw, scratch, part);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
