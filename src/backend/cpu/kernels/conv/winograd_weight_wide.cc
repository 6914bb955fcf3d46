// Winograd convolution, gradient to the weights of wide layers: channels in the lanes. A part is a
// group of images and a block of output channels. It takes a run of tiles at a time: transforms the
// input as it lies; then, for a few output channels at a time, so that L2 holds their points, turns
// the gradients so that channels lie in the lanes, transforms them, and adds to the sums of each
// point the products of the run's columns, the tiles of single images. A second phase adds the
// groups and transforms back. Where all tiles are one run, a first phase transforms the input, and
// a part of the second does the rest for a few output channels: some input channels at a time, and
// for these by columns of points, so that L2 holds the sums from the first to the last.
#include "backend/cpu/kernels/conv/winograd_weight.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/conv/winograd_weight_wide.cc"
#include "backend/cpu/kernels/foreach_target.h"

#ifndef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_WEIGHT_WIDE_CC_
#define PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_WEIGHT_WIDE_CC_
#include <algorithm>
#include <type_traits>

namespace podium::cpu {
namespace {

constexpr std::int64_t kPartLanes = 8;  // output channels of one part, in sixteens
// Those whose points are held at a time: the multiple of kHeldLanes that these floats hold (once
// at least).
constexpr std::int64_t kHeldLanes = 2, kHeldFloats = 208 << 10;
constexpr std::int64_t kJoinChannels = 16;  // input channels of one part of the second phase
// Blocks of input channels whose sums at a column of points are held.
constexpr std::int64_t kColumnBlocks = 4;

struct WideProblem : WeightGeometry {
  std::int64_t group_blocks;  // blocks of images in a group
  std::int64_t run;           // tiles that are transformed at a time: those of one chain

  explicit WideProblem(const ConvShape& shape)
      : WeightGeometry(shape),
        group_blocks(wide_group_blocks(*this)),
        run(std::min(wide_run(*this), group_blocks * tiles_of_block())) {}

  std::int64_t groups() const { return (blocks_of(s.images) + group_blocks - 1) / group_blocks; }
  // Where all tiles are one run, each point's sums are made once, and a column of points at a time:
  // what is held of all points is then transformed along one axis, three for each column.
  bool by_columns() const { return tiles() <= run; }

  // Output channels in sixteens, and these in the blocks that parts have.
  std::int64_t out_lanes() const { return (s.out_channels + kLanes - 1) / kLanes; }
  std::int64_t out_parts() const { return (out_lanes() + most_of_part() - 1) / most_of_part(); }
  Range out_part(std::int64_t i) const { return share_of(out_lanes(), out_parts(), i); }
  std::int64_t most_of_part() const {
    return by_columns() ? held_lanes() : std::min(kPartLanes, out_lanes());
  }
  // Sixteens whose gradients' points are held at a time.
  std::int64_t held_lanes() const {
    const std::int64_t most = kHeldFloats / (points() * run * kLanes * kLanes);
    return std::min(std::clamp(most / kHeldLanes * kHeldLanes, kHeldLanes, kPartLanes),
                    out_lanes());
  }
  std::int64_t most_of_block() const { return out_lanes() == 1 ? kInBlockOfOne : kInBlock; }
  std::int64_t in_blocks() const { return (in.logical() + most_of_block() - 1) / most_of_block(); }
  Range in_block(std::int64_t i) const { return share_of(in.logical(), in_blocks(), i); }

  // Floats of one point, an odd number of cache lines.
  std::int64_t in_plane() const { return (in.logical() * run | 1) * kLanes; }
  std::int64_t out_plane() const { return (held_lanes() * run * kLanes | 1) * kLanes; }
  std::int64_t zeros() const { return zeros_floats(in.step_w * kLanes); }
  // A tile of gradients, turned, and a row of zeros.
  std::int64_t turned() const { return (tile() + 1) * tile() * kLanes * kLanes; }
  // The sums of a group: [point][sixteen of output channels][input channel][16].
  std::int64_t sum_plane() const { return (out_lanes() * in.logical() | 1) * kLanes; }
  std::int64_t group_sums() const { return points() * sum_plane(); }
  std::int64_t join_blocks() const { return (in.logical() + kJoinChannels - 1) / kJoinChannels; }

