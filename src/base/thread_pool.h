// A few threads that share out the parts of one kernel after another (run), or of which each does
// its own part of a job (run_on_each). Made for work of microseconds: waiting threads spin briefly
// before they sleep.
//
// A pool may have guests besides: threads that belong to somebody else and, where they have nothing
// of their own to do, ask for a part of whatever the pool is running. While nobody asks, a pool of
// one thread runs its parts in a plain loop; once somebody has, what is left of them is open.
//
// The caller takes parts from the front, all others from the back: where a job is several pieces of
// work one after the other, they begin with different ones, and whoever has begun one goes on with
// it, near what it has in its caches.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace podium {

// Starts serve(1), ..., serve(count - 1), each on a thread of its own. Where the system starts no
// further one, stop() is called, which ends and joins those there are, and UserError (kMemory)
// thrown.
void start_threads(std::vector<std::thread>& threads, std::int64_t count,
                   const std::function<void(std::int64_t)>& serve,
                   const std::function<void()>& stop);

// The cores that this process may use, at least 1.
int usable_cores();
// The most threads of one kind that a person may ask for: far more than cores would only wait for
// each other, and each has memory of its own.
int most_threads();

// Calls work(i) for i in [0, count) on at most so many threads, the caller's among them, in any
// order: for work that waits, such as for disks and servers. The first exception ends it and is
// thrown.
void for_each_at_once(std::int64_t count, int most_threads,
                      const std::function<void(std::int64_t)>& work);

class ThreadPool {
 public:
  // `threads` counts the caller of run(): a pool of one has no thread of its own.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(helpers_.size()) + 1; }

  // Calls work(part, thread) for every part in [0, parts), on any thread and in any order (in this
  // one where a pool is of one thread and nobody asks); returns when all are done. Threads are
  // numbered from 0, guests after the pool's own. The first exception thrown by a part is rethrown
  // here.
  void run(int parts, const std::function<void(int part, int thread)>& work);

  // Calls work(thread) once on every thread, each for its own number; returns when all have
  // returned. The first exception is rethrown. Where a thread throws, `on_failure` is called on it:
  // it lets go those that wait for that thread. Neither threads nor guests may be in run().
  void run_on_each(const std::function<void(int thread)>& work,
                   const std::function<void()>& on_failure = {});

  // As guest `guest`, a number from 0 that one thread uses at a time: runs a part of the job that
  // is open to others, if there is one, and says whether it did; otherwise asks for one to be open:
  // the rest of what runs, or the next job.
  bool help(int guest);

 private:
  bool take_part(int thread);
  void call_on(int thread);
  void keep_error();  // the exception that is being handled, where it is the first
  void serve(int thread);
  void stop();  // joins all

  std::vector<std::thread> helpers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  // Of the last job opened, the parts that nobody has taken: one word, so that one exchange takes a
  // part, and of which job is never in doubt.
  std::atomic<std::uint64_t> job_{0};
  std::atomic<int> finished_by_others_{0};
  std::atomic<bool> asked_{false};
  bool stop_ = false;  // under mutex_, as error_
  const std::function<void(int, int)>* work_ = nullptr;
  // Of run_on_each: how many there have been, threads that are still in the last one.
  std::atomic<std::uint64_t> round_{0};
  std::atomic<int> in_round_{0};
  const std::function<void(int)>* each_ = nullptr;
  const std::function<void()>* on_failure_ = nullptr;
  std::exception_ptr error_;
};

}  // namespace podium
