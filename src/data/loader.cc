#include "data/loader.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/shuffle.h"

namespace podium {
namespace {

// Examples lie anywhere in memory: each is asked for this many before its turn.
constexpr std::int64_t kAhead = 4;

void touch(const std::uint8_t* bytes, std::int64_t n) {
  constexpr std::int64_t kCacheLine = 64;
  for (std::int64_t i = 0; i < n; i += kCacheLine) __builtin_prefetch(bytes + i);
}

}  // namespace

Loader::Loader(std::shared_ptr<const ImageSet> set, LoaderOptions options)
    : set_(std::move(set)),
      options_(std::move(options)),
      normaliser_(options_.normalise, set_->channels, set_->height, set_->width) {
  PODIUM_CHECK(set_->pixels.size() == static_cast<std::size_t>(set_->count * set_->image_bytes()));
  PODIUM_REQUIRE(options_.batch >= 1 && options_.batch <= set_->count, ExitCode::kUsage,
                 "[loader] batch is ", options_.batch, ", but the training set has ", set_->count,
                 " examples (", set_->source, "); the batch must be between 1 and that number");
  PODIUM_CHECK(set_->labels.empty() || std::ssize(set_->labels) == set_->count, set_->source);
  PODIUM_CHECK(
      std::ranges::all_of(set_->labels, [&](std::uint8_t label) { return label < set_->classes; }),
      set_->source);
  steps_per_epoch_ = set_->count / options_.batch;
  if (options_.augment.any()) {
    augmenter_ = std::make_unique<const Augmenter>(options_.augment, set_->channels, set_->height,
                                                   set_->width);
  }
}

Loader::Order Loader::order_of(std::int64_t epoch) const {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[static_cast<std::size_t>(epoch % 2)];
  if (slot.epoch != epoch) {
    slot.order = std::make_shared<const std::vector<std::uint32_t>>(
        epoch_order(options_.seed, epoch, set_->count));
    slot.epoch = epoch;
  }
  return slot.order;
}

void Loader::example(std::int64_t epoch, std::int64_t index, float* image) const {
  if (augmenter_) {
    thread_local std::vector<float> scratch;
    scratch.resize(static_cast<std::size_t>(set_->image_bytes()));
    normaliser_.start(pixels_of(index), scratch.data());
    augmenter_->apply({options_.seed, epoch, index}, scratch.data(), image);
  } else {
    normaliser_.start(pixels_of(index), image);
  }
  normaliser_.finish(image);
}

void Loader::examples(std::int64_t step, std::int64_t first, std::int64_t n, float* images,
                      std::int32_t* labels) const {
  PODIUM_CHECK(!set_->labels.empty(), set_->source);
  PODIUM_CHECK(step >= 0 && first >= 0 && n >= 0 && first + n <= options_.batch, step, " ", first,
               " ", n);
  const std::int64_t epoch = step / steps_per_epoch_;
  const std::int64_t start = (step % steps_per_epoch_) * options_.batch + first;
  const Order order = order_of(epoch);
  const std::int64_t size = set_->image_bytes();
  const std::uint32_t* const chosen = order->data() + start;
  for (std::int64_t k = 0; k < n; ++k) {
    if (k + kAhead < n) touch(pixels_of(chosen[k + kAhead]), size);
    labels[k] = set_->labels[chosen[k]];
    example(epoch, chosen[k], images + k * size);
  }
}

void Loader::in_order(std::int64_t first, std::int64_t n, float* images,
                      std::int32_t* labels) const {
  PODIUM_CHECK(first >= 0 && n >= 0 && first + n <= set_->count, first, " ", n);
  for (std::int64_t k = 0; k < n; ++k) {
    float* const image = images + k * set_->image_bytes();
    normaliser_.start(pixels_of(first + k), image);
    normaliser_.finish(image);
    labels[k] = set_->labels.empty() ? 0 : set_->labels[static_cast<std::size_t>(first + k)];
  }
}

}  // namespace podium
