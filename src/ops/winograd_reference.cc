#include "ops/winograd_reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/winograd_points.h"

namespace podium {
namespace {

using namespace winograd;
using std::fma;
using Index = std::int64_t;

using Six = std::array<float, 6>;
using Four = std::array<float, 4>;
using Three = std::array<float, 3>;

// The one-dimensional transforms. A tile of three has no sixth point: what has index 5 in the six,
// and 3 in the four, is then neither read nor written.
Six transform_b(const Six& d, bool four) {
  Six o{};
  o[0] = fma(kP, d[0], fma(-kS, d[2], d[4]));
  const float ea = fma(-kB2, d[2], d[4]), oa = kA * fma(-kB2, d[1], d[3]);
  o[1] = ea + oa;
  o[2] = ea - oa;
  const float eb = fma(-kA2, d[2], d[4]), ob = kB * fma(-kA2, d[1], d[3]);
  o[3] = eb + ob;
  o[4] = eb - ob;
  if (four) o[5] = fma(kP, d[1], fma(-kS, d[3], d[5]));
  return o;
}
Four transform_at(const Six& m, bool four) {
  const float sa = m[1] + m[2], da = m[1] - m[2], sb = m[3] + m[4], db = m[3] - m[4];
  Four y{};
  y[0] = (m[0] + sa) + sb;
  y[1] = fma(kB, db, kA * da);
  y[2] = fma(kB2, sb, kA2 * sa);
  if (four) y[3] = fma(kA3, da, fma(kB3, db, m[5]));
  return y;
}
Six transform_a(const Four& y, bool four) {
  const float ea = fma(kA2, y[2], y[0]), oa = kA * (four ? fma(kA2, y[3], y[1]) : y[1]);
  const float eb = fma(kB2, y[2], y[0]), ob = kB * (four ? fma(kB2, y[3], y[1]) : y[1]);
  return {y[0], ea + oa, ea - oa, eb + ob, eb - ob, four ? y[3] : 0};
}
Six transform_g(const Three& g) {
  const float ea = fma(kGa2, g[2], kGa0 * g[0]), eb = fma(kGb2, g[2], kGb0 * g[0]);
  return {kG0 * g[0],          fma(kGa1, g[1], ea),  fma(-kGa1, g[1], ea),
          fma(kGb1, g[1], eb), fma(-kGb1, g[1], eb), g[2]};
}
Three transform_gt(const Six& u) {
  const float sa = u[1] + u[2], da = u[1] - u[2], sb = u[3] + u[4], db = u[3] - u[4];
  return {fma(kG0, u[0], fma(kGa0, sa, kGb0 * sb)), fma(kGa1, da, kGb1 * db),
          fma(kGa2, sa, fma(kGb2, sb, u[5]))};
}

// The tiles of an axis.
struct Tile {
  Index begin;
  bool four;
};
std::vector<Tile> tiles_of(Index length) {
  const Index count = (length + 3) / 4, fours = count - std::min(count, 4 * count - length);
  std::vector<Tile> tiles;
  for (Index i = 0; i < count; ++i) tiles.push_back({i < fours ? 4 * i : 3 * i + fours, i < fours});
  return tiles;
}

// Rows then columns: the first index of each function runs down.
using Points = std::array<Six, 6>;

// transform_b of the patch whose element (i, j) is at(i, j).
template <typename At>
Points patch_points(const Tile& down, const Tile& across, const At& at) {
  std::array<Six, 6> columns{};  // [column][row]
  for (int j = 0; j < (across.four ? 6 : 5); ++j) {
    Six d{};
    for (int i = 0; i < (down.four ? 6 : 5); ++i) d[i] = at(down.begin + i, across.begin + j);
    columns[j] = transform_b(d, down.four);
  }
  Points points{};
  for (int i = 0; i < (down.four ? 6 : 5); ++i) {
    Six row{};
    for (int j = 0; j < 6; ++j) row[j] = columns[j][i];
    points[i] = transform_b(row, across.four);
  }
  return points;
}
template <typename At>
Points gradient_points(const Tile& down, const Tile& across, const At& at) {
  std::array<Six, 4> columns{};
  for (int j = 0; j < (across.four ? 4 : 3); ++j) {
    Four d{};
    for (int i = 0; i < (down.four ? 4 : 3); ++i) d[i] = at(down.begin + i, across.begin + j);
    columns[j] = transform_a(d, down.four);
  }
  Points points{};
  for (int i = 0; i < (down.four ? 6 : 5); ++i)
    points[i] =
        transform_a({columns[0][i], columns[1][i], columns[2][i], columns[3][i]}, across.four);
  return points;
}
template <typename At>
Points filter_points(const At& at) {
  std::array<Six, 3> columns;
  for (int s = 0; s < 3; ++s) columns[s] = transform_g({at(0, s), at(1, s), at(2, s)});
  Points points;
  for (int i = 0; i < 6; ++i)
    points[i] = transform_g({columns[0][i], columns[1][i], columns[2][i]});
  return points;
}
// Calls put(i, j, value) for the pixels of an output tile.
template <typename Put>
void tile_pixels(const Points& m, const Tile& down, const Tile& across, const Put& put) {
  std::array<Four, 6> columns{};
  for (int j = 0; j < (across.four ? 6 : 5); ++j)
    columns[j] = transform_at({m[0][j], m[1][j], m[2][j], m[3][j], m[4][j], m[5][j]}, down.four);
  for (int i = 0; i < (down.four ? 4 : 3); ++i) {
    Six row{};
    for (int j = 0; j < 6; ++j) row[j] = columns[j][i];
    const Four y = transform_at(row, across.four);
    for (int j = 0; j < (across.four ? 4 : 3); ++j) put(down.begin + i, across.begin + j, y[j]);
  }
}

// The phases of one axis, seen from the input: phase a, index i is the pixel stride * i + a - pad.
struct Axis {
  Index stride, pad, length;
  Index pixel(Index a, Index i) const { return stride * i + a - pad; }
  bool inside(Index pixel) const { return pixel >= 0 && pixel < length; }
  // The least and the greatest index at which some phase has a pixel.
  Index first() const { return pad / stride; }
  Index last() const { return (length - 1 + pad) / stride; }
};

struct Problem {
  const WinogradShape& s;
  Axis down, across;
  Index phases, kernel_width, taps;

