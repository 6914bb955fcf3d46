#undef _FORTIFY_SOURCE  // its longjmp refuses to change stacks
#include "backend/cuda/emulated/fiber.h"

#include <ucontext.h>

#include <atomic>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/sanitizers.h"

// This file itself is not instrumented for ThreadSanitizer (CMakeLists.txt).
#ifdef PODIUM_FIBER_TSAN
#define PODIUM_THREAD_SANITIZER
#endif
#ifdef PODIUM_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef PODIUM_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace podium::cuda_emulated {
namespace {

#ifdef PODIUM_ADDRESS_SANITIZER
constexpr std::size_t kStackBytes = 320 * 1024;
#else
constexpr std::size_t kStackBytes = 192 * 1024;
#endif

}  // namespace

// ucontext enters a stack for the first time. Then _setjmp and _longjmp switch, since they ask
// nothing of the system; but not under ThreadSanitizer, which follows them.
struct Fiber::State {
  std::function<void()> body;
  std::unique_ptr<char[]> stack;
  std::size_t size = 0;
  ucontext_t inside{};
#ifdef PODIUM_THREAD_SANITIZER
  ucontext_t outside{};
  void* sanitizer_inside = nullptr;
  void* sanitizer_outside = nullptr;
#else
  jmp_buf inside_jump, outside_jump;
  bool started = false;
#endif
#ifdef PODIUM_ADDRESS_SANITIZER
  const void* outside_bottom = nullptr;
  std::size_t outside_size = 0;
#endif

  static void enter(unsigned high, unsigned low) {
    auto* const self = reinterpret_cast<State*>(static_cast<std::uintptr_t>(high) << 32 | low);
#ifdef PODIUM_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(nullptr, &self->outside_bottom, &self->outside_size);
#endif
    self->body();
  }
};

Fiber::Fiber(std::function<void()> body) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.body = std::move(body);
  s.stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  // Stacks are multiples of a page apart, and their tops would compete for the same few sets of the
  // caches: each begins at another distance from its end.
  static std::atomic<std::size_t> made{0};
  constexpr std::size_t kColours = 61, kColourBytes = 832;
  s.size = kStackBytes - made++ % kColours * kColourBytes;
  getcontext(&s.inside);
  s.inside.uc_stack.ss_sp = s.stack.get();
  s.inside.uc_stack.ss_size = s.size;
  s.inside.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(state_.get());
  makecontext(&s.inside, reinterpret_cast<void (*)()>(&State::enter), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
#ifdef PODIUM_THREAD_SANITIZER
  s.sanitizer_inside = __tsan_create_fiber(0);
#endif
}

#ifdef PODIUM_THREAD_SANITIZER

Fiber::~Fiber() { __tsan_destroy_fiber(state_->sanitizer_inside); }
void Fiber::resume() {
  constexpr unsigned kNoOrder = 1;
  state_->sanitizer_outside = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(state_->sanitizer_inside, kNoOrder);
  swapcontext(&state_->outside, &state_->inside);
}
void Fiber::suspend() {
  constexpr unsigned kNoOrder = 1;
  __tsan_switch_to_fiber(state_->sanitizer_outside, kNoOrder);
  swapcontext(&state_->inside, &state_->outside);
}
void release(void* p) { __tsan_release(p); }
void acquire(void* p) { __tsan_acquire(p); }
bool fibers_are_threads() { return true; }

#else

Fiber::~Fiber() = default;
void Fiber::resume() {
  State& s = *state_;
#ifdef PODIUM_ADDRESS_SANITIZER
  void* own_frames = nullptr;
  __sanitizer_start_switch_fiber(&own_frames, s.stack.get(), s.size);
#endif
  if (_setjmp(s.outside_jump) == 0) {
    if (std::exchange(s.started, true)) _longjmp(s.inside_jump, 1);
    setcontext(&s.inside);
  }
#ifdef PODIUM_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(own_frames, nullptr, nullptr);
#endif
}
void Fiber::suspend() {
  State& s = *state_;
#ifdef PODIUM_ADDRESS_SANITIZER
  void* own_frames = nullptr;
  __sanitizer_start_switch_fiber(&own_frames, s.outside_bottom, s.outside_size);
#endif
  if (_setjmp(s.inside_jump) == 0) _longjmp(s.outside_jump, 1);
#ifdef PODIUM_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(own_frames, &s.outside_bottom, &s.outside_size);
#endif
}
void release(void* /*p*/) {}
void acquire(void* /*p*/) {}
bool fibers_are_threads() { return false; }

#endif

}  // namespace podium::cuda_emulated
