#include "data/loader.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "data/shuffle.h"

namespace podium {
namespace {

// pixel / 255, correctly rounded, without the division: the quotient by the rounded reciprocal,
// corrected once by its exact remainder (a test covers all 256 values).
inline float over_255(std::uint8_t pixel) {
  constexpr float kReciprocal = 1.0f / 255.0f;
  const float x = static_cast<float>(pixel);
  const float q = x * kReciprocal;
  return std::fma(std::fma(-255.0f, q, x), kReciprocal, q);
}

void widen(const std::uint8_t* pixels, std::int64_t n, float* __restrict out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = over_255(pixels[i]);
}

void widen_and_standardise(const std::uint8_t* pixels, std::int64_t n, float mean, float deviation,
                           float* __restrict out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = (over_255(pixels[i]) - mean) / deviation;
}

// Examples lie anywhere in memory: each is asked for this many before its turn.
constexpr std::int64_t kAhead = 4;

void touch(const std::uint8_t* bytes, std::int64_t n) {
  constexpr std::int64_t kCacheLine = 64;
  for (std::int64_t i = 0; i < n; i += kCacheLine) __builtin_prefetch(bytes + i);
}

}  // namespace

Loader::Loader(std::shared_ptr<const ImageSet> set, LoaderOptions options)
    : set_(std::move(set)), options_(std::move(options)) {
  const auto channels = static_cast<std::size_t>(set_->channels);
  PODIUM_CHECK(set_->pixels.size() == static_cast<std::size_t>(set_->count * set_->image_bytes()));
  PODIUM_REQUIRE(options_.batch >= 1 && options_.batch <= set_->count, ExitCode::kUsage,
                 "[loader] batch is ", options_.batch, ", but the training set has ", set_->count,
                 " examples (", set_->source, "); a batch is between 1 and that");
  PODIUM_REQUIRE((options_.mean.empty() || options_.mean.size() == channels) &&
                     (options_.deviation.empty() || options_.deviation.size() == channels),
                 ExitCode::kUsage, "[loader] ", options_.mean.size(), " means and ",
                 options_.deviation.size(), " deviations are given for images of ", channels,
                 " channels; give one for each channel, or none");
  for (const float deviation : options_.deviation) {
    PODIUM_REQUIRE(deviation > 0, ExitCode::kUsage, "[loader] deviation is ", deviation,
                   "; it divides, and must be above 0");
  }
  plain_ = options_.mean.empty() && options_.deviation.empty();
  options_.mean.resize(channels, 0.0f);
  options_.deviation.resize(channels, 1.0f);
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

void Loader::normalise(std::int64_t example, float* image) const {
  const std::uint8_t* pixels = set_->pixels.data() + example * set_->image_bytes();
  if (plain_) {
    widen(pixels, set_->image_bytes(), image);
    return;
  }
  const std::int64_t plane = set_->height * set_->width;
  for (std::int64_t c = 0; c < set_->channels; ++c) {
    const auto channel = static_cast<std::size_t>(c);
    widen_and_standardise(pixels + c * plane, plane, options_.mean[channel],
                          options_.deviation[channel], image + c * plane);
  }
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
  thread_local std::vector<float> scratch;
  if (augmenter_) scratch.resize(static_cast<std::size_t>(size));
  const std::uint32_t* const chosen = order->data() + start;
  for (std::int64_t k = 0; k < n; ++k) {
    if (k + kAhead < n) touch(set_->pixels.data() + chosen[k + kAhead] * size, size);
    const std::int64_t example = chosen[k];
    labels[k] = set_->labels[static_cast<std::size_t>(example)];
    if (augmenter_) {
      normalise(example, scratch.data());
      augmenter_->apply({options_.seed, epoch, example}, scratch.data(), images + k * size);
    } else {
      normalise(example, images + k * size);
    }
  }
}

void Loader::in_order(std::int64_t first, std::int64_t n, float* images,
                      std::int32_t* labels) const {
  PODIUM_CHECK(first >= 0 && n >= 0 && first + n <= set_->count, first, " ", n);
  for (std::int64_t k = 0; k < n; ++k) {
    normalise(first + k, images + k * set_->image_bytes());
    labels[k] = set_->labels.empty() ? 0 : set_->labels[static_cast<std::size_t>(first + k)];
  }
}

}  // namespace podium