  explicit Problem(const WinogradShape& shape)
      : s(shape),
        down{s.stride_height, s.pad_top, s.in_height},
        across{s.stride_width, s.pad_left, s.in_width},
        phases(s.stride_height * s.stride_width),
        kernel_width(3 * s.stride_width),
        taps(9 * phases) {}

  // Phased channel e = (a * stride_w + b) * C + c.
  Index channels() const { return phases * s.in_channels; }
  Index a_of(Index e) const { return e / s.in_channels / s.stride_width; }
  Index b_of(Index e) const { return e / s.in_channels % s.stride_width; }
  Index c_of(Index e) const { return e % s.in_channels; }
  Index weight(Index k, Index e, Index r, Index t) const {
    return (k * s.in_channels + c_of(e)) * taps + (s.stride_height * r + a_of(e)) * kernel_width +
           s.stride_width * t + b_of(e);
  }
  // x at index (i, j) of phased channel e, 0 outside and for images beyond the last.
  float input(const float* x, Index n, Index e, Index i, Index j) const {
    const Index y = down.pixel(a_of(e), i), z = across.pixel(b_of(e), j);
    if (n >= s.images || !down.inside(y) || !across.inside(z)) return 0;
    return x[((n * s.in_channels + c_of(e)) * s.in_height + y) * s.in_width + z];
  }
  float output(const float* y, Index n, Index k, Index p, Index q) const {
    if (n >= s.images || p < 0 || p >= s.out_height || q < 0 || q >= s.out_width) return 0;
    return y[((n * s.out_channels + k) * s.out_height + p) * s.out_width + q];
  }
};

// Runs of 64 channels: each a chain, their sums added in order.
template <typename Left, typename Right>
float channel_sum(Index channels, const Left& left, const Right& right) {
  float total = 0;
  for (Index begin = 0; begin < channels; begin += 64) {
    float run = 0;
    for (Index e = begin; e < std::min(channels, begin + 64); ++e)
      run = fma(left(e), right(e), run);
    total = begin == 0 ? run : total + run;
  }
  return total;
}

float tree(const float* parts, Index count) {
  if (count == 1) return parts[0];
  Index half = 1;
  while (2 * half < count) half *= 2;
  const float left = tree(parts, half);
  return left + tree(parts + half, count - half);
}

// The points of the patches of all channels, and of the gradients, at one tile of an image.
void column_points(const Problem& problem, const float* dy, const float* x, Index n,
                   const Tile& down, const Tile& across, std::vector<Points>& patches,
                   std::vector<Points>& gradients) {
  for (Index e = 0; e < problem.channels(); ++e)
    patches[e] =
        patch_points(down, across, [&](Index i, Index j) { return problem.input(x, n, e, i, j); });
  for (Index k = 0; k < problem.s.out_channels; ++k)
    gradients[k] = gradient_points(
        down, across, [&](Index i, Index j) { return problem.output(dy, n, k, i, j); });
}

// The gradient to the weights from its points: sum(k, e, i, j) is the total at point (i, j).
template <typename Sum>
void filter_gradients(const Problem& problem, float* dw, const Sum& sum) {
  for (Index k = 0; k < problem.s.out_channels; ++k)
    for (Index e = 0; e < problem.channels(); ++e) {
      std::array<Three, 6> columns;
      for (int j = 0; j < 6; ++j)
        columns[j] = transform_gt({sum(k, e, 0, j), sum(k, e, 1, j), sum(k, e, 2, j),
                                   sum(k, e, 3, j), sum(k, e, 4, j), sum(k, e, 5, j)});
      for (int r = 0; r < 3; ++r) {
        const Three row = transform_gt({columns[0][r], columns[1][r], columns[2][r], columns[3][r],
                                        columns[4][r], columns[5][r]});
        for (int t = 0; t < 3; ++t) dw[problem.weight(k, e, r, t)] = row[t];
      }
    }
}

// Few channels: groups of 32 images, in each sixteen chains over the images n mod 16.
void narrow_grad_weight(const Problem& problem, const float* dy, const float* x, float* dw) {
  const WinogradShape& s = problem.s;
  const Index channels = problem.channels();
  // lanes[group][k][e][lane]
  constexpr Index kGroup = 32, kLanes = 16;
  const Index groups = (s.images + kGroup - 1) / kGroup;
  std::vector<Points> lanes(groups * s.out_channels * channels * kLanes);
  std::vector<Points> patches(channels), gradients(s.out_channels);
  for (Index n = 0; n < (s.images + kLanes - 1) / kLanes * kLanes; ++n)
    for (const Tile& down : tiles_of(s.out_height))
      for (const Tile& across : tiles_of(s.out_width)) {
        column_points(problem, dy, x, n, down, across, patches, gradients);
        for (Index k = 0; k < s.out_channels; ++k)
          for (Index e = 0; e < channels; ++e) {
            Points& sum =
                lanes[((n / kGroup * s.out_channels + k) * channels + e) * kLanes + n % kLanes];
            for (int i = 0; i < (down.four ? 6 : 5); ++i)
              for (int j = 0; j < (across.four ? 6 : 5); ++j)
                sum[i][j] = fma(gradients[k][i][j], patches[e][i][j], sum[i][j]);
          }
      }
  filter_gradients(problem, dw, [&](Index k, Index e, int i, int j) {
    std::vector<float> parts(groups);
    for (Index g = 0; g < groups; ++g) {
      float lane[kLanes];
      for (Index l = 0; l < kLanes; ++l)
        lane[l] = lanes[((g * s.out_channels + k) * channels + e) * kLanes + l][i][j];
      parts[g] = tree(lane, kLanes);
    }
    return tree(parts.data(), groups);
  });
}

// Many channels: groups of blocks of 16 images, in each the columns (block, tile, image) in runs
// of four tiles, a run a chain.
void wide_grad_weight(const Problem& problem, const float* dy, const float* x, float* dw) {
  const WinogradShape& s = problem.s;
  const Index channels = problem.channels(), pairs = s.out_channels * channels;
  constexpr Index kBlock = 16, kRunTiles = 4, kGroupTiles = 32, kSums = 5 << 20;
  const std::vector<Tile> downs = tiles_of(s.out_height), acrosses = tiles_of(s.out_width);
  const Index tiles = static_cast<Index>(downs.size() * acrosses.size());
  const Index blocks = (s.images + kBlock - 1) / kBlock;
  const Index most =
      std::max<Index>(1, std::min(blocks * tiles / kGroupTiles, kSums / (36 * pairs)));
  const Index group_blocks = (blocks + most - 1) / most;
  const Index groups = (blocks + group_blocks - 1) / group_blocks;
  std::vector<Points> sums(groups * pairs), run(pairs);  // [group][k][e], [k][e]
  std::vector<Points> patches(channels), gradients(s.out_channels);
  for (Index g = 0; g < groups; ++g) {
    const Index begin = g * group_blocks, end = std::min(blocks, begin + group_blocks);
    for (Index t = 0; t < (end - begin) * tiles; ++t) {
      if (t % kRunTiles == 0) std::fill(run.begin(), run.end(), Points{});
      const Tile& down = downs[t % tiles / static_cast<Index>(acrosses.size())];
      const Tile& across = acrosses[t % static_cast<Index>(acrosses.size())];
      const Index first = (begin + t / tiles) * kBlock;
      for (Index n = first; n < std::min(s.images, first + kBlock); ++n) {
        column_points(problem, dy, x, n, down, across, patches, gradients);
        for (Index k = 0; k < s.out_channels; ++k)
          for (Index e = 0; e < channels; ++e)
            for (int i = 0; i < (down.four ? 6 : 5); ++i)
              for (int j = 0; j < (across.four ? 6 : 5); ++j) {
                float& chain = run[k * channels + e][i][j];
                chain = fma(gradients[k][i][j], patches[e][i][j], chain);
              }
      }
      if ((t + 1) % kRunTiles != 0 && t + 1 != (end - begin) * tiles) continue;
      for (Index pair = 0; pair < pairs; ++pair)
        for (int i = 0; i < 6; ++i)
          for (int j = 0; j < 6; ++j) {
            float& total = sums[g * pairs + pair][i][j];
            total = t < kRunTiles ? run[pair][i][j] : total + run[pair][i][j];
          }
    }
  }
  filter_gradients(problem, dw, [&](Index k, Index e, int i, int j) {
    std::vector<float> parts(groups);
    for (Index g = 0; g < groups; ++g) parts[g] = sums[g * pairs + k * channels + e][i][j];
    return tree(parts.data(), groups);
  });
}

}  // namespace

void winograd_reference(const WinogradShape& shape, const float* x, const float* w, float* y) {
  const Problem problem(shape);
  const WinogradShape& s = shape;
  const Index channels = problem.channels();
  std::vector<Points> filters(s.out_channels * channels), patches(channels);
  for (Index k = 0; k < s.out_channels; ++k)
    for (Index e = 0; e < channels; ++e)
      filters[k * channels + e] =
          filter_points([&](Index r, Index t) { return w[problem.weight(k, e, r, t)]; });
  for (Index n = 0; n < s.images; ++n)
    for (const Tile& down : tiles_of(s.out_height))
      for (const Tile& across : tiles_of(s.out_width)) {
        for (Index e = 0; e < channels; ++e)
          patches[e] = patch_points(down, across,
                                    [&](Index i, Index j) { return problem.input(x, n, e, i, j); });
        for (Index k = 0; k < s.out_channels; ++k) {
          Points m;
          for (int i = 0; i < 6; ++i)
            for (int j = 0; j < 6; ++j)
              m[i][j] = channel_sum(
                  channels, [&](Index e) { return patches[e][i][j]; },
                  [&](Index e) { return filters[k * channels + e][i][j]; });
          tile_pixels(m, down, across, [&](Index p, Index q, float value) {
            if (p < s.out_height && q < s.out_width)
              y[((n * s.out_channels + k) * s.out_height + p) * s.out_width + q] = value;
          });
        }
      }
}

void winograd_grad_input_reference(const WinogradShape& shape, const float* dy, const float* w,
                                   float* dx) {
  const Problem problem(shape);
  const WinogradShape& s = shape;
  const Index channels = problem.channels();
  std::vector<Points> filters(s.out_channels * channels), patches(s.out_channels);
  for (Index k = 0; k < s.out_channels; ++k)
    for (Index e = 0; e < channels; ++e)
      filters[k * channels + e] =
          filter_points([&](Index r, Index t) { return w[problem.weight(k, e, 2 - r, 2 - t)]; });
  const Index top = problem.down.first(), left = problem.across.first();
  for (Index n = 0; n < s.images; ++n)
    for (const Tile& down : tiles_of(problem.down.last() - top + 1))
      for (const Tile& across : tiles_of(problem.across.last() - left + 1)) {
        for (Index k = 0; k < s.out_channels; ++k)
          patches[k] = patch_points(down, across, [&](Index i, Index j) {
            return problem.output(dy, n, k, top + i - 2, left + j - 2);
          });
        for (Index e = 0; e < channels; ++e) {
          Points m;
          for (int i = 0; i < 6; ++i)
            for (int j = 0; j < 6; ++j)
              m[i][j] = channel_sum(
                  s.out_channels, [&](Index k) { return patches[k][i][j]; },
                  [&](Index k) { return filters[k * channels + e][i][j]; });
          tile_pixels(m, down, across, [&](Index i, Index j, float value) {
            const Index y = problem.down.pixel(problem.a_of(e), top + i);
            const Index z = problem.across.pixel(problem.b_of(e), left + j);
            if (problem.down.inside(y) && problem.across.inside(z))
              dx[((n * s.in_channels + problem.c_of(e)) * s.in_height + y) * s.in_width + z] =
                  value;
          });
        }
      }
}

bool winograd_grad_weight_is_wide(const WinogradShape& s) {
  return s.in_channels * s.stride_height * s.stride_width >= 16 && s.out_channels % 16 == 0;
}

void winograd_grad_weight_reference(const WinogradShape& shape, const float* dy, const float* x,
                                    float* dw) {
  const Problem problem(shape);
  if (winograd_grad_weight_is_wide(shape))
    wide_grad_weight(problem, dy, x, dw);
  else
    narrow_grad_weight(problem, dy, x, dw);
}

}  // namespace podium
