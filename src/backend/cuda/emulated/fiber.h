// A stack that can be left and entered again: how the emulation runs the threads of a block, which
// wait for each other, on one thread of the processor. Works under AddressSanitizer and
// ThreadSanitizer; to the latter, each fiber is a thread.
#pragma once

#include <functional>
#include <memory>

namespace podium::cuda_emulated {

class Fiber {
 public:
  // `body` must not return, and runs when resume() is first called.
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Enters the fiber; returns when it calls suspend().
  void resume();
  // Called on the fiber.
  void suspend();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What ThreadSanitizer must know of the barriers: all that a thread did before release(p) happened
// before what another does after acquire(p).
void release(void* p);
void acquire(void* p);
// Whether each thread of a block is a thread to the sanitizer, so that none may use the stack of
// another.
bool fibers_are_threads();

}  // namespace podium::cuda_emulated