  // Blocks of input channels whose sums at a column of points are held in L2, and these sums:
  // [row][sixteen of output channels][input channel][16].
  std::int64_t block_runs() const { return (in_blocks() + kColumnBlocks - 1) / kColumnBlocks; }
  Range block_run(std::int64_t i) const { return share_of(in_blocks(), block_runs(), i); }
  Range channels_of(const Range& blocks) const {
    return {in_block(blocks.begin).begin, in_block(blocks.end - 1).end};
  }
  std::int64_t column_plane() const {
    return (most_of_part() * kColumnBlocks * most_of_block() | 1) * kLanes;
  }
  // They half transformed: [sixteen of output channels][block][column][3][input channel][16].
  std::int64_t joined() const {
    return 3 * axis() * most_of_part() * kColumnBlocks * most_of_block() * kLanes;
  }
};

// A tile of a run, and how many images its block has.
struct RunTile {
  std::int64_t row, column, block, images;
};

}  // namespace
}  // namespace podium::cpu
#endif  // PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_WEIGHT_WIDE_CC_

#include "backend/cpu/kernels/conv/transpose-inl.h"
#include "backend/cpu/kernels/conv/winograd_join-inl.h"
#include "backend/cpu/kernels/conv/winograd_norm-inl.h"
#include "backend/cpu/kernels/conv/winograd_outer-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace {

using namespace winograd;

struct Run {
  RunTile tiles[kWideRun];
  std::int64_t count;
};

// v[point][block of input channels][tile][channel][16 images] of some blocks.
template <int kM>
void transform_input(const WideProblem& p, const float* x, const ImageNorm& norm, const Run& run,
                     const Range& blocks, const float* zeros, float* v) {
  const std::int64_t plane = p.in_plane(), capacity = p.run;
  const Range made = p.channels_of(blocks);
  for (std::int64_t phase = 0; phase < p.in.phases_h * p.in.phases_w; ++phase) {
    const Range of_phase = {std::max(made.begin, phase * p.in.channels),
                            std::min(made.end, (phase + 1) * p.in.channels)};
    if (of_phase.begin >= of_phase.end) continue;
    const float* base = x + (of_phase.begin - phase * p.in.channels) * p.in.plane();
    Patch patches[kWideRun];
    for (std::int64_t t = 0; t < run.count; ++t) {
      const RunTile& tile = run.tiles[t];
      patches[t] =
          patch_at(p.in, base + tile.block * p.in.block(), phase / p.in.phases_w,
                   phase % p.in.phases_w, p.down.begin(tile.row), p.across.begin(tile.column),
                   p.down.is_whole(tile.row) ? kM + 2 : kM + 1, kM + 2, zeros);
    }
    for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
      const Range channels = p.in_block(block);
      const std::int64_t size = channels.end - channels.begin;
      const std::int64_t last = std::min(channels.end, of_phase.end);
      for (std::int64_t e = std::max(channels.begin, of_phase.begin); e < last; ++e) {
        float* out = v + (channels.begin * capacity + e - channels.begin) * kLanes;
        for (std::int64_t t = 0; t < run.count; ++t, out += size * kLanes) {
          const RunTile& tile = run.tiles[t];
          Patch& patch = patches[t];
          const bool down = p.down.is_whole(tile.row), across = p.across.is_whole(tile.column);
          with_norm(norm, e - phase * p.in.channels, patch, zeros, [&](const auto& read) HWY_ATTR {
            for (int lane = 0; lane < kLanes; lane += kNative)
              transform_patch<kM, kAllRows>(patch, down, across, lane, read, out + lane, plane);
          });
          for (int i = 0; i < kM + 2; ++i) {
            const float*& r = patch.rows[i];
            if (r == zeros) continue;
            r += p.in.plane();
            for (int j = patch.left; j < patch.right; ++j) fetch_to_l2(r + j * patch.column_step);
          }
        }
      }
    }
  }
}

