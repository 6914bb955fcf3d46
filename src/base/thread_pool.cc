#include "base/thread_pool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/patience.h"

namespace podium {
namespace {

// A job's word: the parts [first, last) that nobody has taken, `last` in the upper half, `first` in
// the lower.
constexpr std::uint64_t open_job(int first, int last) {
  return static_cast<std::uint64_t>(last) << 32 | static_cast<std::uint32_t>(first);
}
constexpr int first_part(std::uint64_t job) { return static_cast<int>(job & 0xffffffff); }
constexpr int last_part(std::uint64_t job) { return static_cast<int>(job >> 32); }
constexpr bool is_open(std::uint64_t job) { return first_part(job) < last_part(job); }

}  // namespace

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const bool known = ::sched_getaffinity(0, sizeof set, &set) == 0;
  return std::max(known ? CPU_COUNT(&set) : static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)), 1);
}

int most_threads() { return std::max(64, 4 * usable_cores()); }

void start_threads(std::vector<std::thread>& threads, std::int64_t count,
                   const std::function<void(std::int64_t)>& serve,
                   const std::function<void()>& stop) {
  try {
    for (std::int64_t i = 1; i < count; ++i) threads.emplace_back(serve, i);
  } catch (const std::system_error& error) {
    const std::size_t running = threads.size() + 1;
    stop();
    throw UserError(cat("the system starts no further thread beside ", running,
                        " of the kind: ", error.code().message(),
                        "; take fewer with --workers or --threads, or raise the limit on processes "
                        "and threads (ulimit -u, or the container's)"),
                    ExitCode::kMemory);
  }
}

ThreadPool::ThreadPool(int threads) {
  start_threads(
      helpers_, threads, [this](std::int64_t i) { serve(static_cast<int>(i)); },
      [this] { stop(); });
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

bool ThreadPool::take_part(int thread) {
  std::uint64_t job = job_.load(std::memory_order_relaxed), rest;
  int part;
  do {
    if (!is_open(job)) return false;
    const int first = first_part(job), last = last_part(job);
    part = thread == 0 ? first : last - 1;
    rest = thread == 0 ? open_job(first + 1, last) : open_job(first, last - 1);
  } while (
      !job_.compare_exchange_weak(job, rest, std::memory_order_acq_rel, std::memory_order_relaxed));
  try {
    (*work_)(part, thread);
  } catch (...) {
    keep_error();
  }
  return true;
}

void ThreadPool::keep_error() {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::current_exception();
}

void ThreadPool::call_on(int thread) {
  try {
    (*each_)(thread);
  } catch (...) {
    keep_error();
    if (*on_failure_) (*on_failure_)();
  }
}

void ThreadPool::run_on_each(const std::function<void(int)>& work,
                             const std::function<void()>& on_failure) {
  {
    const std::lock_guard lock(mutex_);
    each_ = &work;
    on_failure_ = &on_failure;
    error_ = nullptr;
    in_round_.store(static_cast<int>(helpers_.size()), std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
  }
  if (!helpers_.empty()) wake_.notify_all();
  call_on(0);
  for (Patience patience; in_round_.load(std::memory_order_acquire) != 0;) patience.wait();
  if (error_) std::rethrow_exception(error_);
}

void ThreadPool::run(int parts, const std::function<void(int, int)>& work) {
  int next = 0;
  const auto alone = [&] { return helpers_.empty() && !asked_.load(std::memory_order_relaxed); };
  while (next < parts && (next + 1 == parts || alone())) work(next++, 0);
  if (next == parts) return;
  if (asked_.load(std::memory_order_relaxed)) asked_.store(false, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    error_ = nullptr;
    finished_by_others_.store(0, std::memory_order_relaxed);
    job_.store(open_job(next, parts), std::memory_order_release);
  }
  if (!helpers_.empty()) wake_.notify_all();
  int others = parts - next;
  while (take_part(0)) --others;
  // Who took a part is about to end it: a few microseconds, unless the machine has other work.
  for (Patience patience; finished_by_others_.load(std::memory_order_acquire) != others;)
    patience.wait();
  if (error_) std::rethrow_exception(error_);
}

bool ThreadPool::help(int guest) {
  if (take_part(threads() + guest)) {
    finished_by_others_.fetch_add(1, std::memory_order_release);
    return true;
  }
  if (!asked_.load(std::memory_order_relaxed)) asked_.store(true, std::memory_order_relaxed);
  return false;
}

void ThreadPool::serve(int thread) {
  std::uint64_t rounds = 0;  // that this thread has been in
  for (Patience patience;;) {
    if (take_part(thread)) {
      finished_by_others_.fetch_add(1, std::memory_order_release);
      patience = {};
    } else if (round_.load(std::memory_order_acquire) != rounds) {
      ++rounds;
      call_on(thread);
      in_round_.fetch_sub(1, std::memory_order_release);
      patience = {};
    } else if (!patience.is_spent()) {
      patience.wait();
    } else {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] {
        return stop_ || is_open(job_.load(std::memory_order_relaxed)) ||
               round_.load(std::memory_order_relaxed) != rounds;
      });
      if (stop_) return;
      patience = {};
    }
  }
}

void for_each_at_once(std::int64_t count, int most_threads,
                      const std::function<void(std::int64_t)>& work) {
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> ends{false};
  std::exception_ptr error;
  std::mutex mutex;
  const auto run = [&] {
    while (!ends) {
      const std::int64_t i = next++;
      if (i >= count) return;
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        ends = true;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < std::min<std::int64_t>(most_threads, count); ++i) others.emplace_back(run);
    run();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace podium
