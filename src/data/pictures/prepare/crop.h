// Which part of a photograph becomes an example (docs/numerics.md, Photographs).
//
// In training with crop = "random-resized": up to ten times an area, as a share of the picture's,
// and the logarithm of a ratio of the sides are drawn uniformly; the first box that fits is taken,
// at a place drawn uniformly. If none fits, the largest box in the middle whose ratio is allowed.
// In evaluation, and with crop = "centre": the shorter side becomes `resize` pixels, the longer
// one is cut to whole pixels, and `size` x `size` of them in the middle are taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/pictures/formats/picture.h"
#include "data/source/option_problem.h"
#include "data/source/source.h"

namespace podium {

// How a picture of any size becomes an example.
struct CropOptions {
  std::int64_t size = 224;                  // the sides of an example
  std::int64_t resize = 256;                // the shorter side before the middle is cut out
  bool random = false;                      // whether training draws a crop
  double least_area = 0.08, most_area = 1;  // shares of the picture's area
  double least_ratio = 3.0 / 4.0, most_ratio = 4.0 / 3.0;  // width / height
};

// The drawn crop of a picture of height x width, in its pixels.
PictureArea random_crop(const CropOptions& options, const ExampleKey& key, std::int64_t height,
                        std::int64_t width);

// What is made of a picture of height x width for evaluation: its sides after resizing, and the
// part of that.
struct CentreCrop {
  std::int64_t height = 0, width = 0;  // of the resized picture
  std::int64_t top = 0, left = 0;      // of the part, which has `size` x `size`
};
CentreCrop centre_crop(const CropOptions& options, std::int64_t height, std::int64_t width);

}  // namespace podium
