// The contract of the Winograd convolution (docs/numerics.md) as plain scalar loops: the oracle of
// every kernel. Tensors are plain: x [N][C][H][W], w [K][C][R][S], y [N][K][P][Q], with R = 3
// stride_h and S = 3 stride_w.
#pragma once

#include "ops/geometry.h"

namespace podium {

void winograd_reference(const ConvShape& shape, const float* x, const float* w, float* y);
void winograd_grad_input_reference(const ConvShape& shape, const float* dy, const float* w,
                                   float* dx);
// Layers with many channels have an order of their own for the gradient to the weights.
bool winograd_grad_weight_is_wide(const ConvShape& shape);
void winograd_grad_weight_reference(const ConvShape& shape, const float* dy, const float* x,
                                    float* dw);

}  // namespace podium
