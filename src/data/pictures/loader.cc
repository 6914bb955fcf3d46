#include "data/pictures/loader.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/pictures/colour.h"
#include "data/pictures/mirror.h"
#include "data/source/shuffle.h"

namespace podium {
namespace {

// Examples lie anywhere in memory: each is asked for this many before its turn.
constexpr std::int64_t kAhead = 4;

// Left to right.
void mirror(const std::uint8_t* pixels, std::int64_t rows, std::int64_t width,
            std::uint8_t* __restrict out) {
  for (std::int64_t y = 0; y < rows; ++y, pixels += width, out += width)
    for (std::int64_t x = 0; x < width; ++x) out[x] = pixels[width - 1 - x];
}

}  // namespace

Loader::Loader(std::shared_ptr<const Source> set, LoaderOptions options)
    : set_(std::move(set)),
      options_(std::move(options)),
      normaliser_(options_.normalise, set_->channels, set_->height, set_->width) {
  PODIUM_REQUIRE(options_.batch >= 1 && options_.batch <= set_->count, ExitCode::kUsage,
                 "[loader] batch is ", options_.batch, ", but the training set has ", set_->count,
                 " examples (", set_->source, "); the batch must be between 1 and that number");
  steps_per_epoch_ = set_->count / options_.batch;
  changes_colours_ = changes_colours(options_.augment);
  PODIUM_REQUIRE(!changes_colours_ || set_->channels == 1 || set_->channels == 3, ExitCode::kUsage,
                 "[augment] changes colours, but the images have ", set_->channels,
                 " channels; colours need 1 or 3");
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

std::int32_t Loader::make(std::int64_t index, const AugmentKey* key, float* image) const {
  thread_local std::vector<std::uint8_t> bytes;
  const auto size = static_cast<std::size_t>(set_->image_bytes());
  bytes.resize(size);
  const Source::Example example = set_->read(index, key, bytes.data());
  PODIUM_CHECK(example.label >= 0 && example.label < set_->classes, set_->source);
  const std::uint8_t* pixels = example.pixels;
  if (key != nullptr && changes_colours_) {
    if (pixels != bytes.data()) std::copy_n(pixels, size, bytes.data());
    change_colours(options_.augment, *key, set_->channels, set_->height * set_->width,
                   bytes.data());
    pixels = bytes.data();
  }
  if (key != nullptr && augmenter_ && only_mirrors(options_.augment)) {
    if (is_mirrored(options_.augment, *key)) {
      thread_local std::vector<std::uint8_t> mirrored;
      mirrored.resize(size);
      mirror(pixels, set_->channels * set_->height, set_->width, mirrored.data());
      pixels = mirrored.data();
    }
    normaliser_.start(pixels, image);
  } else if (key != nullptr && augmenter_) {
    thread_local std::vector<float> scratch;
    scratch.resize(size);
    normaliser_.start(pixels, scratch.data());
    augmenter_->apply(*key, scratch.data(), image);
  } else {
    normaliser_.start(pixels, image);
  }
  normaliser_.finish(image);
  return example.label;
}

void Loader::example(std::int64_t epoch, std::int64_t index, float* image) const {
  const AugmentKey key{options_.seed, epoch, index};
  make(index, &key, image);
}

void Loader::examples(std::int64_t step, std::int64_t first, std::int64_t n, float* images,
                      std::int32_t* labels) const {
  PODIUM_CHECK(set_->has_labels(), set_->source);
  PODIUM_CHECK(step >= 0 && first >= 0 && n >= 0 && first + n <= options_.batch, step, " ", first,
               " ", n);
  const std::int64_t epoch = step / steps_per_epoch_;
  const std::int64_t start = (step % steps_per_epoch_) * options_.batch + first;
  const Order order = order_of(epoch);
  const std::int64_t size = set_->image_bytes();
  const std::uint32_t* const chosen = order->data() + start;
  for (std::int64_t k = 0; k < n; ++k) {
    if (k + kAhead < n) set_->prefetch(chosen[k + kAhead]);
    const AugmentKey key{options_.seed, epoch, chosen[k]};
    labels[k] = make(chosen[k], &key, images + k * size);
  }
}

void Loader::in_order(std::int64_t first, std::int64_t n, float* images,
                      std::int32_t* labels) const {
  PODIUM_CHECK(first >= 0 && n >= 0 && first + n <= set_->count, first, " ", n);
  for (std::int64_t k = 0; k < n; ++k) {
    labels[k] = make(first + k, nullptr, images + k * set_->image_bytes());
  }
}

}  // namespace podium
