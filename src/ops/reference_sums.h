// The sums that contracts are made of (docs/numerics.md), in scalar code, for the reference loops
// of the operations.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/numerics/tree.h"

namespace podium {

inline constexpr std::int64_t kSumLanes = 16;

// The tree over sixteen lanes.
inline float lane_tree(const std::array<float, kSumLanes>& lanes) {
  return tree_sum(0, kSumLanes, [&](std::int64_t l) { return lanes[static_cast<std::size_t>(l)]; });
}

// Image sum, and class sum: partial(i) joins lane i mod 16 in ascending order; then the tree.
template <typename Partial>
float lane_sum(std::int64_t count, const Partial& partial) {
  std::array<float, kSumLanes> lanes{};
  for (std::int64_t i = 0; i < count; ++i)
    lanes[static_cast<std::size_t>(i % kSumLanes)] += partial(i);
  return lane_tree(lanes);
}

// A product's sum over `depth` terms: runs of 256, each a chain of fma(a(k), b(k)) from +0, added
// in order. Without terms it is +0.
inline constexpr std::int64_t kProductRun = 256;
template <typename A, typename B>
float product_sum(std::int64_t depth, const A& a, const B& b) {
  float total = 0;
  for (std::int64_t run = 0; run < depth; run += kProductRun) {
    float sum = 0;
    for (std::int64_t k = run; k < std::min(run + kProductRun, depth); ++k)
      sum = std::fma(a(k), b(k), sum);
    total = run == 0 ? sum : total + sum;
  }
  return total;
}

// Planes are summed in bands of so many rows, joined by the tree.
inline constexpr std::int64_t kBandRows = 32;
// The tree over the bands of a plane: band(first row, end).
template <typename Band>
float band_sum(std::int64_t height, const Band& band) {
  return tree_sum(0, (height + kBandRows - 1) / kBandRows, [&](std::int64_t b) {
    return band(b * kBandRows, std::min((b + 1) * kBandRows, height));
  });
}

// The pixel sum of the rows from `begin` to `end`.
template <typename Step>
float pixel_sum_of_band(std::int64_t begin, std::int64_t end, std::int64_t width,
                        const Step& step) {
  std::array<float, 4> chains{};
  for (std::int64_t top = begin; top < end; top += 4) {
    for (std::int64_t left = 0; left < width; left += 4) {
      for (std::int64_t h = top; h < std::min(top + 4, end); ++h) {
        for (std::int64_t w = left; w < std::min(left + 4, width); ++w) {
          float& chain = chains[static_cast<std::size_t>(w % 4)];
          chain = step(chain, h * width + w);
        }
      }
    }
  }
  return (chains[0] + chains[1]) + (chains[2] + chains[3]);
}
// Pixel sum of a plane: step(acc, pixel index) is one link of a chain; in each band four chains by
// column, tiles of 4x4 in order.
template <typename Step>
float pixel_sum(std::int64_t height, std::int64_t width, const Step& step) {
  return band_sum(height, [&](std::int64_t begin, std::int64_t end) {
    return pixel_sum_of_band(begin, end, width, step);
  });
}

// A batch of images seen as [N, C, H, W]; a matrix [N, F] is [N, F, 1, 1].
struct Planes {
  std::int64_t images, channels, height, width;
  std::int64_t pixels() const { return height * width; }
  std::int64_t offset(std::int64_t n, std::int64_t c) const {
    return (n * channels + c) * pixels();
  }
};

// The sum over images and pixels of one channel: image sum of pixel sums. step(acc, element index).
template <typename Step>
float channel_total(const Planes& planes, std::int64_t channel, const Step& step) {
  return lane_sum(planes.images, [&](std::int64_t n) {
    const std::int64_t base = planes.offset(n, channel);
    return pixel_sum(planes.height, planes.width,
                     [&](float acc, std::int64_t pixel) { return step(acc, base + pixel); });
  });
}

}  // namespace podium
