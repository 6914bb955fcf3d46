// The precision of a recipe, and the orders in which hardware adds products of BF16 operands.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace podium {

// How hardware adds the products of BF16 operands (docs/numerics.md, BF16; base/numerics/bf16.h,
// base/numerics/tensor_core.h). Each is a contract of its own.
enum class Bf16Order : std::uint8_t { kAmx, kVdpbf16ps, kAmpere, kHopper };

inline constexpr std::array kBf16Orders = {Bf16Order::kAmx, Bf16Order::kVdpbf16ps,
                                           Bf16Order::kAmpere, Bf16Order::kHopper};
// As recipes name them, in the order of kBf16Orders.
inline constexpr std::array<std::string_view, 4> kBf16OrderNames = {"amx", "vdpbf16ps", "ampere",
                                                                    "hopper"};
constexpr std::string_view name_of(Bf16Order order) {
  return kBf16OrderNames[static_cast<std::size_t>(order)];
}

// A tensor core's. Its terms lie in another order, and long sums are cut.
constexpr bool is_tensor_core(Bf16Order order) {
  return order == Bf16Order::kAmpere || order == Bf16Order::kHopper;
}

// By its name; none for any other word.
constexpr std::optional<Bf16Order> bf16_order_named(std::string_view name) {
  for (const Bf16Order order : kBf16Orders)
    if (name_of(order) == name) return order;
  return std::nullopt;
}

// Of the operands of convolutions and matrix products, and of images between operations; sums and
// all else are FP32.
struct Precision {
  // How their products are added, if they are BF16; none: they are FP32.
  std::optional<Bf16Order> bf16 = std::nullopt;
  bool operator==(const Precision&) const = default;
};

}  // namespace podium
