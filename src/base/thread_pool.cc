#include "base/thread_pool.h"

#include <exception>

namespace podium {
namespace {
constexpr int kSpins = 2000;
}

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) helpers_.emplace_back([this, i] { help(i); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    ++job_;
  }
  wake_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadPool::take_parts(int thread) {
  for (int part = next_++; part < parts_; part = next_++) {
    try {
      (*work_)(part, thread);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }
}

void ThreadPool::run(int parts, const std::function<void(int, int)>& work) {
  if (helpers_.empty() || parts <= 1) {
    for (int part = 0; part < parts; ++part) work(part, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    parts_ = parts;
    work_ = &work;
    error_ = nullptr;
    next_ = 0;
    busy_ = static_cast<int>(helpers_.size());
    ++job_;
  }
  wake_.notify_all();
  take_parts(0);
  while (busy_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  if (error_) std::rethrow_exception(error_);
}

void ThreadPool::help(int thread) {
  std::uint64_t seen = 0;
  while (true) {
    for (int spin = 0; spin < kSpins && job_.load(std::memory_order_acquire) == seen; ++spin)
      std::this_thread::yield();
    if (job_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return job_.load() != seen; });
    }
    {
      // Orders this thread after the caller's writes of the job.
      const std::lock_guard lock(mutex_);
      seen = job_.load();
      if (stop_) return;
    }
    take_parts(thread);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace podium
