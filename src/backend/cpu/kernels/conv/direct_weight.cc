// Direct convolution, gradient to the weights of layers that are not wide: registers hold the sums
// of a few output channels and a rectangle of taps of one input channel, and run over the pixels of
// one block of images at a time.
#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/conv/direct_weight_wide.h"
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
constexpr std::int64_t kMaxSums = 36;   // sums of a tile
constexpr std::int64_t kBandRows = 32;  // of an image, whose sums the tree joins
constexpr int kMaxTrees = 32;           // of bands, while they are joined

// ceil(a / b), b > 0
constexpr std::int64_t ceiling(std::int64_t a, std::int64_t b) {
  return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

// A part is a block of output channels, a block of input channels and a group of kernel rows. Where
// the images exceed L2 the blocks are large: a part then goes through them sixteen at a time, and
// finds in L2 what its tiles share.
struct WeightParts {
  std::int64_t out_blocks, in_blocks, row_groups;
  bool far;

  explicit WeightParts(const ConvShape& s) : row_groups(ceiling(s.kernel_height, 3)) {
    constexpr std::int64_t kNear = 1 << 18;  // floats: 1 MiB
    constexpr std::int64_t kEnough = 8;      // parts, to be shared out
    far = in_floats(s) + out_floats(s) > kNear;
    out_blocks = ceiling(s.out_channels, far ? 16 : 4);
    in_blocks = ceiling(s.in_channels, far ? 4 : 1);
    if (out_blocks * in_blocks * row_groups < kEnough) in_blocks = s.in_channels;
    if (out_blocks * in_blocks * row_groups < kEnough) out_blocks = ceiling(s.out_channels, 4);
  }
  std::int64_t count() const { return out_blocks * in_blocks * row_groups; }
  // Sums of a part.
  std::int64_t sums(const ConvShape& s) const {
    return ceiling(s.out_channels, out_blocks) * ceiling(s.in_channels, in_blocks) *
           ceiling(s.kernel_height, row_groups) * s.kernel_width;
  }
};

// One tile: `channels` output channels from k on, `rows` by `columns` taps from (r, s) on, of input
// channel c. Output columns [from, to) meet all its columns.
struct WeightTile {
  std::int64_t k, c, r, s, from, to;
  int channels, rows, columns;
};
// What it reads: dy of channel k and x of channel c, of some blocks of images.
struct WeightTileImages {
  const ConvShape* shape;
  const float *dy, *x;  // of the first block of all
  Range blocks;
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

// sums: [channel][row][column][16]
template <int kChannels, int kRows, int kColumns>
void weight_tile(const WeightTile& t, const WeightTileImages& at, float* sums, int lane) {
  const NativeTag d;
  const ConvShape& s = *at.shape;
  const std::int64_t dy_plane = s.out_pixels() * kLanes;
  const std::int64_t dy_block = s.out_channels * dy_plane;
  const std::int64_t x_block = s.in_channels * s.in_pixels() * kLanes;
  const std::int64_t width = s.out_width, from = t.from, to = t.to;
  Native acc[kChannels][kRows][kColumns];

  // The sums of bands that wait for others, in trees whose sizes fall.
  constexpr int kTile = kChannels * kRows * kColumns;
  HWY_ALIGN float trees[kMaxTrees][kTile * kNative];
  std::int64_t sizes[kMaxTrees];
  const auto add_tree = [&](const float* tree) HWY_ATTR {
    PODIUM_UNROLL
    for (int k = 0; k < kChannels; ++k) PODIUM_UNROLL
    for (int r = 0; r < kRows; ++r) PODIUM_UNROLL
    for (int j = 0; j < kColumns; ++j, tree += kNative)
      acc[k][r][j] = hn::Add(hn::Load(d, tree), acc[k][r][j]);
  };

  for (std::int64_t block = at.blocks.begin; block < at.blocks.end; ++block) {
    int waiting = 0;
    for (std::int64_t band = 0; band < s.out_height; band += kBandRows) {
      const std::int64_t end = std::min(band + kBandRows, s.out_height);
      PODIUM_UNROLL
      for (int k = 0; k < kChannels; ++k) PODIUM_UNROLL
      for (int r = 0; r < kRows; ++r) PODIUM_UNROLL
      for (int j = 0; j < kColumns; ++j) acc[k][r][j] = hn::Zero(d);
      for (std::int64_t p = band; p < end; ++p) {
        const std::int64_t top = p * s.stride_height - s.pad_top + t.r;
        if (top + kRows <= 0 || top >= s.in_height) continue;
        const bool whole = top >= 0 && top + kRows <= s.in_height;
        const float* HWY_RESTRICT g = at.dy + block * dy_block + p * width * kLanes + lane;
        const float* HWY_RESTRICT row =
            at.x + block * x_block + (top * s.in_width + t.s - s.pad_left) * kLanes + lane;
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
            const std::int64_t left = q * s.stride_width - s.pad_left + t.s;
            PODIUM_UNROLL
            for (int r = 0; r < kRows; ++r) {
              if (top + r < 0 || top + r >= s.in_height) continue;
              PODIUM_UNROLL
              for (int j = 0; j < kColumns; ++j) {
                if (left + j < 0 || left + j >= s.in_width) continue;
                const Native u = hn::LoadU(d, xq + r * row_step + j * kLanes);
                PODIUM_UNROLL
                for (int k = 0; k < kChannels; ++k)
                  acc[k][r][j] = hn::MulAdd(v[k], u, acc[k][r][j]);
              }
            }
          }
        }
      }
      // Trees of equal size join; after the last band all do.
      std::int64_t size = 1;
      while (waiting > 0 && (end == s.out_height || sizes[waiting - 1] == size)) {
        size += sizes[--waiting];
        add_tree(trees[waiting]);
      }
      if (end == s.out_height) break;
      float* held = trees[waiting];
      PODIUM_UNROLL
      for (int k = 0; k < kChannels; ++k) PODIUM_UNROLL
      for (int r = 0; r < kRows; ++r) PODIUM_UNROLL
      for (int j = 0; j < kColumns; ++j, held += kNative) hn::Store(acc[k][r][j], d, held);
      sizes[waiting++] = size;
    }
    // The images' partial sums join those of the earlier blocks; lanes without an image add
    // nothing.
    const std::int64_t images = std::min<std::int64_t>(kLanes, s.images - block * kLanes);
    const auto present = hn::FirstN(
        d, static_cast<std::size_t>(std::clamp<std::int64_t>(images - lane, 0, kNative)));
    float* out = sums + lane;
    PODIUM_UNROLL
    for (int k = 0; k < kChannels; ++k) PODIUM_UNROLL
    for (int r = 0; r < kRows; ++r) PODIUM_UNROLL
    for (int j = 0; j < kColumns; ++j, out += kLanes) {
      const Native before = block == 0 ? hn::Zero(d) : hn::LoadU(d, out);
      hn::StoreU(hn::IfThenElse(present, hn::Add(before, acc[k][r][j]), before), d, out);
    }
  }
}

