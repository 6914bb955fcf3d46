// The numbers of a convolution, for references and kernels of all backends. Free of other headers,
// so that kernels read it.
#pragma once

#include <cstdint>

namespace podium {

struct Conv2dAttributes;
class Shape;

// x [images][in_channels][in_height][in_width], w [out_channels][in_channels][kernel_height]
// [kernel_width], y [images][out_channels][out_height][out_width].
struct ConvShape {
  std::int64_t images = 0;
  std::int64_t in_channels = 0;
  std::int64_t in_height = 0;
  std::int64_t in_width = 0;
  std::int64_t out_channels = 0;
  std::int64_t out_height = 0;
  std::int64_t out_width = 0;
  std::int64_t kernel_height = 0;
  std::int64_t kernel_width = 0;
  std::int64_t stride_height = 1;
  std::int64_t stride_width = 1;
  std::int64_t pad_top = 0;
  std::int64_t pad_left = 0;

  constexpr std::int64_t in_pixels() const { return in_height * in_width; }
  constexpr std::int64_t out_pixels() const { return out_height * out_width; }
  constexpr std::int64_t taps() const { return kernel_height * kernel_width; }
  constexpr std::int64_t weight_floats() const { return out_channels * in_channels * taps(); }
};

// Of a convolution of x with w to y, by their shapes; y may be pooled.
ConvShape conv_shape(const Conv2dAttributes& a, const Shape& x, const Shape& w, const Shape& y);

}  // namespace podium
