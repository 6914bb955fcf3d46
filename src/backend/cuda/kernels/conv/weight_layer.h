// A convolution as the gradient to its weights sees it. For *.cu files only.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/conv/conv.h"
#include "base/numerics/device_function.h"

namespace podium::PODIUM_CUDA_SPACE {

struct WeightLayer {
  int images, in_channels, in_height, in_width, out_channels, out_height, out_width;
  int kernel_height, kernel_width, stride_height, stride_width, pad_top, pad_left;

  PODIUM_DEVICE_FUNCTION int pixels() const { return out_height * out_width; }
  PODIUM_DEVICE_FUNCTION int in_pixels() const { return in_height * in_width; }
  PODIUM_DEVICE_FUNCTION int taps() const { return kernel_height * kernel_width; }
  PODIUM_DEVICE_FUNCTION std::int64_t weights() const {
    return static_cast<std::int64_t>(out_channels) * in_channels * taps();
  }
};

inline WeightLayer weight_layer_of(const ConvShape& s) {
  const auto i = [](std::int64_t v) { return static_cast<int>(v); };
  return {i(s.images),       i(s.in_channels),   i(s.in_height),    i(s.in_width),
          i(s.out_channels), i(s.out_height),    i(s.out_width),    i(s.kernel_height),
          i(s.kernel_width), i(s.stride_height), i(s.stride_width), i(s.pad_top),
          i(s.pad_left)};
}

}  // namespace podium::PODIUM_CUDA_SPACE
