// Convolutions, direct and by Winograd's algorithm, and matrix products against their definitions
// in double.
#include <algorithm>
#include <array>
#include <cmath>

#include "ops/plain_test_util.h"

namespace podium {
namespace {

Numbers numbers_of(const Tensor& tensor) { return {tensor.f32().begin(), tensor.f32().end()}; }
Numbers absolute(Numbers numbers) {
  for (double& x : numbers) x = std::abs(x);
  return numbers;
}
double at(std::int64_t i) { return static_cast<double>(i); }

// Calls visit(index in x, in w, in y) for each product that a convolution consists of; the
// gradients sum the same products, to x and to w.
template <typename Visit>
void for_each_product(const Conv2dAttributes& a, const Shape& x, const Shape& w, const Shape& y,
                      const Visit& visit) {
  for (std::int64_t n = 0; n < x[0]; ++n)
    for (std::int64_t k = 0; k < w[0]; ++k)
      for (std::int64_t p = 0; p < y[2]; ++p)
        for (std::int64_t q = 0; q < y[3]; ++q)
          for (std::int64_t c = 0; c < x[1]; ++c)
            for (std::int64_t r = 0; r < w[2]; ++r)
              for (std::int64_t s = 0; s < w[3]; ++s) {
                const std::int64_t i = p * a.stride_h + r - a.pad_top,
                                   j = q * a.stride_w + s - a.pad_left;
                if (i < 0 || i >= x[2] || j < 0 || j >= x[3]) continue;
                visit(((n * x[1] + c) * x[2] + i) * x[3] + j,
                      ((k * w[1] + c) * w[2] + r) * w[3] + s,
                      ((n * y[1] + k) * y[2] + p) * y[3] + q);
              }
}

struct Pass {
  enum Kind { kForward, kGradInput, kGradWeight } kind;
  Conv2dAttributes attributes;
  Shape x, w, y;
  std::vector<Tensor> inputs;  // of the operation
  Numbers images = {};         // that are convolved, where they are normalised
  Shape result() const { return kind == kForward ? y : kind == kGradInput ? x : w; }
};

// The images that a batch norm leaves to the convolution, which are those that it would have made:
// x times scale plus shift, rounded once, then the activation.
Numbers normalised(const Conv2dAttributes& a, const Tensor& x, const Tensor& affine) {
  Numbers images;
  const std::int64_t pixels = x.shape()[2] * x.shape()[3], channels = x.shape()[1];
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const std::int64_t c = i / pixels % channels;
    const float before = std::fma(x.f32()[u(i)], affine.f32()[u(c)], affine.f32()[u(channels + c)]);
    const float below = a.activation.kind == ActivationKind::kNone   ? before
                        : a.activation.kind == ActivationKind::kRelu ? 0.0f
                                                                     : a.activation.slope * before;
    images.push_back(before > 0 ? before : below);
  }
  return images;
}

Pass pass_of(const OpSample& sample, Pass::Kind kind, std::uint32_t stream) {
  Pass pass{kind, sample.attributes.as<Conv2dAttributes>(), {}, {}, {}, {}};
  const Shape &first = sample.inputs[0].shape, &second = sample.inputs[1].shape;
  const Conv2dAttributes& a = pass.attributes;
  pass.inputs = {random_f32(first, 2 * stream), random_f32(second, 2 * stream + 1)};
  if (kind == Pass::kForward) {
    pass.x = first, pass.w = second;
    const std::vector<TensorType> types = {sample.inputs[0], sample.inputs[1]};
    pass.y = conv2d_op.infer({"", sample.attributes, types})[0].shape;
  } else if (kind == Pass::kGradInput) {
    pass.y = winograd_output(a, first), pass.w = second;
    pass.x = Shape{first[0], second[1], a.extent_h, a.extent_w};
  } else {
    pass.x = first, pass.y = winograd_output(a, second);
    pass.w = Shape{second[1], first[1], a.extent_h, a.extent_w};
  }
  if (a.normalises) {
    pass.inputs.push_back(random_f32(sample.inputs.back().shape, 5 * stream));
    pass.images = normalised(a, pass.inputs[0], pass.inputs.back());
  }
  if (kind != Pass::kForward && a.pools) {
    Tensor places = random_labels(sample.inputs[2].shape.elements(), 4, 3 * stream);
    const auto at =
        pass.inputs.emplace(pass.inputs.begin() + 2, DType::kF32, sample.inputs[2].shape);
    std::ranges::copy(places.i32(), at->f32().begin());
  }
  return pass;
}

// The definition of a pass on any numbers: sums of products.
Numbers plain(const Pass& pass, const Numbers& first, const Numbers& second) {
  Numbers result(static_cast<std::size_t>(pass.result().elements()));
  for_each_product(pass.attributes, pass.x, pass.w, pass.y,
                   [&](std::int64_t x, std::int64_t w, std::int64_t y) {
                     const auto ux = static_cast<std::size_t>(x), uw = static_cast<std::size_t>(w),
                                uy = static_cast<std::size_t>(y);
                     if (pass.kind == Pass::kForward) result[uy] += first[ux] * second[uw];
                     if (pass.kind == Pass::kGradInput) result[ux] += first[uy] * second[uw];
                     if (pass.kind == Pass::kGradWeight) result[uw] += first[ux] * second[uy];
                   });
  return result;
}

// Operand i as the definition reads it: a gradient to what was pooled stands at the place of each
// window's largest pixel.
Numbers operand_of(const Pass& pass, std::size_t i) {
  if (i == 0 && pass.attributes.normalises) return pass.images;
  if (pass.kind == Pass::kForward || !pass.attributes.pools ||
      i != (pass.kind == Pass::kGradInput ? 0 : 1))
    return numbers_of(pass.inputs[i]);
  Numbers led(u(pass.y.elements()));
  for_each_pool_window(pass.y, PoolAttributes(),
                       [&](std::size_t out, const std::vector<std::size_t>& pixels) {
                         led[pixels[static_cast<std::size_t>(pass.inputs[2].f32()[out])]] =
                             pass.inputs[i].f32()[out];
                       });
  return led;
}

// --- direct: one chain, or for the weights one chain an image and the image sum

double direct_roundings(const Pass& pass) {
  const double taps = at(pass.w[2] * pass.w[3]);
  if (pass.kind == Pass::kForward) return at(pass.x[1]) * taps;
  if (pass.kind == Pass::kGradInput) return at(pass.w[0]) * taps;
  const double pixels = at(pass.y[2] * pass.y[3]);
  if (!conv2d_is_wide(pass.x[1], pass.w[0])) return pixels + 5 + lane_depth(pass.x[0]);
  return 256 + std::ceil(std::ceil(at(pass.x[0]) / 16) * pixels / 16);
}

void check_direct(const OpDef& op, Pass::Kind kind) {
  std::uint32_t stream = 0;
  for (const OpSample& sample : op.samples()) {
    const Pass pass = pass_of(sample, kind, ++stream);
    const Numbers first = numbers_of(pass.inputs[0]), second = numbers_of(pass.inputs[1]);
    Numbers bounds = plain(pass, absolute(first), absolute(second));
    for (double& bound : bounds) bound *= gamma_of(direct_roundings(pass));
    expect_within(run_reference(op, sample.attributes, pass.inputs)[0], plain(pass, first, second),
                  bounds, cat(op.name, " {", sample.attributes.text(), "}"));
  }
}

TEST(PlainFormula, conv2d) { check_direct(conv2d_op, Pass::kForward); }
TEST(PlainFormula, conv2d_grad_input) { check_direct(conv2d_grad_input_op, Pass::kGradInput); }
TEST(PlainFormula, conv2d_grad_weight) { check_direct(conv2d_grad_weight_op, Pass::kGradWeight); }

// --- Winograd
//
// Each pass is z = T [sum of (U f) * (V g)], U, V, T the transforms of two directions. In exact
// arithmetic it is the definition, whatever the points. In FP32 every term of every sum passes at
// most K roundings, those of its two transforms, of the products' sums and of T, so (Higham 3.1;
// for this algorithm Barabasz et al., Error analysis and improving the accuracy of Winograd
// convolution, 2020)
//   |error| <= gamma(K) |T| [sum of (|U| |f|) * (|V| |g|)]
// with the absolute values of the transforms' matrices. Roundings of one direction, counted in the
// formulas of docs/numerics.md, with one for a constant that is not exact; in two directions twice
// as many.
struct Roundings {
  double b, a, at, g, gt;
};
constexpr Roundings kRoundings4 = {2 * 3, 2 * 3, 2 * 3, 2 * 4, 2 * 5};
constexpr Roundings kRoundings6 = {2 * 3, 2 * 3, 2 * 4, 2 * 4, 2 * 6};
constexpr Roundings kRoundings8 = {2 * 4, 2 * 4, 2 * 5, 2 * 4, 2 * 7};

using Matrix = std::vector<Numbers>;

// Of tiles of m outputs: points from inputs, from filter taps, and from outputs' gradients (the
// transpose: outputs from points; of the second: taps from points).
struct Transforms {
  Matrix inputs, filters, outputs;