// The last of the blocks makes the tile's gradients.
template <int kChannels, int kRows, int kColumns>
void run_tile(const WeightTile& t, const WeightTileImages& at, float* sums, float* dw) {
  const ConvShape& s = *at.shape;
  for (int lane = 0; lane < kLanes; lane += kNative)
    weight_tile<kChannels, kRows, kColumns>(t, at, sums, lane);
  if (at.blocks.end < blocks_of(s.images)) return;
  HWY_ALIGN float totals[kMaxSums];
  lane_sums(sums, kChannels * kRows * kColumns, totals);
  for (int k = 0; k < kChannels; ++k)
    for (int r = 0; r < kRows; ++r)
      for (int j = 0; j < kColumns; ++j)
        dw[(((t.k + k) * s.in_channels + t.c) * s.kernel_height + t.r + r) * s.kernel_width + t.s +
           j] = totals[(k * kRows + r) * kColumns + j];
}

using TileFunction = void (*)(const WeightTile&, const WeightTileImages&, float*, float*);
constexpr TileFunction kSquareTiles[3] = {run_tile<1, 3, 3>, run_tile<2, 3, 3>, run_tile<3, 3, 3>};
template <int kChannels>
constexpr TileFunction kRowTiles[kMaxTapRun] = {
    run_tile<kChannels, 1, 1>, run_tile<kChannels, 1, 2>, run_tile<kChannels, 1, 3>,
    run_tile<kChannels, 1, 4>, run_tile<kChannels, 1, 5>, run_tile<kChannels, 1, 6>};

