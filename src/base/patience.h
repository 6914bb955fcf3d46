// How a thread waits for what another is about to do, such as a worker at a barrier.
#pragma once

#include <chrono>
#include <thread>

namespace podium {

// It spins for a moment, then it yields, both of which cost nobody anything while each thread has a
// core. Where threads are more than cores, which shows in many yields that take long, it sleeps:
// those who yield to each other keep the core from the one that all wait for.
class Patience {
 public:
  // Waits a little. Between calls, the caller looks whether what it waits for has come.
  void wait() {
    if (waits_ <= kSpins + kYields) ++waits_;
    if (waits_ <= kSpins) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
      return;
    }
    if (is_crowded()) return std::this_thread::sleep_for(kSleep);
    const Clock::time_point begin = Clock::now();
    std::this_thread::yield();
    if (Clock::now() - begin > kLongYield) ++long_yields_;
  }
  // Whether a thread that waits for work, and can be woken, should let itself be woken.
  bool is_spent() const { return is_crowded() || waits_ > kSpins + kYields; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kSpins = 500, kYields = 2000, kLongYields = 16;
  static constexpr Clock::duration kLongYield = std::chrono::microseconds(2),
                                   kSleep = std::chrono::microseconds(50);
  bool is_crowded() const { return long_yields_ >= kLongYields; }
  int waits_ = 0, long_yields_ = 0;
};

}  // namespace podium
