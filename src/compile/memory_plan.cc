#include "compile/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace podium {
namespace {
constexpr std::int64_t kAlignment = 64;

// Values that follow one another in one place: the first of them, for each value.
std::vector<std::size_t> first_of_place(const std::vector<Lifetime>& lifetimes) {
  std::vector<std::size_t> first(lifetimes.size()), order(lifetimes.size());
  std::iota(first.begin(), first.end(), std::size_t{0});
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return lifetimes[a].first < lifetimes[b].first; });
  std::vector<bool> taken(lifetimes.size(), false);
  for (const std::size_t index : order) {
    const Lifetime& life = lifetimes[index];
    for (const std::size_t other : life.may_take) {
      if (taken[other] || lifetimes[other].last != life.first ||
          lifetimes[other].first >= life.first || lifetimes[other].bytes != life.bytes)
        continue;
      taken[other] = true;
      first[index] = first[other];
      break;
    }
  }
  return first;
}

}  // namespace

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes) {
  const std::vector<std::size_t> first = first_of_place(lifetimes);
  std::vector<Lifetime> places = lifetimes;  // those of the first of each
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    if (first[i] == i) order.push_back(i);
    places[first[i]].last = std::max(places[first[i]].last, lifetimes[i].last);
  }
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return places[a].bytes > places[b].bytes; });

  MemoryPlan plan;
  plan.offsets.resize(lifetimes.size());
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t index : order) {
    const Lifetime& life = places[index];
    const std::int64_t bytes = (life.bytes + kAlignment - 1) / kAlignment * kAlignment;
    std::int64_t offset = 0;
    for (const std::size_t other : placed) {
      const Lifetime& taken = places[other];
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
  for (std::size_t i = 0; i < lifetimes.size(); ++i) plan.offsets[i] = plan.offsets[first[i]];
  return plan;
}

}  // namespace podium
