// The geometry of a Winograd convolution (docs/numerics.md): tiles, phases, and the planes that
// they are read from and written to.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/kernels/conv/conv.h"
#include "base/numerics/winograd_points.h"

namespace podium::cpu {

using winograd::Tiles;

// Output channels of one block of packed filters.
inline constexpr std::int64_t kPackedChannels = 12;
inline constexpr std::int64_t kChannelRun = 64;  // channels of one chain
inline constexpr std::int64_t kGroupBlocks = 2;  // blocks of images whose sums are one chain
// Floats of the transformed tiles that are held at a time.
inline constexpr std::int64_t kCacheFloats = 64 << 10;
// Tensors of up to so many floats are not fetched before they are read or written.
inline constexpr std::int64_t kKeptFloats = 192 << 10;
// Tiles that go through a correlation together: fewer of 6x6, unless their channels are few.
inline constexpr std::int64_t kSpan = 4, kSpanOfLarge = 2, kFewChannels = 32;
// Blocks of output channels that a part works on at a time, with filters that are kept and with
// filters that it makes.
inline constexpr std::int64_t kProductBlocks = 4;
inline constexpr std::int64_t kFilterBlocks = 2;
// Up to this many floats of products of all tiles are held, for filters to be made run by run.
inline constexpr std::int64_t kHeldProducts = 96 << 10;

// Filters of so many pairs of channels are fetched while others are multiplied.
inline constexpr std::int64_t kLargeFilters = 8192;

// Memory of zeros, for the rows of a patch that lie outside: as many columns as the largest patch.
constexpr std::int64_t zeros_floats(std::int64_t column_step) {
  return winograd::kMostPoints * column_step;
}

// How logical channels e = (a * phases_w + b) * channels + c lie in a tensor
// [channels][height][width][16]: index (i, j) of phase (a, b) is the pixel (step_h * i + a +
// first_h, step_w * j + b + first_w), where that is inside.
struct Phased {
  std::int64_t channels, height, width;
  std::int64_t phases_h, phases_w;
  std::int64_t step_h, step_w;
  std::int64_t first_h, first_w;

  constexpr std::int64_t logical() const { return channels * phases_h * phases_w; }
  constexpr std::int64_t plane() const { return height * width * kLanes; }
  constexpr std::int64_t block() const { return channels * plane(); }
};

// The input of the convolution by phases, its output as it is.
constexpr Phased phased_input(const ConvShape& s) {
  return {s.in_channels,   s.in_height,    s.in_width, s.stride_height, s.stride_width,
          s.stride_height, s.stride_width, -s.pad_top, -s.pad_left};
}
constexpr Phased plain_output(const ConvShape& s, std::int64_t first_h, std::int64_t first_w) {
  return {s.out_channels, s.out_height, s.out_width, 1, 1, 1, 1, first_h, first_w};
}

// Where the filters of logical input channel e have their first tap, from the beginning of those of
// an output channel.
constexpr std::int64_t first_tap(const ConvShape& s, std::int64_t e) {
  const std::int64_t c = e % s.in_channels, phase = e / s.in_channels;
  return c * s.taps() + phase / s.stride_width * s.kernel_width + phase % s.stride_width;
}

// A correlation with 3x3 filters from one phased tensor to another: forward, or the gradient to the
// input.
struct Correlation {
  std::int64_t blocks;  // of images
  Phased in, out;
  Tiles down, across;
  bool flipped;  // the filters are turned by 180 degrees, and inputs and outputs are exchanged

  std::int64_t tile() const { return down.m; }  // outputs of a whole tile along an axis
  std::int64_t points() const { return (tile() + 2) * (tile() + 2); }

  // The output channels in blocks of about equal size, sixteen in one.
  std::int64_t most_of_block() const { return out.logical() == kLanes ? kLanes : kPackedChannels; }
  std::int64_t channel_blocks() const {
    return (out.logical() + most_of_block() - 1) / most_of_block();
  }
  Range channel_block(std::int64_t b) const { return share_of(out.logical(), channel_blocks(), b); }
  Range channels_of(const Range& some) const {
    return {channel_block(some.begin).begin, channel_block(some.end - 1).end};
  }

  // The tiles, image block by image block and row by row, in spans.
  std::int64_t tiles() const { return blocks * down.count * across.count; }
  std::int64_t most_of_span() const {
    return tile() == 4 || in.logical() <= kFewChannels ? kSpan : kSpanOfLarge;
  }
  std::int64_t span() const { return std::min(most_of_span(), tiles()); }
  std::int64_t spans() const { return (tiles() + span() - 1) / span(); }

