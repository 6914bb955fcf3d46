// An image set: labelled images as bytes in memory. Datasets load one (data/datasets/dataset.h); a
// program makes one from its own data with make_image_set() and passes it to run() or to a Trainer:
//
//   auto train = std::make_shared<const podium::ImageSet>(podium::make_image_set(
//       pixels, labels, {.count = 6000, .channels = 3, .height = 32, .width = 32, .classes = 4}));
//
// Functions that take a set check it (require_usable). Pixels are bytes, 0 to 255; the recipe's
// [normalise] states how they become floats (data/pictures/prepare/normalise.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/pictures/image_source.h"

namespace podium {

// Images [count, channels, height, width], row-major, and one label each: at most ten million
// images, in at most 1,048,576 classes.
struct ImageSet final : ImageSource {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;  // empty if they are not known (images to predict)

  ImageSet() = default;
  // The bytes and labels are not checked here.
  explicit ImageSet(ImageFields fields, std::vector<std::uint8_t> its_pixels = {},
                    std::vector<std::int32_t> its_labels = {})
      : ImageSource(std::move(fields)),
        pixels(std::move(its_pixels)),
        labels(std::move(its_labels)) {}

  // Example `index`: image_bytes() bytes.
  const std::uint8_t* image(std::int64_t index) const {
    return pixels.data() + index * image_bytes();
  }
  Example read_image(std::int64_t index, const ExampleKey* key, std::uint8_t* out) const override;
  std::int32_t label(std::int64_t index) const override {
    return labels[static_cast<std::size_t>(index)];
  }
  bool has_labels() const override { return !labels.empty(); }
  void prefetch(std::int64_t index) const override;
  void require_usable(const std::string& what) const override;
  std::string identity(StopToken stop) const override;
  std::int64_t memory_bytes() const override;
};

// The same of memory that belongs to someone else, such as a NumPy array: nothing is copied.
class BorrowedImages final : public ImageSource {
 public:
  // `owner` keeps the memory as long as the set lives; none: the caller does. Throws as
  // make_image_set() does.
  BorrowedImages(std::span<const std::uint8_t> pixels, std::span<const std::int32_t> labels,
                 const ImageFields& fields, std::shared_ptr<const void> owner = {});

  Example read_image(std::int64_t index, const ExampleKey* key, std::uint8_t* out) const override;
  std::int32_t label(std::int64_t index) const override {
    return labels_[static_cast<std::size_t>(index)];
  }
  void require_usable(const std::string& what) const override;
  std::string identity(StopToken stop) const override;
  std::int64_t memory_bytes() const override;

 private:
  std::span<const std::uint8_t> pixels_;
  std::span<const std::int32_t> labels_;
  std::shared_ptr<const void> owner_;
};

// Copies images [count, channels, height, width], row-major, and a label in [0, classes) for each.
// Throws UserError(kData), which states the fault and the example concerned (counted from 0), if
// there are no examples, the shape is invalid, there are too few or too many bytes or labels, a
// pointer is null, or a label is out of range.
ImageSet make_image_set(std::span<const std::uint8_t> pixels, std::span<const std::int32_t> labels,
                        const ImageFields& fields);

// A hash of the set. Other examples, or the same ones in another order, give another hash.
// Throws Stopped if `stop` requests it.
std::uint64_t hash_of(const ImageSet& set, StopToken stop = {});

}  // namespace podium
