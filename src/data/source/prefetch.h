// Batches made ahead by other threads: a ring of ready batches, for where making one costs enough
// (augmentation) that a step would wait for it. The bytes are the Loader's own: a prefetcher
// changes when a batch is made, never what is in it.
// Training uses it where threads are set aside for input (Placement::input_threads).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "data/source/loader.h"
#include "tensor/tensor.h"

namespace podium {

// Examples that a thread makes before it asks for more: few enough to share out the first batch, so
// many that asking costs nothing.
inline constexpr std::int64_t kPrefetchedAtOnce = 8;

struct PrefetchOptions {
  std::int64_t first_step = 0;  // the first batch to make,
  std::int64_t end_step = 0;    // and the one after the last
  int threads = 1;              // they share out the examples of a batch
  int depth = 2;                // batches in the ring: made, being made, or in use; at least 1
  // The examples of each batch that are made; 0: all of them.
  std::int64_t first_example = 0, examples = 0;
  int readers = 1;  // how many times each batch is waited for and released: the workers
  // Of a reader: once it has waited so long, a warning says so, and again after twice the time. A
  // disk that answers late ends no run.
  double patience_seconds = 10;
};

class Prefetcher {
 public:
  struct Batch {
    // [examples, ...] of each; where the batch has a shorter length, less of it is filled.
    std::vector<Tensor> fields;
  };

  Prefetcher(std::shared_ptr<const Loader> loader, PrefetchOptions options);
  ~Prefetcher();  // stops; no reader may be waiting
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The batch of `step`, once it is made. Each of the readers calls this for every step in order,
  // and release() when it needs the batch no longer; thread-safe.
  const Batch& wait(std::int64_t step);
  void release(std::int64_t step);

  // Time that readers spent blocked in wait(), summed over them.
  double seconds_waited() const { return 1e-9 * static_cast<double>(nanoseconds_waited_.load()); }

 private:
  struct Slot {
    std::int64_t step = -1;   // the one that it is for
    std::int64_t unmade = 0;  // examples
    int releases = 0;
    Batch batch;
  };

  Slot& slot_of(std::int64_t step) {
    return slots_[static_cast<std::size_t>(step % options_.depth)];
  }
  void work(const std::stop_token& stop);

  std::shared_ptr<const Loader> loader_;
  PrefetchOptions options_;
  std::vector<Slot> slots_;
  // The next examples that no thread has taken.
  std::int64_t next_step_, next_example_ = 0;
  std::exception_ptr error_;
  std::pair<std::int64_t, double> warned_of_ = {-1, 0};  // step, patience
  std::mutex mutex_;
  std::condition_variable_any made_, freed_;
  std::atomic<std::int64_t> nanoseconds_waited_ = 0;
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

}  // namespace podium
