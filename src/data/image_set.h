// An image set: labelled images as bytes in memory. Datasets load one (data/dataset.h); a program
// makes one of its own data with make_image_set() and hands it to run() or a Trainer:
//
//   auto train = std::make_shared<const podium::ImageSet>(podium::make_image_set(
//       pixels, labels, {.count = 6000, .channels = 3, .height = 32, .width = 32, .classes = 4}));
//
// Whoever takes a set checks it (require_usable). Pixels are bytes, 0 to 255; how they become
// floats is the recipe's [normalise] (data/normalise.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace podium {

// Images [count, channels, height, width], row-major, and one label each.
struct ImageSet {
  std::int64_t count = 0, channels = 0, height = 0, width = 0;
  std::int64_t classes = 0;  // labels are in [0, classes)
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;  // empty if they are not known (images to predict)
  std::string source;                // the folder or procedure of origin, for people

  std::int64_t image_bytes() const { return channels * height * width; }
};

// What the memory given to make_image_set() holds.
struct ImageSetShape {
  std::int64_t count = 0;  // images, at most ten million
  std::int64_t channels = 1, height = 0, width = 0;
  std::int64_t classes = 0;                       // at most 256: a label is kept as a byte
  std::string source = "the program's own data";  // for people
};

// Copies images [count, channels, height, width], row-major, and a label in [0, classes) for each.
// Throws UserError(kData), which says what does not fit and, where it is one example, which
// (counted from 0): no examples, a shape that cannot be, too few or too many bytes or labels, null
// memory, a label out of range.
ImageSet make_image_set(std::span<const std::uint8_t> pixels, std::span<const std::int32_t> labels,
                        const ImageSetShape& shape);

// Throws as make_image_set() does where a set cannot be trained on or evaluated on; `what` begins
// the text: "the training set".
void require_usable(const ImageSet& set, const std::string& what);

}  // namespace podium
