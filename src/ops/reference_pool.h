// The windows of max pooling in scalar code, for the reference loops of the operations that pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/ops.h"

namespace podium {

// Calls f(out, first, row) for each window of images x [N, C, H, W], in order: its number, the
// index in x of its upper left corner, and the distance between rows of x.
template <typename F>
void for_each_window(const Shape& x, const PoolAttributes& a, const F& f) {
  const std::int64_t height = x[2] / a.window_h, width = x[3] / a.window_w;
  for (std::int64_t plane = 0; plane < x[0] * x[1]; ++plane)
    for (std::int64_t p = 0; p < height; ++p)
      for (std::int64_t q = 0; q < width; ++q)
        f((plane * height + p) * width + q, (plane * x[2] + p * a.window_h) * x[3] + q * a.window_w,
          x[3]);
}

// The index in x of a window's largest value: the first of equals, NaN larger than all.
inline std::size_t largest(std::span<const float> x, const PoolAttributes& a, std::int64_t first,
                           std::int64_t row) {
  auto best = static_cast<std::size_t>(first);
  for (std::int64_t r = 0; r < a.window_h; ++r) {
    for (std::int64_t s = 0; s < a.window_w; ++s) {
      const auto i = static_cast<std::size_t>(first + r * row + s);
      if (x[i] > x[best] || x[i] != x[i]) best = i;
    }
  }
  return best;
}

// y[window] = the largest of x there.
inline void pool_largest(const Shape& shape, const PoolAttributes& a, std::span<const float> x,
                         std::span<float> y) {
  for_each_window(shape, a, [&](std::int64_t out, std::int64_t first, std::int64_t row) {
    y[static_cast<std::size_t>(out)] = x[largest(x, a, first, row)];
  });
}
// place[window] = where in it the largest of x stands, row by row.
inline void places_of_largest(const Shape& shape, const PoolAttributes& a, std::span<const float> x,
                              std::span<float> place) {
  for_each_window(shape, a, [&](std::int64_t out, std::int64_t first, std::int64_t row) {
    const auto at = static_cast<std::int64_t>(largest(x, a, first, row)) - first;
    const std::int64_t k = at / row * a.window_w + at % row;
    place[static_cast<std::size_t>(out)] = static_cast<float>(k);
  });
}
// dx = dy at that place, elsewhere +0.
inline void lead_to_places(const Shape& shape, const PoolAttributes& a, std::span<const float> dy,
                           std::span<const float> place, std::span<float> dx) {
  for (float& value : dx) value = 0.0f;
  for_each_window(shape, a, [&](std::int64_t out, std::int64_t first, std::int64_t row) {
    const auto o = static_cast<std::size_t>(out);
    for (std::int64_t k = 0; k < a.window_h * a.window_w; ++k) {
      const auto at = static_cast<std::size_t>(first + k / a.window_w * row + k % a.window_w);
      if (place[o] == static_cast<float>(k)) dx[at] = dy[o];
    }
  });
}
// dx = dy where x is the largest of its window, elsewhere +0.
inline void lead_to_largest(const Shape& shape, const PoolAttributes& a, std::span<const float> dy,
                            std::span<const float> x, std::span<float> dx) {
  for (float& value : dx) value = 0.0f;
  for_each_window(shape, a, [&](std::int64_t out, std::int64_t first, std::int64_t row) {
    dx[largest(x, a, first, row)] = dy[static_cast<std::size_t>(out)];
  });
}

}  // namespace podium