// Where a tile's gradients are, and of how many pixels.
struct TilePixels {
  std::int64_t i, j, height, width;

  TilePixels(const WideProblem& p, const RunTile& tile)
      : i(p.down.begin(tile.row)),
        j(p.across.begin(tile.column)),
        height(std::min(p.tile() - (p.down.is_whole(tile.row) ? 0 : 1), p.s.out_height - i)),
        width(std::min(p.tile() - (p.across.is_whole(tile.column) ? 0 : 1), p.s.out_width - j)) {}

  // Calls f(i, j) for each window of 2x2 that the tile has a part of.
  template <typename F>
  HWY_INLINE void for_each_window(const F& f) const {
    for (std::int64_t p = i / 2; p <= (i + height - 1) / 2; ++p)
      for (std::int64_t q = j / 2; q <= (j + width - 1) / 2; ++q) f(p, q);
  }
};

// turned[pixel of the tile][image][16] from gradients to the output, [16 channels][plane]; lanes
// beyond the last channel repeat it.
template <int kM>
HWY_INLINE void turn(const WideProblem& p, const TilePixels& at, const float* from,
                     std::int64_t last, float* HWY_RESTRICT turned) {
  for (std::int64_t i = 0; i < at.height; ++i)
    for (std::int64_t j = 0; j < at.width; ++j)
      transpose16(
          [&](int k) {
            return from + ((at.i + i) * p.s.out_width + at.j + j) * kLanes +
                   std::min<std::int64_t>(k, last) * p.out.plane();
          },
          turned + (kM * i + j) * kLanes * kLanes);
}
// The same from gradients to the pooled output and their places: a window is turned at once.
template <int kM>
HWY_INLINE void turn_pooled(const WideProblem& p, const TilePixels& at, const float* dy,
                            const float* place, std::int64_t last, float* HWY_RESTRICT turned) {
  const NativeTag d;
  HWY_ALIGN float gradients[kLanes * kLanes], places[kLanes * kLanes];
  HWY_ALIGN float beside[kLanes * kLanes];  // for pixels outside the tile
  at.for_each_window([&](std::int64_t row, std::int64_t column) HWY_ATTR {
    const auto channel = [&](const float* from) HWY_ATTR {
      return [&, from](int k) {
        return from + (row * (p.s.out_width / 2) + column) * kLanes +
               std::min<std::int64_t>(k, last) * (p.out.plane() / 4);
      };
    };
    transpose16(channel(dy), gradients);
    transpose16(channel(place), places);
    float* to[4];
    for (int k = 0; k < 4; ++k) {
      const std::int64_t i = 2 * row + k / 2 - at.i, j = 2 * column + k % 2 - at.j;
      const bool inside = i >= 0 && i < at.height && j >= 0 && j < at.width;
      to[k] = inside ? turned + (kM * i + j) * kLanes * kLanes : beside;
    }
    for (int l = 0; l < kLanes * kLanes; l += kNative) {
      const Native gradient = hn::LoadU(d, gradients + l), taken = hn::LoadU(d, places + l);
      PODIUM_UNROLL
      for (int k = 0; k < 4; ++k) {
        const auto here = hn::Eq(taken, hn::Set(d, static_cast<float>(k)));
        hn::StoreU(hn::IfThenElseZero(here, gradient), d, to[k] + l);
      }
    }
  });
}

