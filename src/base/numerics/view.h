// Views of an image in evaluation: which pixel of the image stands at each place of a view.
//   1  the image
//   2  the image and its mirror image, left to right
//   6  these two; the image shifted by one pixel down and right, its mirror image, the image
//      shifted by one pixel up and left, and its mirror image. Uncovered pixels are the image
//      mirrored at the centres of its edge pixels: the image padded by one pixel on each side,
//      cropped at (0, 0) and at (2, 2)
// The network's outputs for the views are averaged with their weights.
#pragma once

#include <array>
#include <cstdint>

#include "base/numerics/reflect.h"

namespace podium {

inline constexpr std::array<std::int64_t, 3> kViewCounts = {1, 2, 6};

// The weight of view `i` of `views`. They are powers of two whose sum is 1.
constexpr float view_weight(std::int64_t views, std::int64_t i) {
  if (views == 1) return 1.0f;
  if (views == 2) return 0.5f;
  return i < 2 ? 0.25f : 0.125f;
}

// View `i`, of however many: fewer views are the first of six. Shifted views need at least two rows
// and two columns.
class ViewPixels {
 public:
  constexpr explicit ViewPixels(std::int64_t i)
      : mirrors_(i % 2 != 0),
        from_(i < 2   ? 0
              : i < 4 ? -1
                      : 1) {}
  // Where the pixel at (0, 0) of the view comes from, before it is mirrored: (from, from).
  constexpr std::int64_t from() const { return from_; }
  constexpr bool mirrors() const { return mirrors_; }
  // Of the image, what stands in row `y` and in column `x` of the view.
  constexpr std::int64_t row(std::int64_t y, std::int64_t height) const {
    return reflected(y + from_, height);
  }
  constexpr std::int64_t column(std::int64_t x, std::int64_t width) const {
    return reflected((mirrors_ ? width - 1 - x : x) + from_, width);
  }

 private:
  bool mirrors_;
  std::int64_t from_;
};

}  // namespace podium
