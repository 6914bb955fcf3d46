#include "data/source/shuffle.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/numerics/philox.h"

namespace podium {

std::vector<std::uint32_t> epoch_order(std::uint64_t seed, std::int64_t epoch, std::int64_t count) {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  PODIUM_CHECK(epoch >= 0 && epoch <= kMost && count >= 0 && count <= kMost, epoch, " ", count);
  std::vector<std::uint32_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0u);
  const PhiloxStream stream(seed, RandomPurpose::kShuffle);
  const auto last = static_cast<std::uint32_t>(count == 0 ? 0 : count - 1);
  PhiloxBlock block = stream.block(last / 4, static_cast<std::uint32_t>(epoch));
  for (std::uint32_t i = last; i >= 1; --i) {
    if (i % 4 == 3) block = stream.block(i / 4, static_cast<std::uint32_t>(epoch));
    std::swap(order[i], order[uniform_below(block[i % 4], i + 1)]);
  }
  return order;
}

std::int64_t permuted(std::uint64_t seed, std::int64_t epoch, std::int64_t count,
                      std::int64_t place) {
  constexpr std::uint32_t kRounds = 6;
  PODIUM_CHECK(epoch >= 0 && epoch <= std::numeric_limits<std::uint32_t>::max() && place >= 0 &&
                   place < count && count <= std::int64_t{1} << 62,
               epoch, " ", count, " ", place);
  const PhiloxStream stream(seed, RandomPurpose::kPermute);
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count - 1)));
  const int half = std::max(1, (bits + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  auto at = static_cast<std::uint64_t>(place);
  do {
    std::uint64_t left = at >> half, right = at & mask;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const std::uint32_t word = stream.block(static_cast<std::uint32_t>(right),
                                              static_cast<std::uint32_t>(epoch), round)[0];
      left = std::exchange(right, left ^ (word & mask));
    }
    at = left << half | right;
  } while (at >= static_cast<std::uint64_t>(count));
  return static_cast<std::int64_t>(at);
}

}  // namespace podium