// y[point][sixteen of output channels][tile][image][16]; where the output is pooled, `place` is not
// null.
template <int kM>
void transform_output(const WideProblem& p, const float* dy, const float* place, const Run& run,
                      const Range& sixteens, float* turned, float* y) {
  const std::int64_t plane = p.out_plane(), capacity = p.run;
  const std::int64_t shrunk = place == nullptr ? 1 : 4;  // what a plane of dy has become
  constexpr std::int64_t kPixel = kLanes * kLanes;
  for (std::int64_t block = sixteens.begin; block < sixteens.end; ++block)
    for (std::int64_t t = 0; t < run.count; ++t) {
      const RunTile& tile = run.tiles[t];
      const TilePixels pixels(p, tile);
      const bool down = p.down.is_whole(tile.row), across = p.across.is_whole(tile.column);
      const std::int64_t last = p.s.out_channels - 1 - block * kLanes;
      const std::int64_t from =
          (tile.block * p.out.block() + block * kLanes * p.out.plane()) / shrunk;
      if (place == nullptr)
        turn<kM>(p, pixels, dy + from, last, turned);
      else
        turn_pooled<kM>(p, pixels, dy + from, place + from, last, turned);
      Patch patch;
      for (int r = 0; r < kM; ++r)
        patch.rows[r] = turned + (r < pixels.height ? kM * r : kM * kM) * kPixel;
      patch.column_step = kPixel;
      patch.left = 0, patch.right = static_cast<int>(pixels.width);
      float* out = y + ((block - sixteens.begin) * capacity + t) * kPixel;
      // Where the pixels of the next tile are: to L2, since L1 is full of these.
      const std::int64_t index = (block - sixteens.begin) * run.count + t + 1;
      const RunTile& next = run.tiles[index % run.count];
      const TilePixels then(p, next);
      std::int64_t ahead = (next.block * p.out.block() +
                            (sixteens.begin + index / run.count) * kLanes * p.out.plane()) /
                           shrunk;
      for (std::int64_t image = 0; image < tile.images; ++image, out += kLanes) {
        for (int lane = 0; lane < kLanes; lane += kNative)
          transform_gradient<kM, kAllRows>(patch, down, across, lane, Plain(), out + lane, plane,
                                           {});
        for (int r = 0; r < pixels.height; ++r) patch.rows[r] += kLanes;
        if (place == nullptr) {
          const float* corner = dy + ahead + (then.i * p.s.out_width + then.j) * kLanes;
          for (int r = 0; r < pixels.height; ++r)
            for (int j = 0; j < pixels.width; ++j)
              fetch_to_l2(corner + (r * p.s.out_width + j) * kLanes);
        } else {
          then.for_each_window([&](std::int64_t row, std::int64_t column) HWY_ATTR {
            const std::int64_t window = ahead + (row * (p.s.out_width / 2) + column) * kLanes;
            fetch_to_l2(dy + window);
            fetch_to_l2(place + window);
          });
        }
        ahead += p.out.plane() / shrunk;
      }
    }
}

// Where the sums of a point are: those of the first sixteen of output channels and the first input
// channel, and how far the next sixteen's are.
struct PointSums {
  float* du;
  std::int64_t step;
};

// The products at a point, where v and y are, with some blocks of input channels.
void multiply_point(const WideProblem& p, const Run& run, const Range& sixteens,
                    const Range& blocks, const float* v, const float* y, const PointSums& sums,
                    int row, int column, bool add) {
  const int axis = static_cast<int>(p.axis());
  std::int32_t tiles[kWideRun], images[kWideRun];  // of the tiles that have the point
  Outer outer;
  outer.tiles = tiles, outer.images = images, outer.count = 0;
  for (std::int64_t t = 0; t < run.count; ++t) {
    const RunTile& tile = run.tiles[t];
    if ((row == axis - 1 && !p.down.is_whole(tile.row)) ||
        (column == axis - 1 && !p.across.is_whole(tile.column)))
      continue;
    tiles[outer.count] = static_cast<std::int32_t>(t);
    images[outer.count++] = static_cast<std::int32_t>(tile.images);
  }
  outer.add = add;
  outer.y_step = p.run * kLanes * kLanes;
  outer.du_step = sums.step;
  const std::int64_t first = p.in_block(blocks.begin).begin;
  for (std::int64_t k = sixteens.begin; k < sixteens.end; k += kOut) {
    outer.y = y + (k - sixteens.begin) * outer.y_step;
    for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
      const Range channels = p.in_block(block);
      outer.v_size = channels.end - channels.begin;
      outer.v = v + channels.begin * p.run * kLanes;
      outer.du = sums.du + (k - sixteens.begin) * sums.step + (channels.begin - first) * kLanes;
      multiply(outer, outer.v_size, std::min<std::int64_t>(kOut, sixteens.end - k));
    }
  }
}

