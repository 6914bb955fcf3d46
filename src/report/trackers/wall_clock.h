// The time that trackers write.
#pragma once

#include <chrono>

namespace podium {

// Since 1970, in UTC.
inline std::chrono::nanoseconds wall_clock() {
  return std::chrono::system_clock::now().time_since_epoch();
}
inline double wall_seconds() { return std::chrono::duration<double>(wall_clock()).count(); }
inline std::chrono::milliseconds wall_milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(wall_clock());
}

}  // namespace podium
