#include "data/pictures/image_set.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/numerics/hash.h"
#include "base/words.h"

namespace podium {
namespace {

constexpr std::int64_t kMostExtent = 65536, kMostExamples = 10'000'000;

std::string images(std::int64_t n) { return count_text(n, "image"); }

// What does not fit in memory of so many bytes and labels; no label has been looked at.
void require_sizes(const ImageFields& shape, std::size_t bytes, std::size_t labels,
                   const std::string& what) {
  PODIUM_REQUIRE(shape.count >= 1 && shape.count <= kMostExamples, ExitCode::kData, what, ": ",
                 shape.count, " examples; there must be 1 to ", kMostExamples);
  for (const std::int64_t extent : {shape.channels, shape.height, shape.width})
    PODIUM_REQUIRE(extent >= 1 && extent <= kMostExtent, ExitCode::kData, what, ": images of ",
                   shape.channels, " channels, ", shape.height, " x ", shape.width,
                   " pixels; each must be 1 to ", kMostExtent);
  PODIUM_REQUIRE(shape.classes >= 1 && shape.classes <= kMostClasses, ExitCode::kData, what, ": ",
                 shape.classes, " classes; there must be 1 to ", kMostClasses);
  const std::int64_t image = shape.channels * shape.height * shape.width;
  PODIUM_REQUIRE(shape.count <= (std::int64_t{1} << 60) / image, ExitCode::kData, what, ": ",
                 images(shape.count), " of ", image, " bytes are more than any memory");
  const auto have = static_cast<std::int64_t>(bytes), wanted = shape.count * image;
  PODIUM_REQUIRE(have >= wanted, ExitCode::kData, what, ": ", images(shape.count), " of ",
                 shape.channels, " x ", shape.height, " x ", shape.width, " need ", wanted,
                 " bytes, and there are ", have, ": example ", have / image,
                 " (counted from 0) is the first incomplete one");
  PODIUM_REQUIRE(have == wanted, ExitCode::kData, what, ": ", images(shape.count), " of ",
                 shape.channels, " x ", shape.height, " x ", shape.width, " need ", wanted,
                 " bytes, and there are ", have, ": the shape or the number of images is wrong");
  const auto labelled = static_cast<std::int64_t>(labels);
  PODIUM_REQUIRE(labelled != 0, ExitCode::kData, what, ": no labels; each of the ",
                 images(shape.count), " needs one, from 0 to ", shape.classes - 1);
  PODIUM_REQUIRE(labelled == shape.count, ExitCode::kData, what, ": ", labelled, " labels for ",
                 images(shape.count),
                 labelled < shape.count
                     ? cat(": example ", labelled, " (counted from 0) is the first without one")
                     : "; there must be one for each");
}

void require_labels(std::span<const std::int32_t> labels, std::int64_t classes,
                    const std::string& what) {
  const auto bad = std::ranges::find_if(
      labels, [&](std::int32_t label) { return label < 0 || label >= classes; });
  if (bad == labels.end()) return;
  throw UserError(
      cat(what, ": example ", bad - labels.begin(), " (counted from 0) has the label ", *bad,
          "; labels are 0 to ", classes - 1, ", since there are ", classes, " classes"),
      ExitCode::kData);
}

// Of memory that a program gives. Returns what people call it.
std::string require_memory(std::span<const std::uint8_t> pixels,
                           std::span<const std::int32_t> labels, const ImageFields& shape) {
  std::string what = shape.source.empty() ? "the program's own data" : shape.source;
  PODIUM_REQUIRE(pixels.data() != nullptr, ExitCode::kData, what,
                 ": the pixels are a null pointer");
  PODIUM_REQUIRE(labels.data() != nullptr || labels.empty(), ExitCode::kData, what,
                 ": the labels are a null pointer");
  require_sizes(shape, pixels.size(), labels.size(), what);
  require_labels(labels, shape.classes, what);
  return what;
}

void require_set(const ImageFields& set, std::span<const std::uint8_t> pixels,
                 std::span<const std::int32_t> labels, const std::string& what) {
  const std::string text = set.source.empty() ? what : cat(what, " (", set.source, ")");
  require_sizes(set, pixels.size(), labels.size(), text);
  require_labels(labels, set.classes, text);
}

std::uint64_t hash_of_images(const ImageFields& set, std::span<const std::uint8_t> pixels,
                             std::span<const std::int32_t> its_labels, StopToken stop) {
  std::uint64_t hash = 0;
  for (const std::int64_t extent : {set.count, set.channels, set.height, set.width, set.classes})
    hash = hash_append(hash, static_cast<std::uint64_t>(extent));
  hash = hash_append(hash, hash_bytes(pixels, stop));
  // Of up to 256 classes as bytes: hashes of sets are in checkpoints of older versions.
  std::vector<std::uint8_t> labels;
  const int bytes = set.classes <= 256 ? 1 : 4;
  labels.reserve(its_labels.size() * static_cast<std::size_t>(bytes));
  for (const std::int32_t label : its_labels)
    for (int i = 0; i < bytes; ++i)
      labels.push_back(static_cast<std::uint8_t>(static_cast<std::uint32_t>(label) >> (8 * i)));
  return hash_append(hash, hash_bytes(labels, stop));
}

std::string identity_of(const ImageFields& set, std::span<const std::uint8_t> pixels,
                        std::span<const std::int32_t> labels, StopToken stop) {
  return cat(set.count, " examples, hash ", hash_text(hash_of_images(set, pixels, labels, stop)));
}

}  // namespace

ImageSet make_image_set(std::span<const std::uint8_t> pixels, std::span<const std::int32_t> labels,
                        const ImageFields& shape) {
  const std::string what = require_memory(pixels, labels, shape);
  ImageSet set(shape, {pixels.begin(), pixels.end()}, {labels.begin(), labels.end()});
  set.source = what;
  return set;
}

BorrowedImages::BorrowedImages(std::span<const std::uint8_t> pixels,
                               std::span<const std::int32_t> labels, const ImageFields& shape,
                               std::shared_ptr<const void> owner)
    : ImageSource(shape), pixels_(pixels), labels_(labels), owner_(std::move(owner)) {
  source = require_memory(pixels, labels, shape);
}

ImageSource::Example BorrowedImages::read_image(std::int64_t index, const ExampleKey* /*key*/,
                                                std::uint8_t* /*out*/) const {
  return {pixels_.data() + index * image_bytes(), label(index)};
}

void BorrowedImages::require_usable(const std::string& what) const {
  require_set(*this, pixels_, labels_, what);
}

std::string BorrowedImages::identity(StopToken stop) const {
  return identity_of(*this, pixels_, labels_, stop);
}

std::int64_t BorrowedImages::memory_bytes() const {
  return static_cast<std::int64_t>(pixels_.size() + labels_.size_bytes());
}

ImageSource::Example ImageSet::read_image(std::int64_t index, const ExampleKey* /*key*/,
                                          std::uint8_t* /*out*/) const {
  return {image(index), labels.empty() ? 0 : label(index)};
}

void ImageSet::prefetch(std::int64_t index) const {
  constexpr std::int64_t kCacheLine = 64;
  const std::uint8_t* const bytes = image(index);
  for (std::int64_t i = 0; i < image_bytes(); i += kCacheLine) __builtin_prefetch(bytes + i);
}

void ImageSet::require_usable(const std::string& what) const {
  require_set(*this, pixels, labels, what);
}

std::string ImageSet::identity(StopToken stop) const {
  return identity_of(*this, pixels, labels, stop);
}

std::int64_t ImageSet::memory_bytes() const {
  return static_cast<std::int64_t>(pixels.size() + labels.size() * sizeof(std::int32_t));
}

std::uint64_t hash_of(const ImageSet& set, StopToken stop) {
  return hash_of_images(set, set.pixels, set.labels, stop);
}

}  // namespace podium