  // What is kept for all parts is the smaller: the transformed filters, or the transformed patches.
  bool keeps_patches() const { return tiles() * kLanes <= out.logical(); }
  // Floats of the products of all tiles with a block of output channels.
  std::int64_t block_products() const { return points() * tiles() * most_of_block() * kLanes; }
  // Whether the filters that a part makes are those of a run of input channels, which L2 holds,
  // with products that wait for the next run.
  bool packs_runs() const {
    return keeps_patches() && in.logical() > kChannelRun && block_products() <= kHeldProducts;
  }
  // Input channels of the filters that are held at a time, and tiles of the products.
  std::int64_t held_inputs() const { return packs_runs() ? kChannelRun : in.logical(); }
  std::int64_t held_spans() const { return packs_runs() ? spans() : 1; }
  // Blocks of output channels whose products, or filters, a part holds at a time.
  std::int64_t block_run() const {
    std::int64_t most = kFilterBlocks;
    if (packs_runs())
      most = std::min(most, kHeldProducts / block_products());
    else if (!keeps_patches())
      most = kProductBlocks * most_of_span() / span();
    return std::clamp<std::int64_t>(most, 1, channel_blocks());
  }
  std::int64_t block_runs() const { return (channel_blocks() + block_run() - 1) / block_run(); }
  // The blocks of run i.
  Range blocks_of_run(std::int64_t i) const {
    return {i * block_run(), std::min((i + 1) * block_run(), channel_blocks())};
  }

  // Whether L2 can have kept the inputs since they were written.
  bool inputs_in_cache() const { return blocks * in.block() <= kKeptFloats; }
  // Whether the inputs are more than the caches can have kept.
  bool fetches() const {
    return blocks * in.block() >= kStreamedFloats && in.phases_h * in.phases_w == 1;
  }
  // Whether the lines of the outputs are fetched ahead. What a forward pass writes is kept for the
  // gradients, and goes to memory that was last used a step ago; gradients go to some that has just
  // been freed.
  bool lands() const {
    const std::int64_t floats = blocks * out.block();
    return !flipped && !keeps_patches() && out.phases_h * out.phases_w == 1 &&
           floats > kKeptFloats && floats < kStreamedFloats;
  }
  // Whether the transformed filters are read from beyond L2.
  bool large_filters() const {
    return !keeps_patches() && in.logical() * out.logical() >= kLargeFilters;
  }

  // Floats of one point, an odd number of cache lines: of the patches and the products of a span,
  // and of the filters.
  std::int64_t in_plane() const { return (in.logical() * span() | 1) * kLanes; }
  std::int64_t out_plane() const { return (block_run() * most_of_block() * span() | 1) * kLanes; }
  std::int64_t filter_plane() const {
    const std::int64_t outputs = keeps_patches() ? block_run() * most_of_block() : out.logical();
    return ((held_inputs() * outputs + kLanes - 1) / kLanes | 1) * kLanes;
  }
};

// Outputs of a tile along an axis, of so many rows and columns.
inline int tile_outputs(const ConvShape& s, std::int64_t rows, std::int64_t columns) {
  return winograd::tile_outputs(rows, columns, s.in_channels * s.stride_height * s.stride_width,
                                s.out_channels);
}

inline Correlation forward_correlation(const ConvShape& s) {
  const int m = tile_outputs(s, s.out_height, s.out_width);
  return {blocks_of(s.images),    phased_input(s),       plain_output(s, 0, 0),
          Tiles(s.out_height, m), Tiles(s.out_width, m), false};
}

inline Correlation gradient_correlation(const ConvShape& s) {
  // The indices at which some phase has a pixel of the input.
  const std::int64_t top = s.pad_top / s.stride_height, left = s.pad_left / s.stride_width;
  const std::int64_t bottom = (s.in_height - 1 + s.pad_top) / s.stride_height;
  const std::int64_t right = (s.in_width - 1 + s.pad_left) / s.stride_width;
  Phased out = phased_input(s);
  out.first_h += s.stride_height * top;
  out.first_w += s.stride_width * left;
  const int m = tile_outputs(s, bottom - top + 1, right - left + 1);
  return {blocks_of(s.images),        plain_output(s, top - 2, left - 2), out,
          Tiles(bottom - top + 1, m), Tiles(right - left + 1, m),         true};
}

}  // namespace podium::cpu
