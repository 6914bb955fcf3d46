// The sums of NVIDIA's tensor cores (docs/numerics.md, BF16), as they have been found out: one
// instruction adds a group of products to a sum. Each term is cut toward zero to a multiple of one
// power of two, the cut terms are added exactly, and what they make is cut toward zero to FP32.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/numerics/bf16.h"
#include "base/numerics/device_function.h"
#include "base/numerics/precision.h"

namespace podium {

struct TensorCore {
  int group;  // products that are added at once
  int bits;   // below the largest exponent that are kept of a term
  int least;  // a largest exponent below it counts as this one
};
// Of an order that is a tensor core's.
PODIUM_DEVICE_FUNCTION constexpr TensorCore tensor_core_of(Bf16Order order) {
  return order == Bf16Order::kAmpere ? TensorCore{8, 24, -132} : TensorCore{16, 25, -133};
}
inline constexpr int kMostGroup = 16;

// Channels and images come in whole octets, filled up with zeros.
inline constexpr std::int64_t kBf16Octet = 8;
constexpr std::int64_t octets_of(std::int64_t count) {
  return (count + kBf16Octet - 1) / kBf16Octet;
}

// The gradient to weights [outputs][columns], columns being channels and taps, is cut into parts of
// so many runs of terms, which are added to each other in order: a function of the shape alone.
constexpr std::int64_t bf16_part_runs(std::int64_t outputs, std::int64_t columns,
                                      std::int64_t runs) {
  constexpr std::int64_t kBusy = 96, kLeast = 16, kMany = 128;
  const auto part = [&](std::int64_t rows, std::int64_t across) {
    const std::int64_t tiles = ((outputs + rows - 1) / rows) * ((columns + across - 1) / across),
                       most = std::max<std::int64_t>((runs + kLeast - 1) / kLeast, 1),
                       parts = std::clamp<std::int64_t>(kBusy / tiles, 1, most);
    return (runs + parts - 1) / parts;
  };
  if (outputs > 64) return part(128, 256) >= kMany ? part(128, 256) : part(128, 128);
  if (columns <= 32) return part(64, 32);
  return part(outputs > 32 ? 64 : outputs > 16 ? 32 : 16, 128);
}

// A number that is `significand` times 2^exponent; zero and subnormal numbers have the exponent of
// the smallest normal ones.
struct Significand {
  std::int64_t value;
  int exponent;
};
PODIUM_DEVICE_FUNCTION constexpr Significand significand_of(std::uint32_t bits, int fraction) {
  const auto field = static_cast<int>(bits >> fraction & 255u);
  const std::int64_t low = bits & ((1u << fraction) - 1u);
  const std::int64_t value = field == 0 ? low : low | std::int64_t{1} << fraction;
  return {bits >> (fraction + 8) & 1u ? -value : value, field == 0 ? -126 : field - 127};
}

// `value` * 2^`up`, cut toward zero. 0 has no exponent, so `up` may be of any size for it.
PODIUM_DEVICE_FUNCTION constexpr std::int64_t cut(std::int64_t value, int up) {
  if (value == 0) return 0;
  if (up >= 0) return value * (std::int64_t{1} << up);
  if (up <= -62) return 0;
  return value / (std::int64_t{1} << -up);
}

// sum * 2^scale, cut toward zero to FP32; infinity beyond its largest number. `sum` is not 0.
PODIUM_DEVICE_FUNCTION constexpr float cut_to_fp32(std::int64_t sum, int scale) {
  constexpr int kDigits = 24, kLeast = -149;
  std::int64_t magnitude = sum < 0 ? -sum : sum;
  const std::uint32_t sign = sum < 0 ? 0x80000000u : 0u;
  int length = 0;
  for (std::int64_t rest = magnitude; rest != 0; rest >>= 1) ++length;
  const int last = scale + length - kDigits < kLeast ? kLeast : scale + length - kDigits;
  magnitude = cut(magnitude, scale - last);
  const auto digits = static_cast<std::uint32_t>(magnitude);
  if (digits < 1u << (kDigits - 1)) return std::bit_cast<float>(sign | digits);
  const int field = last - kLeast + 1;
  if (field >= 255) return std::bit_cast<float>(sign | 0x7f800000u);
  return std::bit_cast<float>(sign | static_cast<std::uint32_t>(field) << 23 |
                              (digits & 0x7fffffu));
}

// c and a group's products; term(i, a, b) sets the bits of the BF16 factors of product i.
template <typename Term>
PODIUM_DEVICE_FUNCTION float tensor_core_sum(const TensorCore& core, float c, const Term& term) {
  constexpr std::uint16_t kInfinity = 0x7f80u;
  constexpr int kFractionBf16 = 7, kFractionFp32 = 23;
  Significand products[kMostGroup] = {};
  const auto c_bits = std::bit_cast<std::uint32_t>(c);
  const bool c_special = (c_bits & 0x7f800000u) == 0x7f800000u;
  bool nan = c_special && (c_bits & 0x7fffffu) != 0;
  bool plus = c_special && !nan && c_bits >> 31 == 0,
       minus = c_special && !nan && c_bits >> 31 != 0;
  const Significand start = significand_of(c_bits, kFractionFp32);
  int largest = start.value != 0 && start.exponent > core.least ? start.exponent : core.least;
  for (int i = 0; i < core.group; ++i) {
    std::uint16_t a = 0, b = 0;
    term(i, a, b);
    const auto a_size = static_cast<std::uint16_t>(a & 0x7fffu),
               b_size = static_cast<std::uint16_t>(b & 0x7fffu);
    if (a_size >= kInfinity || b_size >= kInfinity) {
      if (a_size > kInfinity || b_size > kInfinity || a_size == 0 || b_size == 0)
        nan = true;
      else
        ((a ^ b) >> 15 != 0 ? minus : plus) = true;
      continue;
    }
    const Significand x = significand_of(a, kFractionBf16), y = significand_of(b, kFractionBf16);
    products[i] = {x.value * y.value, x.exponent + y.exponent};
    if (products[i].value != 0 && products[i].exponent > largest) largest = products[i].exponent;
  }
  if (nan || (plus && minus)) return std::bit_cast<float>(0x7fffffffu);
  if (plus || minus) return std::bit_cast<float>(plus ? 0x7f800000u : 0xff800000u);
  std::int64_t sum = cut(start.value, start.exponent - largest + core.bits - kFractionFp32);
  for (int i = 0; i < core.group; ++i)
    sum += cut(products[i].value, products[i].exponent - largest + core.bits - 2 * kFractionBf16);
  return sum == 0 ? 0 : cut_to_fp32(sum, largest - core.bits);
}

}  // namespace podium
