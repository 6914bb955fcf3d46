#include "data/source/shuffle.h"

#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/philox.h"

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

}  // namespace podium
