#include "trust/verify_plan.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "base/error.h"

namespace podium {
namespace {

// std::uniform_int_distribution differs between libraries, and the numbers of this one do not.
std::uint64_t below(std::mt19937_64& random, std::uint64_t n) {
  const std::uint64_t whole = random.max() - random.max() % n;
  std::uint64_t word = random();
  while (word >= whole) word = random();
  return word % n;
}

}  // namespace

std::int64_t VerifyPlan::steps() const {
  std::int64_t all = 0;
  for (const Walk& walk : walks) all += walk.to - walk.from;
  return all;
}

std::vector<std::int64_t> draw(std::vector<std::int64_t> items, std::int64_t count,
                               std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::size_t kept =
      std::min(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)), items.size());
  for (std::size_t i = 0; i < kept; ++i)
    std::swap(items[i], items[i + below(random, items.size() - i)]);
  items.resize(kept);
  std::ranges::sort(items);
  return items;
}

VerifyPlan draw_steps(const std::vector<std::int64_t>& steps,
                      const std::vector<std::int64_t>& starts, std::int64_t count,
                      std::uint64_t seed) {
  VerifyPlan plan;
  plan.drawn = draw(steps, count, seed);
  for (const std::int64_t step : plan.drawn) {
    const auto after = std::ranges::lower_bound(starts, step);
    PODIUM_CHECK(after != starts.begin(), "a step before the first state that is known");
    const std::int64_t from = *(after - 1);
    if (plan.walks.empty() || plan.walks.back().from != from) plan.walks.push_back({from, step});
    plan.walks.back().to = step;
  }
  return plan;
}

double mean_steps(const std::vector<std::int64_t>& steps, const std::vector<std::int64_t>& starts,
                  std::int64_t count) {
  constexpr int kDrawings = 64;
  double sum = 0;
  for (int drawing = 0; drawing < kDrawings; ++drawing)
    sum += static_cast<double>(
        draw_steps(steps, starts, count, static_cast<std::uint64_t>(drawing)).steps());
  return sum / kDrawings;
}

std::int64_t count_for(const std::vector<std::int64_t>& steps,
                       const std::vector<std::int64_t>& starts, std::int64_t most) {
  std::int64_t fits = 0, too_many = std::ssize(steps) + 1;
  while (too_many - fits > 1) {
    const std::int64_t middle = fits + (too_many - fits) / 2;
    if (mean_steps(steps, starts, middle) <= static_cast<double>(most))
      fits = middle;
    else
      too_many = middle;
  }
  return fits;
}

double chance_of_finding(std::int64_t all, std::int64_t drawn, std::int64_t wrong) {
  double missed = 1;
  for (std::int64_t i = 0; i < drawn; ++i) {
    if (all - wrong - i <= 0) return 1;
    missed *= static_cast<double>(all - wrong - i) / static_cast<double>(all - i);
  }
  return 1 - missed;
}

}  // namespace podium
