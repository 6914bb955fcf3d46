// Pictures as a recipe prepares them: normalised (data/pictures/prepare/normalise.h) and, for
// training, augmented (data/pictures/prepare/augment.h), which is a function of (seed, epoch,
// example).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/pictures/image_source.h"
#include "data/pictures/prepare/augment.h"
#include "data/pictures/prepare/normalise.h"

namespace podium {

// How images become values.
struct PictureValues {
  AugmentOptions augment;
  NormaliseOptions normalise;
};

class PreparedPictures final : public Source {
 public:
  // Throws UserError(kUsage) if the options do not fit the images.
  PreparedPictures(std::shared_ptr<const ImageSource> images, PictureValues options);

  const ImageSource& images() const { return *images_; }
  const Normaliser& normaliser() const { return normaliser_; }
  std::vector<Field> fields() const override { return images_->fields(); }
  std::int64_t examples() const override { return images_->count; }
  const std::string& origin() const override { return images_->source; }
  void read(std::int64_t index, const ExampleKey* key, FieldMemory to) const override;
  void prefetch(std::int64_t index) const override { images_->prefetch(index); }
  void require_usable(const std::string& what) const override { images_->require_usable(what); }
  std::string identity(StopToken stop) const override { return images_->identity(stop); }
  std::int64_t memory_bytes() const override { return images_->memory_bytes(); }
  bool is_slow() const override { return images_->is_slow(); }

 private:
  std::shared_ptr<const ImageSource> images_;
  PictureValues options_;
  Normaliser normaliser_;
  std::unique_ptr<const Augmenter> augmenter_;
  bool changes_colours_ = false;
};

// The same for a source that may be pictures: other sources, and pictures that are prepared, are
// returned as they are.
std::shared_ptr<const Source> prepared(std::shared_ptr<const Source> source,
                                       const PictureValues& options);
// The images of a source; null: it is none of pictures.
const ImageSource* images_of(const Source& source);

}  // namespace podium
