// The loader: returns the examples of a step. Batch `step` is a pure function of (seed, step):
//
//   epoch = step / steps_per_epoch(), with the remainder of an epoch dropped
//   place = (step mod steps_per_epoch()) * batch + k, of example k of the batch
//   kShuffled  the example is epoch_order(seed, epoch)[place] (data/source/shuffle.h)
//   kPermuted  the example is permuted(seed, epoch, examples, place), likewise
//   kStreams   the example is k * steps_per_epoch() + step mod steps_per_epoch()
//
// Resuming therefore needs no saved state, and every worker gets the same bytes for a slice of a
// batch. For batches that other threads prepare in advance, see data/source/prefetch.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "data/source/source.h"

namespace podium {

struct LoaderOptions {
  std::uint64_t seed = 0;
  std::int64_t batch = 1;  // the global batch
};

class Loader {
 public:
  // Throws UserError(kUsage) if the batch is larger than the set.
  Loader(std::shared_ptr<const Source> set, LoaderOptions options = {});

  const Source& set() const { return *set_; }
  const std::vector<Field>& fields() const { return fields_; }
  const LoaderOptions& options() const { return options_; }
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }

  // Writes examples [first, first + n) of the batch of `step` (0-based, over all epochs), each
  // field as [n, ...]. Thread-safe; allocates only one order per epoch.
  void examples(std::int64_t step, std::int64_t first, std::int64_t n, FieldMemory to) const;

  // Whether the rows of that batch begin anew: they do not go on where those of the step before
  // ended. So it is in the first step of an epoch, and always where they are no streams.
  bool begins(std::int64_t step) const {
    return set_->order() != VisitOrder::kStreams || step % steps_per_epoch_ == 0;
  }

  // Writes example `index` of the set as row `row` of the fields, as evaluation sees it.
  void example(std::int64_t index, std::int64_t row, FieldMemory to) const;
  // Writes examples [first, first + n) of the set in its own order, as evaluation sees them.
  void in_order(std::int64_t first, std::int64_t n, FieldMemory to) const;

 private:
  using Order = std::shared_ptr<const std::vector<std::uint32_t>>;
  struct Slot {
    std::int64_t epoch = -1;
    Order order;
  };

  Order order_of(std::int64_t epoch) const;
  void read(std::int64_t index, const ExampleKey* key, std::int64_t row, FieldMemory to) const;

  std::shared_ptr<const Source> set_;
  LoaderOptions options_;
  std::vector<Field> fields_;
  std::vector<std::int64_t> bytes_;  // of each field
  std::int64_t steps_per_epoch_ = 0;

  // The orders of the epochs in use: slot epoch % 2. Workers and prefetchers are never more than
  // one epoch apart in practice; where they are, an order is computed again.
  mutable std::mutex mutex_;
  mutable std::array<Slot, 2> slots_;
};

}  // namespace podium
