// The direct gradient to the weights of wide layers (contract conv2d_grad_weight, by columns).
#pragma once

#include "backend/cpu/kernels/conv/conv.h"

namespace podium::cpu {

constexpr bool direct_weight_is_wide(const ConvShape& s) {
  return s.in_channels >= 16 && s.out_channels % 16 == 0;
}
ConvWork direct_weight_wide_work(const ConvShape& shape);
void direct_weight_wide(const ConvShape& shape, const float* dy, const float* x, float* dw,
                        float* scratch, int part);

}  // namespace podium::cpu
