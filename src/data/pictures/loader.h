// The loader: returns the examples of a step as floats. Batch `step` is a pure function of (seed,
// step):
//
//   epoch = step / steps_per_epoch(), with the remainder of an epoch dropped
//   example k of the batch = epoch_order(seed, epoch)[(step mod steps_per_epoch()) * batch + k]
//   values = its pixels normalised (data/pictures/normalise.h) and augmented
//   (data/pictures/augment.h), which is a
//            function of (seed, epoch, example)
//
// Resuming therefore needs no saved state, and every worker gets the same bytes for a slice of a
// batch. For batches that other threads prepare in advance, see data/pictures/prefetch.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "data/datasets/dataset.h"
#include "data/pictures/augment.h"
#include "data/pictures/normalise.h"

namespace podium {

struct LoaderOptions {
  std::uint64_t seed = 0;
  std::int64_t batch = 1;  // the global batch
  AugmentOptions augment;
  NormaliseOptions normalise;
};

class Loader {
 public:
  // Throws UserError(kUsage) if the batch is larger than the set or options do not fit it.
  Loader(std::shared_ptr<const Source> set, LoaderOptions options);

  const Source& set() const { return *set_; }
  const LoaderOptions& options() const { return options_; }
  const Normaliser& normaliser() const { return normaliser_; }
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }

  // Writes examples [first, first + n) of the batch of `step` (0-based, over all epochs): images
  // [n, C, H, W] and n labels. Thread-safe; allocates only one order per epoch.
  void examples(std::int64_t step, std::int64_t first, std::int64_t n, float* images,
                std::int32_t* labels) const;

  // Writes the image of example `index` of the set in `epoch`, normalised and augmented.
  void example(std::int64_t epoch, std::int64_t index, float* image) const;

  // Writes examples [first, first + n) of the set in file order, normalised and not augmented: for
  // evaluation.
  void in_order(std::int64_t first, std::int64_t n, float* images, std::int32_t* labels) const;

 private:
  using Order = std::shared_ptr<const std::vector<std::uint32_t>>;
  struct Slot {
    std::int64_t epoch = -1;
    Order order;
  };

  Order order_of(std::int64_t epoch) const;
  // Writes an image, normalised and, with a key, augmented; returns its label.
  std::int32_t make(std::int64_t index, const AugmentKey* key, float* image) const;

  std::shared_ptr<const Source> set_;
  LoaderOptions options_;
  Normaliser normaliser_;
  std::int64_t steps_per_epoch_ = 0;
  std::unique_ptr<const Augmenter> augmenter_;
  bool changes_colours_ = false;

  // The orders of the epochs in use: slot epoch % 2. Workers and prefetchers are never more than
  // one epoch apart in practice; where they are, an order is computed again.
  mutable std::mutex mutex_;
  mutable std::array<Slot, 2> slots_;
};

}  // namespace podium
