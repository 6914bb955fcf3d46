// A few of many, evenly chosen.
#pragma once

#include <cstdint>

namespace podium {

// The i-th, i from 0 on, of `n` numbers that lie evenly in [0, count); n is at most `count`.
constexpr std::int64_t spread_over(std::int64_t count, std::int64_t n, std::int64_t i) {
  return i * count / n;
}

}  // namespace podium
