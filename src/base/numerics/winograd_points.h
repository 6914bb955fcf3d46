// What the contract conv2d_winograd (docs/numerics.md) is made of: its tiles and the constants of
// its transforms. Whole tiles are of M = 4, 6 or 8 outputs an axis and have M + 2 points, the last
// of them infinity; where no multiple of M covers an axis, some of its tiles have one output less,
// and lack that point.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

namespace podium::winograd {

// An axis cut into tiles of m outputs: as few as cover it, those that are whole before the others.
struct Tiles {
  std::int64_t m, count, whole;

  constexpr Tiles(std::int64_t length, std::int64_t outputs)
      : m(outputs),
        count((length + m - 1) / m),
        whole(count - std::min(count, m * count - length)) {}
  constexpr std::int64_t begin(std::int64_t i) const {
    return i < whole ? m * i : (m - 1) * i + whole;
  }
  constexpr bool is_whole(std::int64_t i) const { return i < whole; }
  constexpr std::int64_t points() const { return (m + 1) * count + whole; }
};

// The largest M, and points of its axis.
inline constexpr int kMostOutputs = 8, kMostPoints = kMostOutputs + 2;

// Whether the gradient to the weights has the order for many channels, from so many channels of the
// input, counted per phase, to those of the output.
constexpr bool is_wide(std::int64_t in_channels, std::int64_t out_channels) {
  return in_channels >= 16 && out_channels % 16 == 0;
}

// M for so many rows and columns of outputs, and such channels. Larger tiles take fewer products,
// but larger transforms, more memory and more roundings: they are for wide layers, and must save a
// twelfth, those of eight another eighth.
constexpr int tile_outputs(std::int64_t rows, std::int64_t columns, std::int64_t in_channels,
                           std::int64_t out_channels) {
  const auto points = [&](std::int64_t m) {
    return Tiles(rows, m).points() * Tiles(columns, m).points();
  };
  int m = 4;
  if (!is_wide(in_channels, out_channels)) return m;
  if (12 * points(6) < 11 * points(4)) m = 6;
  if (8 * points(8) < 7 * points(m)) m = 8;
  return m;
}

// Calls f with M as a constant.
template <typename F>
constexpr auto for_tile(std::int64_t m, const F& f) {
  if (m == 4) return f(std::integral_constant<int, 4>());
  if (m == 6) return f(std::integral_constant<int, 6>());
  return f(std::integral_constant<int, 8>());
}

// Each constant is rounded once from its exact value; all but those of G are exact.
template <int kM>
struct Constants;

// Points 0, +-a, +-b.
template <>
struct Constants<4> {
  static constexpr double kExactA = 0.625, kExactB = 1.5;
  static constexpr double kExactA2 = kExactA * kExactA, kExactB2 = kExactB * kExactB;
  static constexpr float kA = kExactA, kB = kExactB, kA2 = kExactA2, kB2 = kExactB2;
  static constexpr float kA3 = kExactA2 * kExactA, kB3 = kExactB2 * kExactB;
  static constexpr float kP = kExactA2 * kExactB2, kS = kExactA2 + kExactB2;
  static constexpr double kExactNa = 1 / (2 * kExactA2 * (kExactA2 - kExactB2));
  static constexpr double kExactNb = 1 / (2 * kExactB2 * (kExactB2 - kExactA2));
  static constexpr float kG0 = 1 / (kExactA2 * kExactB2);
  static constexpr float kGa0 = kExactNa, kGa1 = kExactA * kExactNa, kGa2 = kExactA2 * kExactNa;
  static constexpr float kGb0 = kExactNb, kGb1 = kExactB * kExactNb, kGb2 = kExactB2 * kExactNb;
};

// Points 0, +-1/2, +-1, +-2; what belongs to a pair of points has its index.
template <>
struct Constants<6> {
  static constexpr float kG0 = -1;
  static constexpr float kPoint[3] = {0.5f, 1, 2}, kSquare[3] = {0.25f, 1, 4};
  // The polynomials of the other two pairs, x^4 - sum x^2 + product, and of all three,
  // x^6 - e x^4 + e x^2 - 1.
  static constexpr float kSum[3] = {5, 4.25f, 1.25f}, kProduct[3] = {4, 1, 0.25f};
  static constexpr float kE = 5.25f;
  // 1 / the product of the distances to the other points; by the point; by its square.
  static constexpr double kExactN[3] = {32.0 / 45, -2.0 / 9, 1.0 / 90};
  static constexpr float kN0[3] = {kExactN[0], kExactN[1], kExactN[2]};
  static constexpr float kN1[3] = {kExactN[0] / 2, kExactN[1], kExactN[2] * 2};
  static constexpr float kN2[3] = {kExactN[0] / 4, kExactN[1], kExactN[2] * 4};
};

// Points 0, +-3/8, +-3/4, +-5/4, +-5/2; what belongs to a pair of points has its index.
struct PairsOfEight {
  static constexpr std::array<double, 4> kPoint = {0.375, 0.75, 1.25, 2.5};
  static constexpr double power(int i, int exponent) {
    return exponent == 0 ? 1 : power(i, exponent - 1) * kPoint[i];
  }
  static constexpr double square(int i) { return power(i, 2); }
  // The coefficient of x^(2 count) in the product of x^2 + square over the pairs but `left_out`.
  static constexpr double coefficient(int count, int left_out) {
    std::array<double, 5> c = {1};
    for (int i = 0; i < 4; ++i) {
      if (i == left_out) continue;
      for (int k = 4; k > 0; --k) c[k] = c[k - 1] + square(i) * c[k];
      c[0] *= square(i);
    }
    return c[count];
  }
  // 1 / the product of the distances to the other points.
  static constexpr double reciprocal(int i) {
    double distances = 2 * square(i);
    for (int j = 0; j < 4; ++j)
      if (j != i) distances *= square(i) - square(j);
    return 1 / distances;
  }
  // f(0) to f(3), rounded.
  template <typename F>
  static constexpr std::array<float, 4> each(const F& f) {
    return {static_cast<float>(f(0)), static_cast<float>(f(1)), static_cast<float>(f(2)),
            static_cast<float>(f(3))};
  }
};
template <>
struct Constants<8> {
  using Pairs = PairsOfEight;
  // kPower[k]: the points to the power k.
  static constexpr std::array<std::array<float, 4>, 8> kPower = [] {
    std::array<std::array<float, 4>, 8> powers{};
    for (int k = 0; k < 8; ++k) powers[k] = Pairs::each([k](int i) { return Pairs::power(i, k); });
    return powers;
  }();
  static constexpr auto kPoint = kPower[1], kSquare = kPower[2];
  // The polynomials of the other three pairs, x^6 - c4 x^4 + c2 x^2 - c0, and of all four,
  // x^8 - e6 x^6 + e4 x^4 - e2 x^2 + e0.
  static constexpr auto kC4 = Pairs::each([](int i) { return Pairs::coefficient(2, i); });
  static constexpr auto kC2 = Pairs::each([](int i) { return Pairs::coefficient(1, i); });
  static constexpr auto kC0 = Pairs::each([](int i) { return Pairs::coefficient(0, i); });
  static constexpr float kE6 = Pairs::coefficient(3, -1), kE4 = Pairs::coefficient(2, -1);
  static constexpr float kE2 = Pairs::coefficient(1, -1), kE0 = Pairs::coefficient(0, -1);
  // 1 / the product of the distances to the other points; by the point; by its square.
  static constexpr float kG0 = 1 / Pairs::coefficient(0, -1);
  static constexpr auto kN0 = Pairs::each([](int i) { return Pairs::reciprocal(i); });
  static constexpr auto kN1 =
      Pairs::each([](int i) { return Pairs::reciprocal(i) * Pairs::kPoint[i]; });
  static constexpr auto kN2 =
      Pairs::each([](int i) { return Pairs::reciprocal(i) * Pairs::square(i); });
};

}  // namespace podium::winograd
