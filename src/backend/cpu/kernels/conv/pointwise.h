// Convolutions of one pixel without padding, for conv2d and conv2d_grad_input: products of a matrix
// of weights and the channels of each pixel.
#pragma once

#include <cstdint>

#include "backend/cpu/kernels/conv/conv.h"

namespace podium::cpu {

// out[k] at output pixel (p, q) is the chain over channels c of in[c] at (p * stride, q * stride)
// and the weight w[k * out_stride + c * in_stride].
struct PointwiseShape {
  std::int64_t blocks = 0;  // of images
  std::int64_t in_channels = 0, in_width = 0, in_pixels = 0;
  std::int64_t out_channels = 0, out_width = 0, out_pixels = 0;
  std::int64_t stride_height = 1, stride_width = 1;
  std::int64_t out_stride = 0, in_stride = 0;  // of w, in floats
};

// Whether a pass of a convolution is one, with channels enough on both sides.
bool is_pointwise_forward(const ConvShape& shape);
bool is_pointwise_grad_input(const ConvShape& shape);
PointwiseShape pointwise_forward(const ConvShape& shape);
PointwiseShape pointwise_grad_input(const ConvShape& shape);

ConvWork pointwise_work(const PointwiseShape& shape);
void pointwise(const PointwiseShape& shape, const float* in, const float* w, float* out,
               float* shared, float* scratch, int phase, int part);

}  // namespace podium::cpu
