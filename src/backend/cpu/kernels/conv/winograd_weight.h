// The two kernels of the Winograd gradient to the weights (docs/numerics.md), and which layers
// each is for.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/conv/winograd_shape.h"

namespace podium::cpu {

// Wide layers have a contract of their own: the output channels fill the lanes, and the input's are
// as many at least.
constexpr bool wide_weight_applies(const ConvShape& s) {
  return winograd::is_wide(s.in_channels * s.stride_height * s.stride_width, s.out_channels);
}

// Input channels of one block of sums in registers, with two sixteens of output channels and with
// one.
inline constexpr std::int64_t kInBlock = 12, kInBlockOfOne = 24;

inline constexpr std::int64_t kWideRun = 8;          // tiles of one chain, at most
inline constexpr std::int64_t kWideGroupTiles = 32;  // at least, of a group
inline constexpr std::int64_t kWideSums = 5 << 20;   // of all groups, about

// What both kernels see of a layer.
struct WeightGeometry {
  const ConvShape& s;
  Phased in, out;
  Tiles down, across;

  explicit WeightGeometry(const ConvShape& shape)
      : s(shape),
        in(phased_input(s)),
        out(plain_output(s, 0, 0)),
        down(s.out_height, tile_outputs(s, s.out_height, s.out_width)),
        across(s.out_width, down.m) {}

  std::int64_t tile() const { return down.m; }  // outputs of a whole tile along an axis
  std::int64_t axis() const { return tile() + 2; }
  std::int64_t points() const { return axis() * axis(); }
  std::int64_t tiles_of_block() const { return down.count * across.count; }
  std::int64_t tiles() const { return blocks_of(s.images) * tiles_of_block(); }
};

// Tiles of one chain of a wide layer: fewer where what is held of each is much.
inline std::int64_t wide_run(const WeightGeometry& g) {
  return g.in.logical() <= 64 ? kWideRun : kWideRun / 2;
}

// Blocks of 16 images in a group of a wide layer.
inline std::int64_t wide_group_blocks(const WeightGeometry& g) {
  const std::int64_t blocks = blocks_of(g.s.images);
  const std::int64_t sums = g.points() * g.in.logical() * g.s.out_channels;
  const std::int64_t groups =
      std::max<std::int64_t>(1, std::min(g.tiles() / kWideGroupTiles, kWideSums / sums));
  return (blocks + groups - 1) / groups;
}

ConvWork wide_weight_work(const ConvShape& s);
void wide_weight(const ConvShape& s, const ConvGradWeight& tensors, float* shared, float* scratch,
                 int phase, int part);

}  // namespace podium::cpu
