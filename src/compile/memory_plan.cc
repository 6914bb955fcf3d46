#include "compile/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace podium {
namespace {
constexpr std::int64_t kAlignment = 64;
}

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes) {
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  MemoryPlan plan;
  plan.offsets.resize(lifetimes.size());
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t index : order) {
    const Lifetime& life = lifetimes[index];
    const std::int64_t bytes = (life.bytes + kAlignment - 1) / kAlignment * kAlignment;
    std::int64_t offset = 0;
    for (const std::size_t other : placed) {
      const Lifetime& taken = lifetimes[other];
      if (taken.last < life.first || life.last < taken.first) continue;
      if (offset + bytes <= plan.offsets[other]) break;
      offset = std::max(
          offset, plan.offsets[other] + (taken.bytes + kAlignment - 1) / kAlignment * kAlignment);
    }
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    placed.insert(std::ranges::upper_bound(placed, offset, {},
                                           [&](std::size_t i) { return plan.offsets[i]; }),
                  index);
  }
  return plan;
}

}  // namespace podium
