// Views of an image in evaluation. The network's outputs for them are averaged with these weights:
//   1  the image
//   2  the image and its mirror image, left to right: 1/2 each
//   6  the image and its mirror image, 1/4 each; the image shifted by one pixel down and right, its
//      mirror image, the image shifted by one pixel up and left, and its mirror image, 1/8 each.
//      Uncovered pixels are the image mirrored at the centres of its edge pixels: the image padded
//      by one pixel on each side, cropped at (0, 0) and at (2, 2)
#pragma once

#include <array>
#include <cstdint>

namespace podium {

inline constexpr std::array<std::int64_t, 3> kViewCounts = {1, 2, 6};

// Returns `views` if it is one of the numbers above. Throws UserError(kUsage)
// otherwise.
int view_count(std::int64_t views);

// The weight of view `i`. They are powers of two whose sum is 1.
float view_weight(std::int64_t views, int i);

// Writes view `i` of `in`. Both images are [channels, height, width] and must not overlap. Six
// views need images of at least 2 x 2 pixels.
void make_view(std::int64_t views, int i, std::int64_t channels, std::int64_t height,
               std::int64_t width, const float* in, float* out);

}  // namespace podium
