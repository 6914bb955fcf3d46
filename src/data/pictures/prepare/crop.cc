#include "data/pictures/prepare/crop.h"

#include <algorithm>
#include <cmath>

#include "base/numerics/functions.h"
#include "data/pictures/prepare/draws.h"

namespace podium {
namespace {

double uniform(std::uint32_t word, double least, double most) {
  return least + (most - least) * (static_cast<double>(word) * 0x1p-32);
}

std::int64_t rounded(double x) { return static_cast<std::int64_t>(std::nearbyint(x)); }

// (whole - part) / 2, rounded to the even number where that is half way, as Python rounds.
std::int64_t middle(std::int64_t whole, std::int64_t part) {
  return rounded(static_cast<double>(whole - part) / 2.0);
}

}  // namespace

PictureArea random_crop(const CropOptions& options, const ExampleKey& key, std::int64_t height,
                        std::int64_t width) {
  const double area = static_cast<double>(height) * static_cast<double>(width);
  const double low = log_f64(options.least_ratio), high = log_f64(options.most_ratio);
  const Draws draws(key, AugmentKind::kCrop);
  for (std::uint32_t attempt = 0; attempt < 10; ++attempt) {
    const PhiloxBlock words = draws.block(attempt);
    const double wanted = area * uniform(words[0], options.least_area, options.most_area);
    const double ratio = exp_f64(uniform(words[1], low, high));
    const std::int64_t w = rounded(std::sqrt(wanted * ratio));
    const std::int64_t h = rounded(std::sqrt(wanted / ratio));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    return {uniform_below(words[2], static_cast<std::uint32_t>(height - h + 1)),
            uniform_below(words[3], static_cast<std::uint32_t>(width - w + 1)), h, w};
  }
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  std::int64_t w = width, h = height;
  if (ratio < options.least_ratio) {
    h = std::clamp<std::int64_t>(rounded(static_cast<double>(width) / options.least_ratio), 1,
                                 height);
  } else if (ratio > options.most_ratio) {
    w = std::clamp<std::int64_t>(rounded(static_cast<double>(height) * options.most_ratio), 1,
                                 width);
  }
  return {(height - h) / 2, (width - w) / 2, h, w};
}

CentreCrop centre_crop(const CropOptions& options, std::int64_t height, std::int64_t width) {
  CentreCrop crop;
  if (width <= height) {
    crop.width = options.resize;
    crop.height = options.resize * height / width;
  } else {
    crop.height = options.resize;
    crop.width = options.resize * width / height;
  }
  crop.top = middle(crop.height, options.size);
  crop.left = middle(crop.width, options.size);
  return crop;
}

}  // namespace podium