// `count` tiles of a group from its tile `first` on.
Run run_of(const WideProblem& p, std::int64_t group, std::int64_t first, std::int64_t count) {
  Run run;
  run.count = count;
  for (std::int64_t t = 0; t < count; ++t) {
    RunTile& tile = run.tiles[t];
    tile.block = group * p.group_blocks + (first + t) / p.tiles_of_block();
    tile.row = (first + t) % p.tiles_of_block() / p.across.count;
    tile.column = (first + t) % p.across.count;
    tile.images = std::min<std::int64_t>(kLanes, p.s.images - tile.block * kLanes);
  }
  return run;
}

// What a part holds of its run: zeros, a tile of gradients turned, the points of the gradients, and
// what comes after them.
struct Held {
  Held(const WideProblem& p, float* scratch)
      : zeros(scratch),
        turned(zeros + p.zeros()),
        y(turned + p.turned()),
        rest(y + p.points() * p.out_plane()) {
    std::fill(zeros, turned, 0.0f);
    std::fill(turned + p.tile() * p.tile() * kLanes * kLanes, y, 0.0f);
  }
  float *zeros, *turned, *y, *rest;
};

template <int kM>
void sums_of_tiles(const WideProblem& p, const ConvGradWeight& o, float* shared, float* scratch,
                   int part) {
  const std::int64_t group = part / p.out_parts();
  const Range sixteens = p.out_part(part % p.out_parts());
  const Held held(p, scratch);
  float* sums = shared + group * p.group_sums() + sixteens.begin * p.in.logical() * kLanes;
  const std::int64_t blocks =
      std::min(p.group_blocks, blocks_of(p.s.images) - group * p.group_blocks);
  const std::int64_t tiles = blocks * p.tiles_of_block();
  for (std::int64_t first = 0; first < tiles; first += p.run) {
    const Run run = run_of(p, group, first, std::min(p.run, tiles - first));
    transform_input<kM>(p, o.x, o.norm, run, {0, p.in_blocks()}, held.zeros, held.rest);
    for (std::int64_t k = sixteens.begin; k < sixteens.end; k += p.held_lanes()) {
      const Range some = {k, std::min(k + p.held_lanes(), sixteens.end)};
      transform_output<kM>(p, o.dy, o.place, run, some, held.turned, held.y);
      for (int point = 0; point < p.points(); ++point) {
        const int row = point / kAxis<kM>, column = point % kAxis<kM>;
        multiply_point(
            p, run, some, {0, p.in_blocks()}, held.rest + point * p.in_plane(),
            held.y + point * p.out_plane(),
            {sums + point * p.sum_plane() + (k - sixteens.begin) * p.in.logical() * kLanes,
             p.in.logical() * kLanes},
            row, column, first > 0);
      }
    }
  }
}
void wide_sums(const WideProblem& p, const ConvGradWeight& o, float* shared, float* scratch,
               int part) {
  podium::winograd::for_tile(
      p.tile(), [&](auto m) { sums_of_tiles<decltype(m)::value>(p, o, shared, scratch, part); });
}

