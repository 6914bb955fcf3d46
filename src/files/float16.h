// Half precision, as files have it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace podium {

// IEEE 754's binary16 in FP32, which holds all its values.
inline float float_of_fp16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16, exponent = bits >> 10 & 31u,
                      fraction = bits & 0x3ffu;
  if (exponent == 0)  // zero and subnormal numbers
    return std::copysign(std::ldexp(static_cast<float>(fraction), -24), sign != 0 ? -1.0f : 1.0f);
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

}  // namespace podium
