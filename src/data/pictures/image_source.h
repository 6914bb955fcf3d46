// Labelled images of one shape, by index, as bytes. An ImageSet is in memory
// (data/pictures/image_set.h); photographs are decoded when they are read
// (data/pictures/picture_source.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/source/source.h"

namespace podium {

// Upper limit of the number of classes.
inline constexpr std::int64_t kMostClasses = 1 << 20;

// The names of the fields of images.
inline constexpr const char *kImagesField = "images", *kLabelsField = "labels";
// "images" f32 [channels, height, width], and "labels" i32 in [0, classes).
std::vector<Field> image_fields(std::int64_t channels, std::int64_t height, std::int64_t width,
                                std::int64_t classes, std::vector<std::string> class_names = {});

// The number of images and their shape, classes and origin.
struct ImageFields {
  std::int64_t count = 0;  // examples
  std::int64_t channels = 1, height = 0, width = 0;
  std::int64_t classes = 0;                   // labels are in [0, classes)
  std::string source;                         // the folder or procedure of origin, for people
  std::vector<std::string> class_names = {};  // by label; none: classes have only numbers

  std::int64_t image_bytes() const { return channels * height * width; }
  // The name of a class, or its number if classes have no names.
  std::string class_name(std::int64_t label) const;
};

// The shape and the classes that such fields state.
ImageFields image_fields_of(std::span<const Field> fields);

// As a source of fields, an image's values are its bytes. PreparedPictures
// (data/pictures/prepare/prepared_pictures.h) normalises and augments them as a recipe says.
class ImageSource : public Source, public ImageFields {
 public:
  ImageSource() = default;
  // A source with these images.
  explicit ImageSource(ImageFields fields) : ImageFields(std::move(fields)) {}
  ~ImageSource() override;

  // What read_image() returns.
  struct Example {
    const std::uint8_t* pixels =
        nullptr;             // [channels, height, width]: the source's memory or `out`
    std::int32_t label = 0;  // 0 where labels are not known
  };
  // Example `index`. With a key, as training sees it: if the source crops, the crop is a function
  // of the key. Without a key, as evaluation sees it. `out` has room for image_bytes(), and may
  // stay unused. Throws UserError(kData), which names the file, if the example cannot be read.
  virtual Example read_image(std::int64_t index, const ExampleKey* key,
                             std::uint8_t* out) const = 0;
  // The label of an example, without reading the example.
  virtual std::int32_t label(std::int64_t index) const = 0;
  virtual bool has_labels() const { return true; }

  // As image_fields() makes them.
  std::vector<Field> fields() const final;
  // The count.
  std::int64_t examples() const final { return count; }
  const std::string& origin() const final { return source; }
  void read(std::int64_t index, const ExampleKey* key, FieldMemory to) const final;

 protected:
  // Only derived classes can be copied and moved.
  ImageSource(const ImageSource&) = default;
  // Likewise.
  ImageSource(ImageSource&&) = default;
  ImageSource& operator=(const ImageSource&) = default;
  ImageSource& operator=(ImageSource&&) = default;
};

}  // namespace podium