// The gradient of the filters w[input channel][tap][16] of some input and sixteen output channels.
void put_filters(const WideProblem& p, const float* w, std::int64_t sixteen, const Range& channels,
                 float* dw) {
  const ConvShape& s = p.s;
  const std::int64_t outs = std::min<std::int64_t>(kLanes, s.out_channels - sixteen * kLanes);
  float* first = dw + sixteen * kLanes * s.in_channels * s.taps();
  if (s.taps() == 9) {
    const std::int64_t count = (channels.end - channels.begin) * 9;
    for (std::int64_t i = 0; i < count; i += kLanes) {
      HWY_ALIGN float turned[kLanes * kLanes];
      transpose16([&](int j) { return w + std::min(i + j, count - 1) * kLanes; }, turned);
      float* to = first + channels.begin * 9 + i;
      for (std::int64_t k = 0; k < outs; ++k, to += s.in_channels * 9) {
        if (count - i >= kLanes)
          store16(to, load16(turned + k * kLanes));
        else
          store_first16(to, load16(turned + k * kLanes), count - i);
      }
    }
    return;
  }
  for (std::int64_t e = channels.begin; e < channels.end; ++e) {
    const float* from = w + (e - channels.begin) * 9 * kLanes;
    for (std::int64_t k = 0; k < outs; ++k) {
      float* to = first + k * s.in_channels * s.taps() + first_tap(s, e);
      for (int r = 0; r < 3; ++r)
        for (int t = 0; t < 3; ++t)
          to[r * s.stride_height * s.kernel_width + t * s.stride_width] =
              from[(3 * r + t) * kLanes + k];
    }
  }
}

// Adds the groups and transforms back, for sixteen output channels and a few of the input.
void wide_join(const WideProblem& p, const float* shared, float* dw, int part) {
  const std::int64_t sixteen = part / p.join_blocks();
  const Range channels = share_of(p.in.logical(), p.join_blocks(), part % p.join_blocks());
  HWY_ALIGN float w[kJoinChannels * 9 * kLanes];  // [input channel][tap][16]
  for (std::int64_t e = channels.begin; e < channels.end; ++e) {
    const float* from = shared + (sixteen * p.in.logical() + e) * kLanes;
    float* to = w + (e - channels.begin) * 9 * kLanes;
    for (int lane = 0; lane < kLanes; lane += kNative)
      join_groups(p.tile(), from + lane, p.sum_plane(), p.group_sums(), p.groups(), to + lane);
  }
  put_filters(p, w, sixteen, channels, dw);
}

// By columns of points, first phase: the points of some input channels.
template <int kM>
void points_of_input(const WideProblem& p, const ConvGradWeight& o, float* v, float* zeros,
                     int part) {
  std::fill_n(zeros, p.zeros(), 0.0f);
  const Run run = run_of(p, 0, 0, p.tiles());
  transform_input<kM>(p, o.x, o.norm, run, p.block_run(part), zeros, v);
}
void wide_points(const WideProblem& p, const ConvGradWeight& o, float* v, float* scratch,
                 int part) {
  podium::winograd::for_tile(
      p.tile(), [&](auto m) { points_of_input<decltype(m)::value>(p, o, v, scratch, part); });
}

// G^T down a column of points: three taps of `size` sums, from[row][plane], to to[tap][size].
template <int kM>
HWY_INLINE void join_column(const float* from, std::int64_t plane, std::int64_t size,
                            float* HWY_RESTRICT to) {
  const NativeTag d;
  for (std::int64_t l = 0; l < size; l += kNative) {
    Native m[kAxis<kM>], taps[3];
    PODIUM_UNROLL
    for (int row = 0; row < kAxis<kM>; ++row) m[row] = hn::LoadU(d, from + row * plane + l);
    transform_gt<kM>(m, taps);
    PODIUM_UNROLL
    for (int r = 0; r < 3; ++r) hn::StoreU(taps[r], d, to + r * size + l);
  }
}

