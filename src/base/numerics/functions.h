// Elementary functions whose bits are ours, not libm's, so that every machine computes the same
// (docs/numerics.md, Functions). FP32: exp_f32, log_f32, logistic_f32 and tanh_f32, the contract of
// the loss, of GELU and SiLU, and of the gates of recurrent networks. FP64, within 2 ULP: exp_f64,
// log_f64, sin_2pi, cos_2pi and power, for schedules, initialisers and the optimizers' constants.
// Only correctly rounded operations are used: + - * / fma sqrt and rounding to integers.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/numerics/device_function.h"

namespace podium {

// 2^n as a float, n in [-126, 127]; as a double, n in [-1022, 1023].
PODIUM_DEVICE_FUNCTION inline float power_of_two_f32(std::int32_t n) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23);
}
inline double power_of_two_f64(std::int64_t n) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

PODIUM_DEVICE_FUNCTION inline float exp_f32(float x) {
  if (x != x) return x;
  if (x > 88.72283f) return std::numeric_limits<float>::infinity();
  if (x < -87.33654f) return 0.0f;
  const float n = std::nearbyint(x * 1.44269504f);
  float r = std::fma(n, -0.693359375f, x);
  r = std::fma(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = std::fma(p, r, 1.3981999507e-3f);
  p = std::fma(p, r, 8.3334519073e-3f);
  p = std::fma(p, r, 4.1665795894e-2f);
  p = std::fma(p, r, 1.6666665459e-1f);
  p = std::fma(p, r, 5.0000001201e-1f);
  p = std::fma(p * r, r, r) + 1.0f;
  const std::int32_t exponent = static_cast<std::int32_t>(n);
  const std::int32_t half = exponent >> 1;
  return p * power_of_two_f32(half) * power_of_two_f32(exponent - half);
}

PODIUM_DEVICE_FUNCTION inline float log_f32(float x) {
  if (x != x) return x;
  if (x < 0.0f) return std::numeric_limits<float>::quiet_NaN();
  if (x < 0x1p-126f) return -std::numeric_limits<float>::infinity();
  if (x == std::numeric_limits<float>::infinity()) return x;
  const std::int32_t i = std::bit_cast<std::int32_t>(x) - 0x3f3504f3;
  const float e = static_cast<float>(i >> 23);
  const float t = std::bit_cast<float>((i & 0x7fffff) + 0x3f3504f3) - 1.0f;
  const float z = t * t;
  float p = 7.0376836292e-2f;
  p = std::fma(p, t, -1.1514610310e-1f);
  p = std::fma(p, t, 1.1676998740e-1f);
  p = std::fma(p, t, -1.2420140846e-1f);
  p = std::fma(p, t, 1.4249322787e-1f);
  p = std::fma(p, t, -1.6668057665e-1f);
  p = std::fma(p, t, 2.0000714765e-1f);
  p = std::fma(p, t, -2.4999993993e-1f);
  p = std::fma(p, t, 3.3333331174e-1f);
  float y = (p * t) * z;
  y = std::fma(e, -2.12194440e-4f, y);
  y = std::fma(-0.5f, z, y);
  return std::fma(e, 0.693359375f, t + y);
}

PODIUM_DEVICE_FUNCTION inline float logistic_f32(float x) { return 1.0f / (1.0f + exp_f32(-x)); }

// Below kTanhSeries in magnitude a polynomial (Cephes' tanhf), beyond it by the exponential.
inline constexpr float kTanhSeries = 0.625f;
PODIUM_DEVICE_FUNCTION inline float tanh_f32(float x) {
  if (x != x) return x;
  const float a = std::abs(x);
  if (a < kTanhSeries) {
    const float z = x * x;
    float p = -5.70498872745e-3f;
    p = std::fma(p, z, 2.06390887954e-2f);
    p = std::fma(p, z, -5.37397155531e-2f);
    p = std::fma(p, z, 1.33314422036e-1f);
    p = std::fma(p, z, -3.33332819422e-1f);
    return std::fma(p * z, x, x);
  }
  return std::copysign(1.0f - 2.0f / (exp_f32(a + a) + 1.0f), x);
}

namespace internal {
// ln 2 and 2 pi as sums of two doubles; the first part of ln 2 has 11 zero bits at its end, so that
// its product with an exponent is exact.
inline constexpr double kLn2High = 0x1.62e42fefa3800p-1;
inline constexpr double kLn2Low = 0x1.ef35793c76730p-45;
inline constexpr double kTwoPiHigh = 0x1.921fb54442d18p+2;
inline constexpr double kTwoPiLow = 0x1.1a62633145c07p-52;

// sin(2 pi r) and cos(2 pi r) for |r| <= 1/8, by Taylor's series.
inline double sin_turn(double r) {
  const double a = r * kTwoPiHigh;
  const double low = std::fma(r, kTwoPiLow, std::fma(r, kTwoPiHigh, -a));
  const double z = a * a;
  double p = -1.0 / 1307674368000.0;  // -1/15!
  p = std::fma(p, z, 1.0 / 6227020800.0);
  p = std::fma(p, z, -1.0 / 39916800.0);
  p = std::fma(p, z, 1.0 / 362880.0);
  p = std::fma(p, z, -1.0 / 5040.0);
  p = std::fma(p, z, 1.0 / 120.0);
  p = std::fma(p, z, -1.0 / 6.0);
  return a + std::fma(a * z, p, low);
}
inline double cos_turn(double r) {
  const double a = r * kTwoPiHigh;
  const double low = std::fma(r, kTwoPiLow, std::fma(r, kTwoPiHigh, -a));
  const double z = a * a;
  double p = 1.0 / 20922789888000.0;  // 1/16!
  p = std::fma(p, z, -1.0 / 87178291200.0);
  p = std::fma(p, z, 1.0 / 479001600.0);
  p = std::fma(p, z, -1.0 / 3628800.0);
  p = std::fma(p, z, 1.0 / 40320.0);
  p = std::fma(p, z, -1.0 / 720.0);
  p = std::fma(p, z, 1.0 / 24.0);
  const double half = 0.5 * z;
  const double one = 1.0 - half;  // its rounding error is ((1 - one) - half)
  return one + (((1.0 - one) - half) + std::fma(z * z, p, -a * low));
}
}  // namespace internal

// Above 709.78 +inf, below -708.39 (the normal numbers' end) +0, NaN stays.
inline double exp_f64(double x) {
  if (x != x) return x;
  if (x > 709.782712893384) return std::numeric_limits<double>::infinity();
  if (x < -708.3964185322641) return 0.0;
  const double n = std::nearbyint(x * 0x1.71547652b82fep+0);
  const double high = std::fma(n, -internal::kLn2High, x);
  const double r = std::fma(n, -internal::kLn2Low, high);
  // Taylor's series to r^13; |r| <= 0.3466.
  double p = 1.0 / 6227020800.0;
  p = std::fma(p, r, 1.0 / 479001600.0);
  p = std::fma(p, r, 1.0 / 39916800.0);
  p = std::fma(p, r, 1.0 / 3628800.0);
  p = std::fma(p, r, 1.0 / 362880.0);
  p = std::fma(p, r, 1.0 / 40320.0);
  p = std::fma(p, r, 1.0 / 5040.0);
  p = std::fma(p, r, 1.0 / 720.0);
  p = std::fma(p, r, 1.0 / 120.0);
  p = std::fma(p, r, 1.0 / 24.0);
  p = std::fma(p, r, 1.0 / 6.0);
  p = std::fma(p, r, 0.5);
  p = std::fma(p * r, r, r) + 1.0;
  const std::int64_t exponent = static_cast<std::int64_t>(n);
  const std::int64_t half = exponent >> 1;
  return p * power_of_two_f64(half) * power_of_two_f64(exponent - half);
}

// Of a negative number NaN, of 0 and below the normal numbers -inf; +inf and NaN stay.
inline double log_f64(double x) {
  if (x != x) return x;
  if (x < 0.0) return std::numeric_limits<double>::quiet_NaN();
  if (x < 0x1p-1022) return -std::numeric_limits<double>::infinity();
  if (x == std::numeric_limits<double>::infinity()) return x;
  constexpr std::int64_t kRootHalf = 0x3fe6a09e667f3bcd;  // bits of sqrt(1/2)
  const std::int64_t i = std::bit_cast<std::int64_t>(x) - kRootHalf;
  const double e = static_cast<double>(i >> 52);
  const double f = std::bit_cast<double>((i & 0xfffffffffffff) + kRootHalf) - 1.0;
  // log(1 + f) = f - (h - s (h + R)), s = f / (2 + f), h = f^2 / 2, R = 2 (s^2 / 3 + s^4 / 5 +
  // ...).
  const double s = f / (2.0 + f);
  const double z = s * s;
  double p = 2.0 / 25.0;
  p = std::fma(p, z, 2.0 / 23.0);
  p = std::fma(p, z, 2.0 / 21.0);
  p = std::fma(p, z, 2.0 / 19.0);
  p = std::fma(p, z, 2.0 / 17.0);
  p = std::fma(p, z, 2.0 / 15.0);
  p = std::fma(p, z, 2.0 / 13.0);
  p = std::fma(p, z, 2.0 / 11.0);
  p = std::fma(p, z, 2.0 / 9.0);
  p = std::fma(p, z, 2.0 / 7.0);
  p = std::fma(p, z, 2.0 / 5.0);
  p = std::fma(p, z, 2.0 / 3.0);
  const double h = 0.5 * f * f;
  const double low = std::fma(s, std::fma(p, z, h), e * internal::kLn2Low);
  return std::fma(e, internal::kLn2High, f - (h - low));
}

// sin and cos of x turns (2 pi x), |x| < 2^51.
inline double sin_2pi(double x) {
  const double r = x - std::nearbyint(x);
  const double quarter = std::nearbyint(4.0 * r);
  const double rest = std::fma(quarter, -0.25, r);
  switch (static_cast<int>(quarter)) {
    case 0: return internal::sin_turn(rest);
    case 1: return internal::cos_turn(rest);
    case -1: return -internal::cos_turn(rest);
    default: return -internal::sin_turn(rest);
  }
}
inline double cos_2pi(double x) {
  const double r = x - std::nearbyint(x);
  const double quarter = std::nearbyint(4.0 * r);
  const double rest = std::fma(quarter, -0.25, r);
  switch (static_cast<int>(quarter)) {
    case 0: return internal::cos_turn(rest);
    case 1: return -internal::sin_turn(rest);
    case -1: return internal::sin_turn(rest);
    default: return -internal::cos_turn(rest);
  }
}

// x^n, n >= 0, by squaring from the lowest bit: 1 - power(beta, t) of Adam.
inline double power(double x, std::int64_t n) {
  double result = 1.0;
  for (; n > 0; n >>= 1) {
    if ((n & 1) != 0) result *= x;
    x *= x;
  }
  return result;
}

}  // namespace podium
