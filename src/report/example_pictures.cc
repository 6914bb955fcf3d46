#include "report/example_pictures.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/pictures/image_file.h"

namespace podium {

ExamplePicture picture_of(const ImageSource& set, std::int64_t index, std::int64_t most_side) {
  std::vector<std::uint8_t> memory(static_cast<std::size_t>(set.image_bytes()));
  const std::uint8_t* pixels = set.read_image(index, nullptr, memory.data()).pixels;
  const std::int64_t side = std::max(set.height, set.width);
  const std::int64_t factor = (side + most_side - 1) / most_side;
  ExamplePicture picture{.png = {}, .height = set.height / factor, .width = set.width / factor};
  std::vector<std::uint8_t> colours(static_cast<std::size_t>(3 * picture.height * picture.width));
  std::size_t at = 0;
  for (std::int64_t y = 0; y < picture.height; ++y) {
    for (std::int64_t x = 0; x < picture.width; ++x) {
      for (std::int64_t c = 0; c < 3; ++c) {
        const std::uint8_t* plane = pixels + (set.channels == 3 ? c : 0) * set.height * set.width;
        std::int64_t sum = 0;
        for (std::int64_t dy = 0; dy < factor; ++dy)
          for (std::int64_t dx = 0; dx < factor; ++dx)
            sum += plane[(y * factor + dy) * set.width + x * factor + dx];
        const std::int64_t area = factor * factor;
        colours[at++] = static_cast<std::uint8_t>((sum + area / 2) / area);
      }
    }
  }
  picture.png = png_bytes(colours, picture.height, picture.width);
  return picture;
}

std::string caption_of(const ImageSource& set, const ExamplePrediction& example) {
  const auto predicted = static_cast<std::int64_t>(example.predicted),
             target = static_cast<std::int64_t>(example.target);
  const std::string text = predicted < 0 ? "no class" : set.class_name(predicted);
  if (predicted == target) return text;
  return fmt::format("{} (is {}), loss {:.2f}", text, set.class_name(target), example.loss);
}

}  // namespace podium
