// The loader: returns the examples of a step. Batch `step` is a pure function of (seed, step):
//
//   epoch = step / steps_per_epoch(), with the remainder of an epoch dropped
//   place = (step mod steps_per_epoch()) * batch + k, of example k of the batch
//   kShuffled  the example is epoch_order(seed, epoch)[place] (data/source/shuffle.h)
//   kPermuted  the example is permuted(seed, epoch, examples, place), likewise
//   kStreams   the example is k * steps_per_epoch() + step mod steps_per_epoch()
//
// Where examples are filled up to one of several lengths (Source::bucket_lengths()), those of a
// batch have one: examples are taken in the epoch's order, each joins the batch of its length, and
// a batch is the next step as soon as it is full. Those that are not full when the epoch ends are
// dropped.
//
// Resuming therefore needs no saved state, and every worker gets the same bytes for a slice of a
// batch. For batches that other threads prepare in advance, see data/source/prefetch.h.
#pragma once

#include <array>
#include <cstddef>
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
  // Throws UserError(kUsage) if the batch is larger than the set, or than each of its buckets.
  Loader(std::shared_ptr<const Source> set, LoaderOptions options = {});

  const Source& set() const { return *set_; }
  // As evaluation sees them: filled up to the greatest length.
  const std::vector<Field>& fields() const { return buckets_.back().fields; }
  // How many lengths there are, from the least; at least 1.
  std::size_t buckets() const { return buckets_.size(); }
  const std::vector<Field>& fields(std::size_t bucket) const { return buckets_[bucket].fields; }
  // That of the batch of `step`. Thread-safe.
  std::size_t bucket_of(std::int64_t step) const;
  const LoaderOptions& options() const { return options_; }
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }

  // Writes examples [first, first + n) of the batch of `step` (0-based, over all epochs), each
  // field as [n, ...], of the shape in its bucket. Thread-safe; allocates one order per epoch, and
  // room for an example that is cut.
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
  // The fields of one length, and the bytes of each.
  struct Bucket {
    std::vector<Field> fields;
    std::vector<std::int64_t> bytes;
  };
  struct Epoch {
    std::vector<std::uint32_t> examples;  // in the order of their batches
    std::vector<std::uint8_t> buckets;    // of each batch; empty: there is one
  };
  using Order = std::shared_ptr<const Epoch>;
  struct Slot {
    std::int64_t epoch = -1;
    Order order;
  };

  void count_buckets();
  Epoch make_order(std::int64_t epoch) const;
  Order order_of(std::int64_t epoch) const;
  void read(std::int64_t index, const ExampleKey* key, std::int64_t row, const Bucket& bucket,
            FieldMemory to) const;

  std::shared_ptr<const Source> set_;
  LoaderOptions options_;
  std::vector<Bucket> buckets_;
  std::int64_t steps_per_epoch_ = 0;

  // The orders of the epochs in use: slot epoch % 2. Workers and prefetchers are never more than
  // one epoch apart in practice; where they are, an order is computed again.
  mutable std::mutex mutex_;
  mutable std::array<Slot, 2> slots_;
};

}  // namespace podium
