// The contract of the Winograd convolution (docs/numerics.md) as plain scalar loops: the oracle of
// every kernel. Tensors are plain: x [N][C][H][W], w [K][C][R][S], y [N][K][P][Q], with R = 3
// stride_h and S = 3 stride_w.
#pragma once

#include <cstdint>

namespace podium {

struct WinogradShape {
  std::int64_t images = 0;
  std::int64_t in_channels = 0;
  std::int64_t in_height = 0;
  std::int64_t in_width = 0;
  std::int64_t out_channels = 0;
  std::int64_t out_height = 0;
  std::int64_t out_width = 0;
  std::int64_t stride_height = 1;
  std::int64_t stride_width = 1;
  std::int64_t pad_top = 0;
  std::int64_t pad_left = 0;
};

void winograd_reference(const WinogradShape& shape, const float* x, const float* w, float* y);
void winograd_grad_input_reference(const WinogradShape& shape, const float* dy, const float* w,
                                   float* dx);
// Layers with many channels have an order of their own for the gradient to the weights.
bool winograd_grad_weight_is_wide(const WinogradShape& shape);
void winograd_grad_weight_reference(const WinogradShape& shape, const float* dy, const float* x,
                                    float* dw);

}  // namespace podium
