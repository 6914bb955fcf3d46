// An image that goes on beyond its edges, mirrored at the centres of its edge pixels ("reflect" of
// other libraries; the edge itself is not repeated): 2 1 | 0 1 2 3 | 2 1.
#pragma once

#include <cstdint>

namespace podium {

// Which pixel of 0..n-1 stands at `i`; -n < i < 2n - 1.
constexpr std::int64_t reflected(std::int64_t i, std::int64_t n) {
  if (i < 0) return -i;
  return i < n ? i : 2 * (n - 1) - i;
}

}  // namespace podium
