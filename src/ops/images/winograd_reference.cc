#include "ops/images/winograd_reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/numerics/winograd_points.h"

namespace podium {
namespace {

using std::fma;
using winograd::Tiles;
using Index = std::int64_t;

// Along an axis: up to ten points, eight outputs.
using Line = std::array<float, winograd::kMostPoints>;
using Pixels = std::array<float, winograd::kMostOutputs>;
using Three = std::array<float, 3>;

// A tile of an axis: whole ones are of m outputs, others of m - 1. These have no last point: what
// has index m + 1 in the points and inputs, and m - 1 in the outputs, is then neither read nor
// written.
struct Tile {
  Index begin;
  int m;
  bool whole;
  int outputs() const { return whole ? m : m - 1; }
  int points() const { return outputs() + 2; }
};

// The one-dimensional transforms of tiles of four.
Line transform_b4(const Line& d, bool whole) {
  using C = winograd::Constants<4>;
  Line o{};
  o[0] = fma(C::kP, d[0], fma(-C::kS, d[2], d[4]));
  const float ea = fma(-C::kB2, d[2], d[4]), oa = C::kA * fma(-C::kB2, d[1], d[3]);
  o[1] = ea + oa;
  o[2] = ea - oa;
  const float eb = fma(-C::kA2, d[2], d[4]), ob = C::kB * fma(-C::kA2, d[1], d[3]);
  o[3] = eb + ob;
  o[4] = eb - ob;
  if (whole) o[5] = fma(C::kP, d[1], fma(-C::kS, d[3], d[5]));
  return o;
}
Pixels transform_at4(const Line& m, bool whole) {
  using C = winograd::Constants<4>;
  const float sa = m[1] + m[2], da = m[1] - m[2], sb = m[3] + m[4], db = m[3] - m[4];
  Pixels y{};
  y[0] = (m[0] + sa) + sb;
  y[1] = fma(C::kB, db, C::kA * da);
  y[2] = fma(C::kB2, sb, C::kA2 * sa);
  if (whole) y[3] = fma(C::kA3, da, fma(C::kB3, db, m[5]));
  return y;
}
Line transform_a4(const Pixels& y, bool whole) {
  using C = winograd::Constants<4>;
  const float ea = fma(C::kA2, y[2], y[0]), oa = C::kA * (whole ? fma(C::kA2, y[3], y[1]) : y[1]);
  const float eb = fma(C::kB2, y[2], y[0]), ob = C::kB * (whole ? fma(C::kB2, y[3], y[1]) : y[1]);
  return {y[0], ea + oa, ea - oa, eb + ob, eb - ob, whole ? y[3] : 0};
}
Line transform_g4(const Three& g) {
  using C = winograd::Constants<4>;
  const float ea = fma(C::kGa2, g[2], C::kGa0 * g[0]), eb = fma(C::kGb2, g[2], C::kGb0 * g[0]);
  return {C::kG0 * g[0],          fma(C::kGa1, g[1], ea),  fma(-C::kGa1, g[1], ea),
          fma(C::kGb1, g[1], eb), fma(-C::kGb1, g[1], eb), g[2]};
}
Three transform_gt4(const Line& u) {
  using C = winograd::Constants<4>;
  const float sa = u[1] + u[2], da = u[1] - u[2], sb = u[3] + u[4], db = u[3] - u[4];
  return {fma(C::kG0, u[0], fma(C::kGa0, sa, C::kGb0 * sb)), fma(C::kGa1, da, C::kGb1 * db),
          fma(C::kGa2, sa, fma(C::kGb2, sb, u[5]))};
}

// Those of tiles of six.
using C6 = winograd::Constants<6>;
Line transform_b6(const Line& d, bool whole) {
  Line o{};
  const auto end = [&](int i) {
    return fma(-1.0f, d[i], fma(C6::kE, d[i + 2], fma(-C6::kE, d[i + 4], d[i + 6])));
  };
  o[0] = end(0);
  for (int i = 0; i < 3; ++i) {
    const float even = fma(C6::kProduct[i], d[2], fma(-C6::kSum[i], d[4], d[6]));
    const float odd = fma(C6::kProduct[i], d[1], fma(-C6::kSum[i], d[3], d[5]));
    o[2 * i + 1] = fma(C6::kPoint[i], odd, even);
    o[2 * i + 2] = fma(-C6::kPoint[i], odd, even);
  }
  if (whole) o[7] = end(1);
  return o;
}
// The sums and the differences of the pairs of points.
template <int kPairs>
struct PairsOf {
  std::array<float, kPairs> sums, differences;
  explicit PairsOf(const Line& m) {
    for (int i = 0; i < kPairs; ++i)
      sums[i] = m[2 * i + 1] + m[2 * i + 2], differences[i] = m[2 * i + 1] - m[2 * i + 2];
  }
};
Pixels transform_at6(const Line& m, bool whole) {
  const PairsOf<3> pairs(m);
  const auto& [s0, s1, s2] = pairs.sums;
  const auto& [d0, d1, d2] = pairs.differences;
  return {((m[0] + s0) + s1) + s2,
          fma(2.0f, d2, fma(0.5f, d0, d1)),
          fma(4.0f, s2, fma(0.25f, s0, s1)),
          fma(8.0f, d2, fma(0.125f, d0, d1)),
          fma(16.0f, s2, fma(0.0625f, s0, s1)),
          whole ? fma(32.0f, d2, fma(0.03125f, d0, d1 + m[7])) : 0};
}
Line transform_a6(const Pixels& y, bool whole) {
  Line o{};
  o[0] = y[0];
  for (int i = 0; i < 3; ++i) {
    const float square = C6::kSquare[i];
    const float even = fma(square, fma(square, y[4], y[2]), y[0]);
    const float odd = fma(square, whole ? fma(square, y[5], y[3]) : y[3], y[1]);
    o[2 * i + 1] = fma(C6::kPoint[i], odd, even);
    o[2 * i + 2] = fma(-C6::kPoint[i], odd, even);
  }
  if (whole) o[7] = y[5];
  return o;
}
// Of tiles of eight, too.
template <int kM>
Line transform_g_of(const Three& g) {
  using C = winograd::Constants<kM>;
  Line o{};
  o[0] = C::kG0 * g[0];
  for (int i = 0; i < kM / 2; ++i) {
    const float even = fma(C::kN2[i], g[2], C::kN0[i] * g[0]);
    o[2 * i + 1] = fma(C::kN1[i], g[1], even);
    o[2 * i + 2] = fma(-C::kN1[i], g[1], even);
  }
  o[kM + 1] = g[2];
  return o;
}
Three transform_gt6(const Line& u) {
  const PairsOf<3> pairs(u);
  const auto& [s0, s1, s2] = pairs.sums;
  const auto& [d0, d1, d2] = pairs.differences;
  return {fma(-1.0f, u[0], fma(C6::kN0[0], s0, fma(C6::kN0[1], s1, C6::kN0[2] * s2))),
          fma(C6::kN1[0], d0, fma(C6::kN1[1], d1, C6::kN1[2] * d2)),
          fma(C6::kN2[0], s0, fma(C6::kN2[1], s1, fma(C6::kN2[2], s2, u[7])))};
}

// Those of tiles of eight.
using C8 = winograd::Constants<8>;
Line transform_b8(const Line& d, bool whole) {
  Line o{};
  const auto end = [&](int i) {
    return fma(C8::kE0, d[i],
               fma(-C8::kE2, d[i + 2], fma(C8::kE4, d[i + 4], fma(-C8::kE6, d[i + 6], d[i + 8]))));
  };
  o[0] = end(0);
  for (int i = 0; i < 4; ++i) {
    const auto half = [&](int k) {
      return fma(-C8::kC0[i], d[k],
                 fma(C8::kC2[i], d[k + 2], fma(-C8::kC4[i], d[k + 4], d[k + 6])));
    };
    const float even = half(2), odd = half(1);
    o[2 * i + 1] = fma(C8::kPoint[i], odd, even);
    o[2 * i + 2] = fma(-C8::kPoint[i], odd, even);
  }
  if (whole) o[9] = end(1);
  return o;
}
// c[0] z[0] + ... + c[3] z[3] + last
float chain8(const std::array<float, 4>& c, const std::array<float, 4>& z, float last) {
  return fma(c[3], z[3], fma(c[2], z[2], fma(c[1], z[1], fma(c[0], z[0], last))));
}
float chain8(const std::array<float, 4>& c, const std::array<float, 4>& z) {
  return fma(c[3], z[3], fma(c[2], z[2], fma(c[1], z[1], c[0] * z[0])));
}
Pixels transform_at8(const Line& m, bool whole) {
  const auto& [s, d] = PairsOf<4>(m);
  return {(((m[0] + s[0]) + s[1]) + s[2]) + s[3],
          chain8(C8::kPower[1], d),
          chain8(C8::kPower[2], s),
          chain8(C8::kPower[3], d),
          chain8(C8::kPower[4], s),
          chain8(C8::kPower[5], d),
          chain8(C8::kPower[6], s),
          whole ? chain8(C8::kPower[7], d, m[9]) : 0};
}
Line transform_a8(const Pixels& y, bool whole) {
  Line o{};
  o[0] = y[0];
  for (int i = 0; i < 4; ++i) {
    const float square = C8::kSquare[i];
    const float even = fma(square, fma(square, fma(square, y[6], y[4]), y[2]), y[0]);
    const float odd = fma(square, fma(square, whole ? fma(square, y[7], y[5]) : y[5], y[3]), y[1]);
    o[2 * i + 1] = fma(C8::kPoint[i], odd, even);
    o[2 * i + 2] = fma(-C8::kPoint[i], odd, even);
  }
  if (whole) o[9] = y[7];
  return o;
}
Three transform_gt8(const Line& u) {
  const auto& [s, d] = PairsOf<4>(u);
  return {fma(C8::kG0, u[0], chain8(C8::kN0, s)), chain8(C8::kN1, d), chain8(C8::kN2, s, u[9])};
}

Line transform_b(const Tile& tile, const Line& d) {
  return (tile.m == 4 ? transform_b4 : tile.m == 6 ? transform_b6 : transform_b8)(d, tile.whole);
}
Pixels transform_at(const Tile& tile, const Line& m) {
  return (tile.m == 4 ? transform_at4 : tile.m == 6 ? transform_at6 : transform_at8)(m, tile.whole);
}
Line transform_a(const Tile& tile, const Pixels& y) {
  return (tile.m == 4 ? transform_a4 : tile.m == 6 ? transform_a6 : transform_a8)(y, tile.whole);
}
Line transform_g(int m, const Three& g) {
  return (m == 4 ? transform_g4 : m == 6 ? transform_g_of<6> : transform_g_of<8>)(g);
}
Three transform_gt(int m, const Line& u) {
  return (m == 4 ? transform_gt4 : m == 6 ? transform_gt6 : transform_gt8)(u);
}

// The tiles of the two axes of so many outputs.
struct Grid {
  int m;
  std::vector<Tile> down, across;