// Second phase: a few output channels.
template <int kM>
void columns_of_tiles(const WideProblem& p, const ConvGradWeight& o, const float* v, float* scratch,
                      int part) {
  const Range sixteens = p.out_part(part);
  const Held held(p, scratch);
  float* sums = held.rest;
  float* joined = sums + kAxis<kM> * p.column_plane();
  const Run run = run_of(p, 0, 0, p.tiles());
  transform_output<kM>(p, o.dy, o.place, run, sixteens, held.turned, held.y);
  for (std::int64_t i = 0; i < p.block_runs(); ++i) {
    const Range blocks = p.block_run(i), made = p.channels_of(blocks);
    const std::int64_t step = (made.end - made.begin) * kLanes;
    // f(sixteen, channels, floats before these, floats of a sum of each) for each block of sums.
    const auto for_each_block = [&](const auto& f) HWY_ATTR {
      for (std::int64_t k = sixteens.begin; k < sixteens.end; ++k)
        for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
          const Range channels = p.in_block(block);
          f(k, channels, (k - sixteens.begin) * step + (channels.begin - made.begin) * kLanes,
            (channels.end - channels.begin) * kLanes);
        }
    };
    for (int column = 0; column < kAxis<kM>; ++column) {
      for (int row = 0; row < kAxis<kM>; ++row) {
        const int point = kAxis<kM> * row + column;
        multiply_point(p, run, sixteens, blocks, v + point * p.in_plane(),
                       held.y + point * p.out_plane(), {sums + row * p.column_plane(), step}, row,
                       column, false);
      }
      for_each_block([&](std::int64_t, const Range&, std::int64_t at, std::int64_t size) HWY_ATTR {
        join_column<kM>(sums + at, p.column_plane(), size,
                        joined + 3 * (kAxis<kM> * at + column * size));
      });
    }
    for_each_block(
        [&](std::int64_t k, const Range& channels, std::int64_t at, std::int64_t size) HWY_ATTR {
          HWY_ALIGN float w[kInBlockOfOne * 9 * kLanes];
          const float* from = joined + 3 * kAxis<kM> * at;
          for (std::int64_t l = 0; l < size; l += kNative)
            join_columns<kM>(from + l, 3 * size, size, w + l / kLanes * 9 * kLanes + l % kLanes);
          put_filters(p, w, k, channels, o.dw);
        });
  }
}
void wide_columns(const WideProblem& p, const ConvGradWeight& o, const float* v, float* scratch,
                  int part) {
  podium::winograd::for_tile(
      p.tile(), [&](auto m) { columns_of_tiles<decltype(m)::value>(p, o, v, scratch, part); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(wide_sums);
HWY_EXPORT(wide_join);
HWY_EXPORT(wide_points);
HWY_EXPORT(wide_columns);

ConvWork wide_weight_work(const ConvShape& s) {
  const WideProblem p(s);
  ConvWork work;
  work.phases = 2;
  const std::int64_t gradients = p.zeros() + p.turned() + p.points() * p.out_plane();
  if (p.by_columns()) {
    work.parts[0] = static_cast<int>(p.block_runs());
    work.parts[1] = static_cast<int>(p.out_parts());
    work.shared = p.points() * p.in_plane();
    work.scratch = gradients + p.axis() * p.column_plane() + p.joined();
    return work;
  }
  work.parts[0] = static_cast<int>(p.groups() * p.out_parts());
  work.parts[1] = static_cast<int>(p.out_lanes() * p.join_blocks());
  work.shared = p.groups() * p.group_sums();
  work.scratch = gradients + p.points() * p.in_plane();
  return work;
}

void wide_weight(const ConvShape& s, const ConvGradWeight& tensors, float* shared, float* scratch,
                 int phase, int part) {
  const WideProblem p(s);
  if (p.by_columns() && phase == 0)
    PODIUM_DISPATCH(wide_points)(p, tensors, shared, scratch, part);
  else if (p.by_columns())
    PODIUM_DISPATCH(wide_columns)(p, tensors, shared, scratch, part);
  else if (phase == 0)
    PODIUM_DISPATCH(wide_sums)(p, tensors, shared, scratch, part);
  else
    PODIUM_DISPATCH(wide_join)(p, shared, tensors.dw, part);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
