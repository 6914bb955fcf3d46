// The windows of pooling in scalar code, for the reference loops of the operations that pool.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/ops.h"

namespace podium {

// The part of a window that lies inside the image.
struct PoolWindow {
  std::int64_t first;  // index in x of its upper left corner
  std::int64_t row;    // distance between rows of x
  std::int64_t height, width;
  std::int64_t place;   // of that corner in the whole window, row by row
  std::int64_t across;  // pixels of a row of the whole window

  std::size_t at(std::int64_t k) const {  // index in x of pixel k, row by row
    return static_cast<std::size_t>(first + k / width * row + k % width);
  }
  // Pixel k's place in the whole window, row by row from 0.
  float place_of(std::int64_t k) const {
    const std::int64_t down = k / width;
    return static_cast<float>(place + down * across + k % width);
  }
  std::int64_t pixels() const { return height * width; }
};

// Calls f(out, window) for each window of images x [N, C, H, W], in order.
template <typename F>
void for_each_window(const Shape& x, const PoolAttributes& a, const F& f) {
  const Shape y = pooled(x, a);
  const std::int64_t down = a.stride_h == 0 ? a.window_h : a.stride_h,
                     right = a.stride_w == 0 ? a.window_w : a.stride_w;
  std::int64_t out = 0;
  for (std::int64_t plane = 0; plane < x[0] * x[1]; ++plane)
    for (std::int64_t p = 0; p < y[2]; ++p)
      for (std::int64_t q = 0; q < y[3]; ++q, ++out) {
        const std::int64_t top = p * down - a.pad_top, left = q * right - a.pad_left;
        const std::int64_t from_h = std::max<std::int64_t>(top, 0),
                           from_w = std::max<std::int64_t>(left, 0);
        f(out, PoolWindow{(plane * x[2] + from_h) * x[3] + from_w, x[3],
                          std::min(top + a.window_h, x[2]) - from_h,
                          std::min(left + a.window_w, x[3]) - from_w,
                          (from_h - top) * a.window_w + from_w - left, a.window_w});
      }
}

// Which pixel of a window is the largest: the first of equals, NaN larger than all.
inline std::int64_t largest(std::span<const float> x, const PoolWindow& window) {
  std::int64_t best = 0;
  for (std::int64_t k = 0; k < window.pixels(); ++k) {
    const float next = x[window.at(k)];
    if (next > x[window.at(best)] || next != next) best = k;
  }
  return best;
}

// y[window] = the largest of x there.
inline void pool_largest(const Shape& shape, const PoolAttributes& a, std::span<const float> x,
                         std::span<float> y) {
  for_each_window(shape, a, [&](std::int64_t out, const PoolWindow& window) {
    y[static_cast<std::size_t>(out)] = x[window.at(largest(x, window))];
  });
}
// place[window] = where in it the largest of x stands, row by row.
inline void places_of_largest(const Shape& shape, const PoolAttributes& a, std::span<const float> x,
                              std::span<float> place) {
  for_each_window(shape, a, [&](std::int64_t out, const PoolWindow& window) {
    place[static_cast<std::size_t>(out)] = window.place_of(largest(x, window));
  });
}
// dx = dy at that place, elsewhere +0; where windows do not tile the image, the sum over the
// windows that have a pixel there, from +0 and in their order.
inline void lead_to_places(const Shape& shape, const PoolAttributes& a, std::span<const float> dy,
                           std::span<const float> place, std::span<float> dx) {
  for (float& value : dx) value = 0.0f;
  for_each_window(shape, a, [&](std::int64_t out, const PoolWindow& window) {
    const auto o = static_cast<std::size_t>(out);
    for (std::int64_t k = 0; k < window.pixels(); ++k)
      if (float& to = dx[window.at(k)]; place[o] == window.place_of(k))
        to = a.tiles() ? dy[o] : to + dy[o];
  });
}
// The same of where x is the largest of its window.
inline void lead_to_largest(const Shape& shape, const PoolAttributes& a, std::span<const float> dy,
                            std::span<const float> x, std::span<float> dx) {
  const Shape y = pooled(shape, a);
  std::vector<float> place(static_cast<std::size_t>(y.elements()));
  places_of_largest(shape, a, x, place);
  lead_to_places(shape, a, dy, place, dx);
}

}  // namespace podium
