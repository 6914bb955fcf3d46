// Numbers as other programs' files store them, little-endian, and what they become in a tensor.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/numerics/bf16.h"
#include "tensor/tensor.h"

namespace podium {

enum class Stored : std::uint8_t { kF32, kF16, kBf16, kI32, kU32, kI64 };

// Of one number.
constexpr std::int64_t bytes_of(Stored stored) {
  return stored == Stored::kI64 ? 8 : stored == Stored::kF16 || stored == Stored::kBf16 ? 2 : 4;
}
// The tensor's type: 16 bits become FP32, which holds all their values, and i64 (counters) i32.
constexpr DType dtype_of(Stored stored) {
  if (stored == Stored::kU32) return DType::kU32;
  return stored == Stored::kI32 || stored == Stored::kI64 ? DType::kI32 : DType::kF32;
}
// Whether a tensor has the bytes of the file.
constexpr bool is_kept(Stored stored) {
  return stored == Stored::kF32 || stored == Stored::kI32 || stored == Stored::kU32;
}

// IEEE 754's binary16.
inline float fp16_value(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16, exponent = bits >> 10 & 31u,
                      fraction = bits & 0x3ffu;
  if (exponent == 0)  // zero and subnormal numbers
    return std::copysign(std::ldexp(static_cast<float>(fraction), -24), sign != 0 ? -1.0f : 1.0f);
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

// The nearest number of that format, of two the one whose last bit is 0: infinity beyond 65,504.
inline std::uint16_t fp16_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return sign | 0x7e00u;  // NaN
  // Rounded as an integer multiple of the smallest step of its magnitude.
  const int exponent = std::max(static_cast<int>(size >> 23) - 127, -14);
  if (exponent > 15) return sign | 0x7c00u;
  const float steps = std::nearbyint(std::ldexp(std::fabs(x), 10 - exponent));
  const int whole = static_cast<int>(steps) + (exponent + 14) * 1024;
  return static_cast<std::uint16_t>(sign | std::min(whole, 0x7c00));
}
// Likewise; unlike what a processor's BF16 instructions read, it has subnormal numbers.
inline std::uint16_t stored_bf16_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

inline std::int64_t i64_at(const void* from) {
  std::int64_t value = 0;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// The number at `from` as that of a tensor of dtype_of(stored). False: an i64 that does not fit.
inline bool store(Stored stored, const void* from, Tensor& to, std::int64_t index) {
  const auto at = static_cast<std::size_t>(index);
  if (is_kept(stored)) {
    std::memcpy(static_cast<std::byte*>(to.data()) + 4 * at, from, 4);
    return true;
  }
  if (stored == Stored::kI64) {
    const std::int64_t value = i64_at(from);
    if (!std::in_range<std::int32_t>(value)) return false;
    to.i32()[at] = static_cast<std::int32_t>(value);
    return true;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof(bits));
  to.f32()[at] = stored == Stored::kF16 ? fp16_value(bits) : bf16_value(bits);
  return true;
}

}  // namespace podium
