// A white page of pictures with captions, to be written as a PNG file.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace podium {

class Page {
 public:
  Page(std::int64_t height, std::int64_t width);

  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }

  // A picture [channels, height, width] of 1 or 3 channels, each of its pixels a square of
  // `enlarged` x `enlarged`. What would lie beyond the page is left out.
  void draw(std::int64_t top, std::int64_t left, std::int64_t enlarged, std::int64_t channels,
            std::int64_t height, std::int64_t width, const std::uint8_t* pixels);
  // A caption in the font of data/pictures/font.h, from black (0) to white (255).
  void write(std::int64_t top, std::int64_t left, std::int64_t size, std::string_view text,
             std::uint8_t shade = 0);

  // The page as a PNG file has it.
  std::vector<std::uint8_t> png() const;

 private:
  // A square; red, green, blue.
  void fill(std::int64_t top, std::int64_t left, std::int64_t side, const std::uint8_t colour[3]);

  std::int64_t height_, width_;
  std::vector<std::uint8_t> colours_;  // [height][width][3]
};

}  // namespace podium