  // The tiles depend on the channels of the convolution, too.
  Grid(const ConvShape& s, Index rows, Index columns)
      : m(winograd::tile_outputs(rows, columns, s.in_channels * s.stride_height * s.stride_width,
                                 s.out_channels)),
        down(tiles_of(rows)),
        across(tiles_of(columns)) {}
  int axis() const { return m + 2; }
  Index count() const { return static_cast<Index>(down.size() * across.size()); }

 private:
  std::vector<Tile> tiles_of(Index length) const {
    const Tiles all(length, m);
    std::vector<Tile> tiles;
    for (Index i = 0; i < all.count; ++i) tiles.push_back({all.begin(i), m, all.is_whole(i)});
    return tiles;
  }
};

// Rows then columns: the first index of each function runs down.
using Points = std::array<Line, winograd::kMostPoints>;

// transform_b of the patch whose element (i, j) is at(i, j).
template <typename At>
Points patch_points(const Tile& down, const Tile& across, const At& at) {
  std::array<Line, winograd::kMostPoints> columns{};  // [column][row]
  for (int j = 0; j < across.points(); ++j) {
    Line d{};
    for (int i = 0; i < down.points(); ++i) d[i] = at(down.begin + i, across.begin + j);
    columns[j] = transform_b(down, d);
  }
  Points points{};
  for (int i = 0; i < down.points(); ++i) {
    Line row{};
    for (int j = 0; j < winograd::kMostPoints; ++j) row[j] = columns[j][i];
    points[i] = transform_b(across, row);
  }
  return points;
}
template <typename At>
Points gradient_points(const Tile& down, const Tile& across, const At& at) {
  std::array<Line, winograd::kMostOutputs> columns{};
  for (int j = 0; j < across.outputs(); ++j) {
    Pixels d{};
    for (int i = 0; i < down.outputs(); ++i) d[i] = at(down.begin + i, across.begin + j);
    columns[j] = transform_a(down, d);
  }
  Points points{};
  for (int i = 0; i < down.points(); ++i) {
    Pixels row{};
    for (int j = 0; j < winograd::kMostOutputs; ++j) row[j] = columns[j][i];
    points[i] = transform_a(across, row);
  }
  return points;
}
template <typename At>
Points filter_points(int m, const At& at) {
  std::array<Line, 3> columns;
  for (int s = 0; s < 3; ++s) columns[s] = transform_g(m, {at(0, s), at(1, s), at(2, s)});
  Points points{};
  for (int i = 0; i < m + 2; ++i)
    points[i] = transform_g(m, {columns[0][i], columns[1][i], columns[2][i]});
  return points;
}
// Calls put(i, j, value) for the pixels of an output tile.
template <typename Put>
void tile_pixels(const Points& m, const Tile& down, const Tile& across, const Put& put) {
  std::array<Pixels, winograd::kMostPoints> columns{};
  for (int j = 0; j < across.points(); ++j) {
    Line column{};
    for (int i = 0; i < winograd::kMostPoints; ++i) column[i] = m[i][j];
    columns[j] = transform_at(down, column);
  }
  for (int i = 0; i < down.outputs(); ++i) {
    Line row{};
    for (int j = 0; j < winograd::kMostPoints; ++j) row[j] = columns[j][i];
    const Pixels y = transform_at(across, row);
    for (int j = 0; j < across.outputs(); ++j) put(down.begin + i, across.begin + j, y[j]);
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
  const ConvShape& s;
  Axis down, across;
  Index phases, kernel_width, taps;

  explicit Problem(const ConvShape& shape)
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
void filter_gradients(const Problem& problem, int m, float* dw, const Sum& sum) {
  for (Index k = 0; k < problem.s.out_channels; ++k)
    for (Index e = 0; e < problem.channels(); ++e) {
      std::array<Three, winograd::kMostPoints> columns{};
      for (int j = 0; j < m + 2; ++j) {
        Line column{};
        for (int i = 0; i < m + 2; ++i) column[i] = sum(k, e, i, j);
        columns[j] = transform_gt(m, column);
      }
      for (int r = 0; r < 3; ++r) {
        Line points{};
        for (int j = 0; j < m + 2; ++j) points[j] = columns[j][r];
        const Three row = transform_gt(m, points);
        for (int t = 0; t < 3; ++t) dw[problem.weight(k, e, r, t)] = row[t];
      }
    }
}

// Few channels: groups of 32 images, in each sixteen chains over the images n mod 16.
void narrow_grad_weight(const Problem& problem, const float* dy, const float* x, float* dw) {
  const ConvShape& s = problem.s;
  const Index channels = problem.channels();
  // lanes[group][k][e][lane]
  constexpr Index kGroup = 32, kLanes = 16;
  const Index groups = (s.images + kGroup - 1) / kGroup;
  std::vector<Points> lanes(groups * s.out_channels * channels * kLanes);
  std::vector<Points> patches(channels), gradients(s.out_channels);
  const Grid grid(s, s.out_height, s.out_width);
  for (Index n = 0; n < (s.images + kLanes - 1) / kLanes * kLanes; ++n)
    for (const Tile& down : grid.down)
      for (const Tile& across : grid.across) {
        column_points(problem, dy, x, n, down, across, patches, gradients);
        for (Index k = 0; k < s.out_channels; ++k)
          for (Index e = 0; e < channels; ++e) {
            Points& sum =
                lanes[((n / kGroup * s.out_channels + k) * channels + e) * kLanes + n % kLanes];
            for (int i = 0; i < down.points(); ++i)
              for (int j = 0; j < across.points(); ++j)
                sum[i][j] = fma(gradients[k][i][j], patches[e][i][j], sum[i][j]);
          }
      }
  filter_gradients(problem, grid.m, dw, [&](Index k, Index e, int i, int j) {
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
// of four or eight tiles, a run a chain.
void wide_grad_weight(const Problem& problem, const float* dy, const float* x, float* dw) {
  const ConvShape& s = problem.s;
  const Index channels = problem.channels(), pairs = s.out_channels * channels;
  constexpr Index kBlock = 16, kGroupTiles = 32, kSums = 5 << 20;
  const Index run_tiles = channels <= 64 ? 8 : 4;
  const Grid grid(s, s.out_height, s.out_width);
  const Index tiles = grid.count(), wide = static_cast<Index>(grid.across.size());
  const Index blocks = (s.images + kBlock - 1) / kBlock;
  const Index most = std::max<Index>(
      1, std::min(blocks * tiles / kGroupTiles, kSums / (grid.axis() * grid.axis() * pairs)));
  const Index group_blocks = (blocks + most - 1) / most;
  const Index groups = (blocks + group_blocks - 1) / group_blocks;
  std::vector<Points> sums(groups * pairs), run(pairs);  // [group][k][e], [k][e]
  std::vector<Points> patches(channels), gradients(s.out_channels);
  for (Index g = 0; g < groups; ++g) {
    const Index begin = g * group_blocks, end = std::min(blocks, begin + group_blocks);
    for (Index t = 0; t < (end - begin) * tiles; ++t) {
      if (t % run_tiles == 0) std::fill(run.begin(), run.end(), Points{});
      const Tile &down = grid.down[t % tiles / wide], &across = grid.across[t % wide];
      const Index first = (begin + t / tiles) * kBlock;
      for (Index n = first; n < std::min(s.images, first + kBlock); ++n) {
        column_points(problem, dy, x, n, down, across, patches, gradients);
        for (Index k = 0; k < s.out_channels; ++k)
          for (Index e = 0; e < channels; ++e)
            for (int i = 0; i < down.points(); ++i)
              for (int j = 0; j < across.points(); ++j) {
                float& chain = run[k * channels + e][i][j];
                chain = fma(gradients[k][i][j], patches[e][i][j], chain);
              }
      }
      if ((t + 1) % run_tiles != 0 && t + 1 != (end - begin) * tiles) continue;
      for (Index pair = 0; pair < pairs; ++pair)
        for (int i = 0; i < grid.axis(); ++i)
          for (int j = 0; j < grid.axis(); ++j) {
            float& total = sums[g * pairs + pair][i][j];
            total = t < run_tiles ? run[pair][i][j] : total + run[pair][i][j];
          }
    }
  }
  filter_gradients(problem, grid.m, dw, [&](Index k, Index e, int i, int j) {
    std::vector<float> parts(groups);
    for (Index g = 0; g < groups; ++g) parts[g] = sums[g * pairs + k * channels + e][i][j];
    return tree(parts.data(), groups);
  });
}

}  // namespace

void winograd_reference(const ConvShape& shape, const float* x, const float* w, float* y) {
  const Problem problem(shape);
  const ConvShape& s = shape;
  const Index channels = problem.channels();
  const Grid grid(s, s.out_height, s.out_width);
  std::vector<Points> filters(s.out_channels * channels), patches(channels);
  for (Index k = 0; k < s.out_channels; ++k)
    for (Index e = 0; e < channels; ++e)
      filters[k * channels + e] =
          filter_points(grid.m, [&](Index r, Index t) { return w[problem.weight(k, e, r, t)]; });
  for (Index n = 0; n < s.images; ++n)
    for (const Tile& down : grid.down)
      for (const Tile& across : grid.across) {
        for (Index e = 0; e < channels; ++e)
          patches[e] = patch_points(down, across,
                                    [&](Index i, Index j) { return problem.input(x, n, e, i, j); });
        for (Index k = 0; k < s.out_channels; ++k) {
          Points m{};
          for (int i = 0; i < grid.axis(); ++i)
            for (int j = 0; j < grid.axis(); ++j)
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

void winograd_grad_input_reference(const ConvShape& shape, const float* dy, const float* w,
                                   float* dx) {
  const Problem problem(shape);
  const ConvShape& s = shape;
  const Index channels = problem.channels();
  const Index top = problem.down.first(), left = problem.across.first();
  const Grid grid(s, problem.down.last() - top + 1, problem.across.last() - left + 1);
  std::vector<Points> filters(s.out_channels * channels), patches(s.out_channels);
  for (Index k = 0; k < s.out_channels; ++k)
    for (Index e = 0; e < channels; ++e)
      filters[k * channels + e] = filter_points(
          grid.m, [&](Index r, Index t) { return w[problem.weight(k, e, 2 - r, 2 - t)]; });
  for (Index n = 0; n < s.images; ++n)
    for (const Tile& down : grid.down)
      for (const Tile& across : grid.across) {
        for (Index k = 0; k < s.out_channels; ++k)
          patches[k] = patch_points(down, across, [&](Index i, Index j) {
            return problem.output(dy, n, k, top + i - 2, left + j - 2);
          });
        for (Index e = 0; e < channels; ++e) {
          Points m{};
          for (int i = 0; i < grid.axis(); ++i)
            for (int j = 0; j < grid.axis(); ++j)
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

bool winograd_grad_weight_is_wide(const ConvShape& s) {
  return winograd::is_wide(s.in_channels * s.stride_height * s.stride_width, s.out_channels);
}

void winograd_grad_weight_reference(const ConvShape& shape, const float* dy, const float* x,
                                    float* dw) {
  const Problem problem(shape);
  if (winograd_grad_weight_is_wide(shape))
    wide_grad_weight(problem, dy, x, dw);
  else
    narrow_grad_weight(problem, dy, x, dw);
}

}  // namespace podium
