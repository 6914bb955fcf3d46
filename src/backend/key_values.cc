#include "backend/key_values.h"

#include <thread>

#include "base/clock.h"

namespace podium {

std::optional<std::string> KeyValues::get(const std::string& key,
                                          std::chrono::milliseconds longest) {
  const Clock::time_point end = Clock::now() + longest;
  while (true) {
    if (auto value = find(key)) return value;
    if (Clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace podium
