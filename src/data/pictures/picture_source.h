// A source of photographs: records that are decoded, cropped and resized when they are read.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/pictures/decoded_pictures.h"
#include "data/pictures/formats/picture.h"
#include "data/pictures/image_source.h"
#include "data/pictures/prepare/crop.h"
#include "data/pictures/prepare/resize.h"
#include "data/pictures/shards/records.h"

namespace podium {

// What becomes of pictures that cannot be decoded, in training.
struct BadPictures {
  bool skip = false;       // false: the first one ends the run
  std::int64_t limit = 0;  // more than so many different ones end it, too
};

class PictureSource final : public ImageSource {
 public:
  PictureSource(std::shared_ptr<const Records> records, const CropOptions& crop, BadPictures bad);

  const Records& records() const { return *records_; }
  const CropOptions& crop() const { return crop_; }

  // In training, a picture that cannot be decoded may be passed over: the next by index takes its
  // place, with its own label, which is a function of the records alone. In evaluation, where each
  // example counts once, it is an error.
  Example read_image(std::int64_t index, const ExampleKey* key, std::uint8_t* out) const override;
  std::int32_t label(std::int64_t index) const override { return records_->label(index); }
  void require_usable(const std::string& what) const override;
  std::string identity(StopToken stop) const override;
  std::int64_t memory_bytes() const override { return records_->memory_bytes(); }
  bool is_slow() const override { return true; }
  bool keep_decoded(std::int64_t bytes) const override;

  // How many different pictures have been passed over.
  std::int64_t skipped() const;

 private:
  void read_record(std::int64_t index, const ExampleKey* key, std::uint8_t* out) const;
  // Whether the picture is kept now, as this example needs it.
  bool keep(std::int64_t index, const ExampleKey* key, std::span<const std::uint8_t> file) const;
  void pass_over(std::int64_t index, const std::string& problem) const;

  std::shared_ptr<const Records> records_;
  CropOptions crop_;
  BadPictures bad_;
  mutable DecodedPictures decoded_;
  mutable std::mutex mutex_;
  mutable std::set<std::int64_t> skipped_;
};

// What is decoded of a picture, and how that is resized.
struct ExamplePlan {
  int eighths = 8;   // of its size
  PictureArea area;  // of the picture at that size
  ResizeAxis rows, columns;
};
// As training sees it, with a key and if the options say so, or as evaluation does.
void plan_example(const PictureSize& picture, const CropOptions& options, const ExampleKey* key,
                  ExamplePlan& plan);

// Makes an example [3, size, size] of an encoded picture: as training sees it, with a key and if
// the options say so, or as evaluation does. Throws BadPicture.
void make_example(std::span<const std::uint8_t> file, const std::string& name,
                  const CropOptions& options, const ExampleKey* key, std::uint8_t* out);

}  // namespace podium
