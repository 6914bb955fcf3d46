#include "data/pictures/page.h"

#include <algorithm>

#include "base/error.h"
#include "data/pictures/font.h"
#include "data/pictures/formats/image_file.h"

namespace podium {

Page::Page(std::int64_t height, std::int64_t width)
    : height_(height), width_(width), colours_(static_cast<std::size_t>(3 * height * width), 255) {
  PODIUM_CHECK(height > 0 && width > 0, height, " ", width);
}

void Page::fill(std::int64_t top, std::int64_t left, std::int64_t side,
                const std::uint8_t colour[3]) {
  const std::int64_t bottom = std::min(top + side, height_), right = std::min(left + side, width_);
  for (std::int64_t y = std::max<std::int64_t>(top, 0); y < bottom; ++y) {
    for (std::int64_t x = std::max<std::int64_t>(left, 0); x < right; ++x)
      std::copy_n(colour, 3, colours_.begin() + 3 * (y * width_ + x));
  }
}

void Page::draw(std::int64_t top, std::int64_t left, std::int64_t enlarged, std::int64_t channels,
                std::int64_t height, std::int64_t width, const std::uint8_t* pixels) {
  PODIUM_CHECK(channels == 1 || channels == 3, channels);
  const std::int64_t plane = channels == 1 ? 0 : height * width;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const std::uint8_t* const p = pixels + y * width + x;
      const std::uint8_t colour[3] = {p[0], p[plane], p[2 * plane]};
      fill(top + y * enlarged, left + x * enlarged, enlarged, colour);
    }
  }
}

void Page::write(std::int64_t top, std::int64_t left, std::int64_t size, std::string_view text,
                 std::uint8_t shade) {
  const std::uint8_t colour[3] = {shade, shade, shade};
  for (const char character : text) {
    for (std::int64_t y = 0; y < kGlyphHeight; ++y) {
      for (std::int64_t x = 0; x < kGlyphWidth; ++x)
        if (has_ink(character, y, x)) fill(top + y * size, left + x * size, size, colour);
    }
    left += kGlyphStep * size;
  }
}

std::vector<std::uint8_t> Page::png() const { return png_bytes(colours_, height_, width_); }

}  // namespace podium
