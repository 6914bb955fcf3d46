// BF16, the upper half of an FP32 number, and the arithmetic of sums of its products on processors
// (docs/numerics.md, BF16): products are exact, sums are FP32, and what is subnormal counts as 0.
// These are the rules of their own instructions; base/numerics/tensor_core.h has those of GPUs.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/numerics/device_function.h"

namespace podium {

// Terms of a run: those with even numbers are one chain, those with odd numbers another.
inline constexpr int kBf16Run = 32;

// `x`, or a zero of its sign if it is subnormal.
PODIUM_DEVICE_FUNCTION inline float flushed(float x) {
  return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
}

// The nearest BF16 number, of two the one whose last bit is 0. NaN stays NaN.
PODIUM_DEVICE_FUNCTION inline std::uint16_t bf16_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  if ((bits & 0x7f800000u) == 0) return static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
PODIUM_DEVICE_FUNCTION inline float bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
// Of a number that is BF16 already.
PODIUM_DEVICE_FUNCTION inline std::uint16_t bf16_upper(float x) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
}
PODIUM_DEVICE_FUNCTION inline float bf16_rounded(float x) { return bf16_value(bf16_bits(x)); }

// a * b + c, rounded to FP32 as if exponents had no lower limit, then flushed.
PODIUM_DEVICE_FUNCTION inline float flushed_fma(float a, float b, float c) {
  const float sum = std::fma(a, b, c);
  if (!(std::fabs(sum) <= 0x1p-126f)) return sum;
  // Below this, the nearest number of 24 bits is less than 2^-126. In double precision the sum is
  // exact here: it is near the limit, so both terms are.
  const double exact =
      std::fma(static_cast<double>(a), static_cast<double>(b), static_cast<double>(c));
  return std::fabs(exact) < 0x1p-126 - 0x1p-151 ? std::copysign(0.0f, sum) : sum;
}
// a + b, flushed: if the sum is subnormal, it is exact.
PODIUM_DEVICE_FUNCTION inline float flushed_add(float a, float b) { return flushed(a + b); }

// What the instructions of a processor make of two terms and a sum: VDPBF16PS, whose second term
// comes first.
PODIUM_DEVICE_FUNCTION inline float add_pair(float sum, float a0, float b0, float a1, float b1) {
  return flushed_fma(flushed(a0), flushed(b0), flushed_fma(flushed(a1), flushed(b1), flushed(sum)));
}

// A sum in runs: term(i, a, b) sets the factors of term i, which are BF16 numbers.
template <typename Term>
float bf16_sum(std::int64_t terms, const Term& term) {
  float sum = 0;
  for (std::int64_t run = 0; run < terms; run += kBf16Run) {
    float chains[2] = {0, 0};
    for (int i = 0; i < kBf16Run; ++i) {
      float a = 0, b = 0;
      if (run + i < terms) term(run + i, a, b);
      chains[i % 2] = flushed_fma(a, b, chains[i % 2]);
    }
    sum = flushed_add(sum, flushed_add(chains[0], chains[1]));
  }
  return sum;
}

}  // namespace podium
