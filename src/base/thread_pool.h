// A few threads that share out the parts of one kernel after another. Made for work of
// microseconds: waiting threads spin briefly before they sleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace podium {

class ThreadPool {
 public:
  // `threads` counts the caller of run(): a pool of one has no thread of its own.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(helpers_.size()) + 1; }

  // Calls work(part, thread) for every part in [0, parts), on any thread and in any order; returns
  // when all are done. The first exception thrown by a part is rethrown here.
  void run(int parts, const std::function<void(int part, int thread)>& work);

 private:
  void help(int thread);
  void take_parts(int thread);

  std::vector<std::thread> helpers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<std::uint64_t> job_{0};
  std::atomic<int> next_{0};
  std::atomic<int> busy_{0};
  std::atomic<bool> stop_{false};
  int parts_ = 0;
  const std::function<void(int, int)>* work_ = nullptr;
  std::exception_ptr error_;
};

}  // namespace podium
