// Signs that this process's work goes on, for whoever would give it up: another rank that awaits
// it. Work that may take long between two steps, and blocks nowhere for ever, notes what it does.
#pragma once

#include <atomic>
#include <cstdint>

namespace podium {

inline std::atomic<std::uint64_t>& progress_counter() {
  static std::atomic<std::uint64_t> count{0};
  return count;
}

inline void note_progress() { progress_counter().fetch_add(1, std::memory_order_relaxed); }
inline std::uint64_t noted_progress() { return progress_counter().load(std::memory_order_relaxed); }

}  // namespace podium