TileFunction function_of(const WeightTile& t) {
  if (t.rows == 3) return kSquareTiles[t.channels - 1];
  switch (t.channels) {
    case 1: return kRowTiles<1>[t.columns - 1];
    case 2: return kRowTiles<2>[t.columns - 1];
    case 3: return kRowTiles<3>[t.columns - 1];
    default: return kRowTiles<4>[t.columns - 1];
  }
}

// Calls f(tile) for the tiles of a part.
template <typename F>
void for_each_tile(const ConvShape& s, Range outputs, Range inputs, Range rows, const F& f) {
  const bool square = !kFewRegisters && s.kernel_width == 3 && rows.end - rows.begin == 3;
  const std::int64_t runs = ceiling(s.kernel_width, kMaxTapRun);
  const std::int64_t widest = ceiling(s.kernel_width, runs);
  const std::int64_t most = square ? 3 : kFewRegisters ? std::min<std::int64_t>(4, 12 / widest) : 4;
  WeightTile t;
  t.rows = square ? 3 : 1;
  for (std::int64_t run = 0; run < runs; ++run) {
    const Range taps = share_of(s.kernel_width, runs, run);
    t.s = taps.begin;
    t.columns = static_cast<int>(taps.end - taps.begin);
    t.from = std::clamp<std::int64_t>(ceiling(s.pad_left - t.s, s.stride_width), 0, s.out_width);
    t.to = std::clamp<std::int64_t>(
        ceiling(s.in_width + s.pad_left - t.s - (t.columns - 1), s.stride_width), t.from,
        s.out_width);
    for (t.k = outputs.begin; t.k < outputs.end; t.k += t.channels) {
      const std::int64_t left = outputs.end - t.k;
      t.channels = static_cast<int>(std::min(left, most));
      for (t.r = rows.begin; t.r < rows.end; t.r += t.rows)
        for (t.c = inputs.begin; t.c < inputs.end; ++t.c) f(t);
    }
  }
}

void weight_part(const ConvShape& s, const float* dy, const float* x, float* dw, float* scratch,
                 int part) {
  const WeightParts parts(s);
  const Range outputs =
      share_of(s.out_channels, parts.out_blocks, part / (parts.row_groups * parts.in_blocks));
  const Range inputs =
      share_of(s.in_channels, parts.in_blocks, part / parts.row_groups % parts.in_blocks);
  const Range rows = share_of(s.kernel_height, parts.row_groups, part % parts.row_groups);
  const std::int64_t at_a_time = parts.far ? 1 : blocks_of(s.images);
  for (std::int64_t block = 0; block < blocks_of(s.images); block += at_a_time) {
    float* sums = scratch;
    for_each_tile(s, outputs, inputs, rows, [&](const WeightTile& t) {
      const WeightTileImages at = {&s,
                                   dy + t.k * s.out_pixels() * kLanes,
                                   x + t.c * s.in_pixels() * kLanes,
                                   {block, block + at_a_time}};
      function_of(t)(t, at, sums, dw);
      sums += t.channels * t.rows * t.columns * kLanes;
    });
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
  if (direct_weight_is_wide(s)) return direct_weight_wide_work(s);
  const WeightParts parts(s);
  ConvWork work;
  work.phases = 1;
  work.parts[0] = static_cast<int>(parts.count());
  work.scratch = parts.sums(s) * kLanes;
  return work;
}

void conv_grad_weight(const ConvShape& s, const float* dy, const float* x, float* dw,
                      float* /*shared*/, float* scratch, int /*phase*/, int part) {
  if (direct_weight_is_wide(s)) return direct_weight_wide(s, dy, x, dw, scratch, part);
  PODIUM_DISPATCH(weight_part)(s, dy, x, dw, scratch, part);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