  explicit Transforms(std::size_t m) {
    const Numbers points = m == 4 ? Numbers{0, 0.625, -0.625, 1.5, -1.5}
                           : m == 6
                               ? Numbers{0, 0.5, -0.5, 1, -1, 2, -2}
                               : Numbers{0, 0.375, -0.375, 0.75, -0.75, 1.25, -1.25, 2.5, -2.5};
    const auto powers = [](double x, std::size_t count, double factor) {
      Numbers row(count, factor);
      for (std::size_t i = 1; i < count; ++i) row[i] = row[i - 1] * x;
      return row;
    };
    // The coefficients of the product of x - q over the points q, `left_out` excepted.
    const auto polynomial = [&](std::size_t left_out) {
      Numbers c(m + 2);
      c[0] = 1;
      for (std::size_t i = 0; i < points.size(); ++i) {
        if (i == left_out) continue;
        for (std::size_t k = m + 1; k > 0; --k) c[k] = c[k - 1] - points[i] * c[k];
        c[0] *= -points[i];
      }
      return c;
    };
    for (std::size_t i = 0; i < points.size(); ++i) {
      double distances = 1;
      for (std::size_t j = 0; j < points.size(); ++j)
        if (j != i) distances *= points[i] - points[j];
      inputs.push_back(polynomial(i));
      filters.push_back(powers(points[i], 3, 1 / distances));
      outputs.push_back(powers(points[i], m, 1));
    }
    // Infinity: the leading coefficients.
    inputs.push_back(polynomial(points.size()));
    filters.push_back({0, 0, 1});
    outputs.emplace_back(m);
    outputs.back().back() = 1;
  }
};

Matrix transposed(const Matrix& m) {
  Matrix t(m[0].size(), Numbers(m.size()));
  for (std::size_t i = 0; i < m.size(); ++i)
    for (std::size_t j = 0; j < t.size(); ++j) t[j][i] = m[i][j];
  return t;
}
Matrix absolute(Matrix m) {
  for (Numbers& row : m) row = absolute(row);
  return m;
}

// The tiles of an axis of n outputs: of m, the last few of one less.
struct Tile {
  std::int64_t begin, size;
};
std::vector<Tile> tiles_of(std::int64_t n, std::int64_t m) {
  const std::int64_t count = (n + m - 1) / m;
  const std::int64_t less = std::min(count, m * count - n);
  std::int64_t begin = 0;
  std::vector<Tile> tiles;
  for (std::int64_t i = 0; i < count; ++i) {
    tiles.push_back({begin, i < count - less ? m : m - 1});
    begin += tiles.back().size;
  }
  return tiles;
}
double points_of_axis(std::int64_t n, std::int64_t m) {
  double points = 0;
  for (const Tile& tile : tiles_of(n, m)) points += at(tile.size + 2);
  return points;
}

// A block of points; a tile of less than m lacks the last point of its direction, and reads one
// input less.
using Points = std::array<std::array<double, 10>, 10>;
template <typename At>
Points points_of(const Matrix& m, std::int64_t rows, std::int64_t columns, bool last_row,
                 bool last_column, const At& value) {
  Points points{};
  for (std::size_t i = 0; i < m.size() - (last_row ? 0 : 1); ++i)
    for (std::size_t j = 0; j < m.size() - (last_column ? 0 : 1); ++j)
      for (std::int64_t a = 0; a < rows; ++a)
        for (std::int64_t b = 0; b < columns; ++b)
          points[i][j] +=
              m[i][static_cast<std::size_t>(a)] * m[j][static_cast<std::size_t>(b)] * value(a, b);
  return points;
}
double result_of(const Matrix& m, const Points& points, std::size_t row, std::size_t column) {
  double sum = 0;
  for (std::size_t i = 0; i < m[row].size(); ++i)
    for (std::size_t j = 0; j < m[row].size(); ++j) sum += m[row][i] * m[column][j] * points[i][j];
  return sum;
}
void add_products(Points& sum, const Points& a, const Points& b) {
  for (std::size_t i = 0; i < 10; ++i)
    for (std::size_t j = 0; j < 10; ++j) sum[i][j] += a[i][j] * b[i][j];
}

// The problem with its phases pulled apart: a convolution of stride 1 with 3x3 filters over the
// phased channels e; indices of x run from `top`, `left` in the gradient to the input.
struct Phased {
  const Pass& pass;
  const Conv2dAttributes& a = pass.attributes;
  std::int64_t channels = a.stride_h * a.stride_w * pass.x[1];

