// Views of an image at test time: the network's outputs for them are averaged by their weights.
//   1  the image
//   2  the image and its mirror image, left to right: 1/2 each
//   6  the image and its mirror image, 1/4 each; the image moved by one pixel down and right, its
//      mirror image, the image moved by one pixel up and left, and its mirror image, 1/8 each.
//      What comes in is the image mirrored at the centres of its edge pixels: the image padded by
//      one pixel on each side, cropped at (0, 0) and at (2, 2)
#pragma once

#include <array>
#include <cstdint>

namespace podium {

inline constexpr std::array<std::int64_t, 3> kViewCounts = {1, 2, 6};

// `views` as a number of images, once it is known to be one of the above. Throws UserError(kUsage)
// otherwise.
int view_count(std::int64_t views);

// The weight of view `i`. They are powers of two whose sum is 1.
float view_weight(std::int64_t views, int i);

// Writes view `i` of `in`; both images are [channels, height, width] and must not overlap. Views by
// 6 need images of at least 2 x 2 pixels.
void make_view(std::int64_t views, int i, std::int64_t channels, std::int64_t height,
               std::int64_t width, const float* in, float* out);

}  // namespace podium
