// What the contract conv2d_winograd (docs/numerics.md) is made of: its tiles and the constants of
// its transforms. Whole tiles are of M = 4 or 6 outputs an axis and have M + 2 points, the last of
// them infinity; where no multiple of M covers an axis, some of its tiles have one output less, and
// lack that point.
#pragma once

#include <algorithm>
#include <cstdint>

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

// M for so many rows and columns of outputs, and channels of the input (counted per phase) and the
// output. Larger tiles take fewer products, but larger transforms, more memory and more roundings:
// they must save a twelfth.
constexpr int tile_outputs(std::int64_t rows, std::int64_t columns, std::int64_t in_channels,
                           std::int64_t out_channels) {
  const auto points = [&](std::int64_t m) {
    return Tiles(rows, m).points() * Tiles(columns, m).points();
  };
  return std::min(in_channels, out_channels) >= 24 && 12 * points(6) < 11 * points(4) ? 6 : 4;
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

}  // namespace podium::winograd
