// Views of an image in evaluation (base/view.h), as pixels in memory, and their weights: the
// network's outputs for the views are averaged with these.
//   1  1
//   2  1/2 each
//   6  1/4 each for the image and its mirror image, 1/8 each for the others
#pragma once

#include <cstdint>

#include "base/view.h"

namespace podium {

// Returns `views` if it is one of kViewCounts. Throws UserError(kUsage) otherwise.
int view_count(std::int64_t views);

// The weight of view `i`. They are powers of two whose sum is 1.
float view_weight(std::int64_t views, int i);

// Writes view `i` of `in`. Both images are [channels, height, width] and must not overlap. Six
// views need images of at least 2 x 2 pixels.
void make_view(std::int64_t views, int i, std::int64_t channels, std::int64_t height,
               std::int64_t width, const float* in, float* out);

}  // namespace podium
