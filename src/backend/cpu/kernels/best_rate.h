// How roofs are measured.
#pragma once

#include <algorithm>
#include <chrono>

namespace podium::cpu {

// The best of the rates of `work` (which returns how much it did) over about 20 ms.
template <typename Work>
double best_rate(const Work& work) {
  using Clock = std::chrono::steady_clock;
  double best = 0;
  const auto end = Clock::now() + std::chrono::milliseconds(20);
  while (Clock::now() < end) {
    const auto begin = Clock::now();
    const double amount = work();
    best = std::max(best, amount / std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

}  // namespace podium::cpu
