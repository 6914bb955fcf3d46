// Wall time for measurements; no result depends on it.
#pragma once

#include <chrono>

namespace podium {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace podium
