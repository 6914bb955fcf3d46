#include "data/pictures/prepare/prepared_pictures.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/pictures/prepare/colour.h"
#include "data/pictures/prepare/mirror.h"

namespace podium {
namespace {

// Left to right.
void mirror(const std::uint8_t* pixels, std::int64_t rows, std::int64_t width,
            std::uint8_t* __restrict out) {
  for (std::int64_t y = 0; y < rows; ++y, pixels += width, out += width)
    for (std::int64_t x = 0; x < width; ++x) out[x] = pixels[width - 1 - x];
}

}  // namespace

PreparedPictures::PreparedPictures(std::shared_ptr<const ImageSource> images, PictureValues options)
    : images_(std::move(images)),
      options_(std::move(options)),
      normaliser_(options_.normalise, images_->channels, images_->height, images_->width),
      changes_colours_(changes_colours(options_.augment)) {
  PODIUM_REQUIRE(!changes_colours_ || images_->channels == 1 || images_->channels == 3,
                 ExitCode::kUsage, "[augment] changes colours, but the images have ",
                 images_->channels, " channels; colours need 1 or 3");
  if (options_.augment.any())
    augmenter_ = std::make_unique<const Augmenter>(options_.augment, images_->channels,
                                                   images_->height, images_->width);
}

void PreparedPictures::read(std::int64_t index, const ExampleKey* key, FieldMemory to) const {
  const ImageSource& set = *images_;
  float* const image = to.at<float>(0);
  thread_local std::vector<std::uint8_t> bytes;
  const auto size = static_cast<std::size_t>(set.image_bytes());
  bytes.resize(size);
  const ImageSource::Example example = set.read_image(index, key, bytes.data());
  PODIUM_CHECK(!set.has_labels() || (example.label >= 0 && example.label < set.classes),
               set.source);
  const std::uint8_t* pixels = example.pixels;
  if (key != nullptr && changes_colours_) {
    if (pixels != bytes.data()) std::copy_n(pixels, size, bytes.data());
    change_colours(options_.augment, *key, set.channels, set.height * set.width, bytes.data());
    pixels = bytes.data();
  }
  if (key != nullptr && augmenter_ && only_mirrors(options_.augment)) {
    if (is_mirrored(options_.augment, *key)) {
      thread_local std::vector<std::uint8_t> mirrored;
      mirrored.resize(size);
      mirror(pixels, set.channels * set.height, set.width, mirrored.data());
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
  *to.at<std::int32_t>(1) = example.label;
}

std::shared_ptr<const Source> prepared(std::shared_ptr<const Source> source,
                                       const PictureValues& options) {
  auto images = std::dynamic_pointer_cast<const ImageSource>(source);
  if (!images) return source;
  return std::make_shared<const PreparedPictures>(std::move(images), options);
}

const ImageSource* images_of(const Source& source) {
  if (const auto* prepared = dynamic_cast<const PreparedPictures*>(&source))
    return &prepared->images();
  return dynamic_cast<const ImageSource*>(&source);
}

}  // namespace podium
