#include "data/pictures/image_source.h"

#include <algorithm>

#include "base/error.h"

namespace podium {

std::vector<Field> image_fields(std::int64_t channels, std::int64_t height, std::int64_t width,
                                std::int64_t classes, std::vector<std::string> class_names) {
  return {{.name = kImagesField, .shape = Shape{channels, height, width}, .unit = "image"},
          {.name = kLabelsField,
           .dtype = DType::kI32,
           .below = classes,
           .words = std::move(class_names),
           .target = true}};
}

std::string ImageFields::class_name(std::int64_t label) const {
  PODIUM_CHECK(label >= 0 && label < classes, label);
  return class_names.empty() ? cat(label) : class_names.at(static_cast<std::size_t>(label));
}

ImageFields image_fields_of(std::span<const Field> fields) {
  PODIUM_CHECK(fields.size() == 2 && fields[0].shape.rank() == 3, to_text(fields));
  const Shape& image = fields[0].shape;
  return {.channels = image[0],
          .height = image[1],
          .width = image[2],
          .classes = fields[1].below,
          .source = "",
          .class_names = fields[1].words};
}

ImageSource::~ImageSource() = default;

std::vector<Field> ImageSource::fields() const {
  return image_fields(channels, height, width, classes, class_names);
}

void ImageSource::read(std::int64_t index, const ExampleKey* key, FieldMemory to) const {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(image_bytes()));
  const Example example = read_image(index, key, bytes.data());
  std::copy_n(example.pixels, image_bytes(), to.at<float>(0));
  *to.at<std::int32_t>(1) = example.label;
}

}  // namespace podium