  // The rows and columns that are cut into tiles, and of how many outputs a tile is: in wide layers
  // of six where that saves a twelfth of the products, of eight where it saves an eighth of these.
  std::array<std::int64_t, 2> outputs() const {
    if (pass.kind != Pass::kGradInput) return {pass.y[2], pass.y[3]};
    return {(pass.x[2] - 1 + a.pad_top) / a.stride_h - a.pad_top / a.stride_h + 1,
            (pass.x[3] - 1 + a.pad_left) / a.stride_w - a.pad_left / a.stride_w + 1};
  }
  std::int64_t tile() const {
    const auto points = [&](std::int64_t m) {
      return points_of_axis(outputs()[0], m) * points_of_axis(outputs()[1], m);
    };
    if (channels < 16 || pass.y[1] % 16 != 0) return 4;
    const std::int64_t tile = points(6) * 12 < points(4) * 11 ? 6 : 4;
    return points(8) * 8 < points(tile) * 7 ? 8 : tile;
  }

  std::int64_t row_phase(std::int64_t e) const { return e / pass.x[1] / a.stride_w; }
  std::int64_t column_phase(std::int64_t e) const { return e / pass.x[1] % a.stride_w; }
  // -1 outside the image.
  std::int64_t x(std::int64_t n, std::int64_t e, std::int64_t i, std::int64_t j) const {
    const std::int64_t y = a.stride_h * i + row_phase(e) - a.pad_top,
                       z = a.stride_w * j + column_phase(e) - a.pad_left;
    if (y < 0 || y >= pass.x[2] || z < 0 || z >= pass.x[3]) return -1;
    return ((n * pass.x[1] + e % pass.x[1]) * pass.x[2] + y) * pass.x[3] + z;
  }
  std::int64_t w(std::int64_t k, std::int64_t e, std::int64_t r, std::int64_t t) const {
    return ((k * pass.x[1] + e % pass.x[1]) * 3 * a.stride_h + a.stride_h * r + row_phase(e)) * 3 *
               a.stride_w +
           a.stride_w * t + column_phase(e);
  }
  std::int64_t y(std::int64_t n, std::int64_t k, std::int64_t p, std::int64_t q) const {
    if (p < 0 || p >= pass.y[2] || q < 0 || q >= pass.y[3]) return -1;
    return ((n * pass.y[1] + k) * pass.y[2] + p) * pass.y[3] + q;
  }
};

double value_at(const Numbers& numbers, std::int64_t index) {
  return index < 0 ? 0 : numbers[static_cast<std::size_t>(index)];
}

// Forward and gradient to the input: a pass over patches of `in`, `from` channels to `to`. With the
// transforms' own matrices it is the result, with their absolute values the bound without gamma(K).
template <typename In, typename Filter, typename Put>
void tiled(const std::array<Matrix, 3>& m, std::int64_t images, std::int64_t from, std::int64_t to,
           std::int64_t height, std::int64_t width, const In& in, const Filter& filter,
           const Put& put) {
  const auto tile = static_cast<std::int64_t>(m[0].size()) - 2;
  std::vector<Points> filters;
  for (std::int64_t o = 0; o < to; ++o)
    for (std::int64_t i = 0; i < from; ++i)
      filters.push_back(points_of(m[1], 3, 3, true, true, [&](std::int64_t r, std::int64_t t) {
        return filter(o, i, r, t);
      }));
  for (std::int64_t n = 0; n < images; ++n)
    for (const Tile& down : tiles_of(height, tile))
      for (const Tile& across : tiles_of(width, tile)) {
        std::vector<Points> patches;
        for (std::int64_t i = 0; i < from; ++i)
          patches.push_back(points_of(m[0], down.size + 2, across.size + 2, down.size == tile,
                                      across.size == tile, [&](std::int64_t a, std::int64_t b) {
                                        return in(n, i, down.begin + a, across.begin + b);
                                      }));
        for (std::int64_t o = 0; o < to; ++o) {
          Points sum{};
          for (std::int64_t i = 0; i < from; ++i)
            add_products(sum, patches[static_cast<std::size_t>(i)],
                         filters[static_cast<std::size_t>(o * from + i)]);
          for (std::int64_t a = 0; a < down.size; ++a)
            for (std::int64_t b = 0; b < across.size; ++b)
              put(n, o, down.begin + a, across.begin + b,
                  result_of(m[2], sum, static_cast<std::size_t>(a), static_cast<std::size_t>(b)));
        }
      }
}

// The pass by Winograd's algorithm in double; `m`: the transforms of inputs, of filters, and to the
// outputs (of the weights' gradient: of inputs, of outputs' gradients, and to the taps).
Numbers winograd(const Pass& pass, const std::array<Matrix, 3>& m, const Numbers& first,
                 const Numbers& second) {
  const Phased phased{pass};
  const Conv2dAttributes& a = pass.attributes;
  Numbers result(static_cast<std::size_t>(pass.result().elements()));
  const auto put = [&](std::int64_t index, double value) {
    if (index >= 0) result[static_cast<std::size_t>(index)] = value;
  };
  if (pass.kind == Pass::kForward) {
    tiled(
        m, pass.x[0], phased.channels, pass.y[1], pass.y[2], pass.y[3],
        [&](auto n, auto e, auto i, auto j) { return value_at(first, phased.x(n, e, i, j)); },
        [&](auto k, auto e, auto r, auto t) { return value_at(second, phased.w(k, e, r, t)); },
        [&](auto n, auto k, auto p, auto q, double value) { put(phased.y(n, k, p, q), value); });
  } else if (pass.kind == Pass::kGradInput) {
    const std::int64_t top = a.pad_top / a.stride_h, left = a.pad_left / a.stride_w;
    tiled(
        m, pass.x[0], pass.y[1], phased.channels, phased.outputs()[0], phased.outputs()[1],
        [&](auto n, auto k, auto i, auto j) {
          return value_at(first, phased.y(n, k, top + i - 2, left + j - 2));
        },
        [&](auto e, auto k, auto r, auto t) {
          return value_at(second, phased.w(k, e, 2 - r, 2 - t));
        },
        [&](auto n, auto e, auto i, auto j, double value) {
          put(phased.x(n, e, top + i, left + j), value);
        });
  } else {
    std::vector<Points> sums(u(pass.y[1] * phased.channels));
    for (std::int64_t n = 0; n < pass.x[0]; ++n)
      for (const Tile& down : tiles_of(pass.y[2], phased.tile()))
        for (const Tile& across : tiles_of(pass.y[3], phased.tile())) {
          const bool last_row = down.size == phased.tile(),
                     last_column = across.size == phased.tile();
          std::vector<Points> inputs, gradients;
          for (std::int64_t e = 0; e < phased.channels; ++e)
            inputs.push_back(points_of(m[0], down.size + 2, across.size + 2, last_row, last_column,
                                       [&](std::int64_t i, std::int64_t j) {
                                         return value_at(first, phased.x(n, e, down.begin + i,
                                                                         across.begin + j));
                                       }));
          for (std::int64_t k = 0; k < pass.y[1]; ++k)
            gradients.push_back(points_of(m[1], down.size, across.size, last_row, last_column,
                                          [&](std::int64_t i, std::int64_t j) {
                                            return value_at(second, phased.y(n, k, down.begin + i,
                                                                             across.begin + j));
                                          }));
          for (std::size_t i = 0; i < sums.size(); ++i)
            add_products(sums[i], inputs[i % inputs.size()], gradients[i / inputs.size()]);
        }
    for (std::int64_t k = 0; k < pass.y[1]; ++k)
      for (std::int64_t e = 0; e < phased.channels; ++e)
        for (std::int64_t r = 0; r < 3; ++r)
          for (std::int64_t t = 0; t < 3; ++t)
            put(phased.w(k, e, r, t),
                result_of(m[2], sums[u(k * phased.channels + e)], u(r), u(t)));
  }
  return result;
}

double winograd_roundings(const Pass& pass) {
  const std::int64_t tile = Phased{pass}.tile();
  const Roundings& r = tile == 4 ? kRoundings4 : tile == 6 ? kRoundings6 : kRoundings8;
  const auto runs = [](std::int64_t channels) {  // chains of 64, then the additions of their sums
    return at(std::min<std::int64_t>(channels, 64)) + ceil_div(channels, 64);
  };
  if (pass.kind == Pass::kForward) return r.b + r.g + r.at + runs(Phased{pass}.channels);
  if (pass.kind == Pass::kGradInput) return r.b + r.g + r.at + runs(pass.y[1]);
  const double tiles = ceil_div(pass.y[2], tile) * ceil_div(pass.y[3], tile);
  // Wide: a chain of the columns of eight tiles of 16 images, or four; the sums of all chains in
  // order at worst.
  const double run = Phased{pass}.channels <= 64 ? 8 : 4;
  if (Phased{pass}.channels >= 16 && pass.y[1] % 16 == 0)
    return r.b + r.a + r.gt + 16 * run + std::ceil(ceil_div(pass.x[0], 16) * tiles / run);
  // A lane of a group of 32: two images' tiles; the trees of 16 and of the groups.
  return r.b + r.a + r.gt + 2 * tiles + 4 + std::ceil(std::log2(ceil_div(pass.x[0], 32)));
}

std::array<Matrix, 3> transforms_of(const Pass& pass) {
  const Transforms t(static_cast<std::size_t>(Phased{pass}.tile()));
  if (pass.kind == Pass::kGradWeight) return {t.inputs, t.outputs, transposed(t.filters)};
  return {t.inputs, t.filters, transposed(t.outputs)};
}

// At its place a window has its largest pixel, or one that FP32 may have made as large.
void check_places(const Pass& pass, const std::vector<Bounded>& y, const Tensor& places,
                  const std::string& what) {
  for_each_pool_window(
      pass.y, PoolAttributes(), [&](std::size_t out, const std::vector<std::size_t>& pixels) {
        const Bounded taken = y[pixels[static_cast<std::size_t>(places.f32()[out])]];
        for (const std::size_t i : pixels)
          ASSERT_LE(y[i].value - y[i].error, taken.value + taken.error) << what << ", " << out;
      });
}

void check_winograd(const OpDef& op, Pass::Kind kind) {
  std::uint32_t stream = 100;
  for (const OpSample& sample : op.samples()) {
    const Pass pass = pass_of(sample, kind, ++stream);
    const std::array<Matrix, 3> transforms = transforms_of(pass);
    const std::array<Matrix, 3> sizes = {absolute(transforms[0]), absolute(transforms[1]),
                                         absolute(transforms[2])};
    const Numbers first = operand_of(pass, 0), second = operand_of(pass, 1);
    const Numbers exact = plain(pass, first, second);
    const std::string what = cat(op.name, " {", sample.attributes.text(), "}");
    // What the bound is derived from computes the convolution, in exact arithmetic.
    const Numbers by_winograd = winograd(pass, transforms, first, second);
    for (std::size_t i = 0; i < exact.size(); ++i)
      ASSERT_NEAR(by_winograd[i], exact[i], 1e-10 * (1 + std::abs(exact[i]))) << what;
    Numbers bounds = winograd(pass, sizes, absolute(first), absolute(second));
    for (double& bound : bounds) bound *= gamma_of(winograd_roundings(pass));
    std::vector<Bounded> expected;
    for (std::size_t i = 0; i < exact.size(); ++i) expected.emplace_back(exact[i], bounds[i]);
    const std::vector<Tensor> out = run_reference(op, sample.attributes, pass.inputs);
    if (kind == Pass::kForward && pass.attributes.places)
      check_places(pass, expected, out[1], what);
    if (kind == Pass::kForward && pass.attributes.pools)
      expected = largest_of_windows(pass.y, expected);
    // Larger tiles have larger constants, and so wider bounds: with tiles of eight this finds what
    // is wrong, and kernels/conv/winograd_test.cc what is inexact.
    const std::int64_t tile = Phased{pass}.tile();
    expect_within(out[0], expected, what, tile == 4 ? 2e-2 : tile == 6 ? 1e-1 : 7e-1);
  }
}

TEST(PlainFormula, conv2d_winograd) { check_winograd(conv2d_winograd_op, Pass::kForward); }
TEST(PlainFormula, conv2d_winograd_grad_input) {
  check_winograd(conv2d_winograd_grad_input_op, Pass::kGradInput);
}
TEST(PlainFormula, conv2d_winograd_grad_weight) {
  check_winograd(conv2d_winograd_grad_weight_op, Pass::kGradWeight);
}

// --- matmul: chains of 256, their sums added in order

TEST(PlainFormula, matmul) {
  std::uint32_t stream = 200;
  for (const OpSample& sample : matmul_op.samples()) {
    const auto& t = sample.attributes.as<MatmulAttributes>();
    const std::vector<Tensor> inputs = {random_f32(sample.inputs[0].shape, ++stream),
                                        random_f32(sample.inputs[1].shape, ++stream)};
    const Shape &a = inputs[0].shape(), &b = inputs[1].shape();
    const std::int64_t rows = t.transpose_a ? a[1] : a[0], depth = t.transpose_a ? a[0] : a[1],
                       columns = t.transpose_b ? b[0] : b[1];
    std::vector<Bounded> expected;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        SumBound sum;
        for (std::int64_t k = 0; k < depth; ++k)
          sum.add(double{inputs[0].f32()[t.transpose_a ? k * rows + i : i * depth + k]} *
                  inputs[1].f32()[t.transpose_b ? j * depth + k : k * columns + j]);
        expected.push_back(
            sum.bound(at(std::min<std::int64_t>(depth, 256)) + ceil_div(depth, 256)));
      }
    expect_within(run_reference(matmul_op, sample.attributes, inputs)[0], expected,
                  cat("matmul {", sample.attributes.text(), "} ", to_string(a), to_string(b)));
  }
}

}  // namespace
}  // namespace podium
