// The tree of every sum whose parts are computed apart:
//   sum(lo, hi) = sum(lo, mid) + sum(mid, hi),  mid - lo = the largest power of two below hi - lo.
// For eight parts: ((0+1)+(2+3))+((4+5)+(6+7)); for three: (0+1)+2.
#pragma once

#include <bit>
#include <cstdint>

namespace podium {

// Where the tree splits [lo, hi); hi - lo must be at least 2.
constexpr std::int64_t tree_middle(std::int64_t lo, std::int64_t hi) {
  return lo + static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(hi - lo - 1)));
}

// The sum of part(lo) ... part(hi - 1) in tree order; T needs operator+.
template <typename Part>
constexpr auto tree_sum(std::int64_t lo, std::int64_t hi, const Part& part) -> decltype(part(lo)) {
  if (hi - lo == 1) return part(lo);
  const std::int64_t mid = tree_middle(lo, hi);
  const auto left = tree_sum(lo, mid, part);
  const auto right = tree_sum(mid, hi, part);
  return left + right;
}

}  // namespace podium
