// Convolution and its gradients of BF16 operands (contracts conv2d_bf16...), with the batch in the
// lanes: tensors, phases, parts and memory as in kernels/conv/conv.h. What is made `rounded` is
// rounded to BF16.
#pragma once

#include "backend/cpu/kernels/conv/conv.h"
#include "base/numerics/precision.h"

namespace podium::cpu {

ConvWork conv_bf16_forward_work(Bf16Order order, const ConvShape& shape);
void conv_bf16_forward(Bf16Order order, bool rounded, const ConvShape& shape, const float* x,
                       const float* w, float* y, float* shared, float* scratch, int phase,
                       int part);

ConvWork conv_bf16_grad_input_work(Bf16Order order, const ConvShape& shape);
void conv_bf16_grad_input(Bf16Order order, bool rounded, const ConvShape& shape, const float* dy,
                          const float* w, float* dx, float* shared, float* scratch, int phase,
                          int part);

ConvWork conv_bf16_grad_weight_work(Bf16Order order, const ConvShape& shape);
void conv_bf16_grad_weight(Bf16Order order, const ConvShape& shape, const float* dy, const float* x,
                           float* dw, float* shared, float* scratch, int phase, int part);

// The gradient to the weights in the order of a tensor core.
ConvWork conv_bf16_grad_weight_in_parts_work(const ConvShape& shape);
void conv_bf16_grad_weight_in_parts(Bf16Order order, const ConvShape& shape, const float* dy,
                                    const float* x, float* dw, float* shared, float* scratch,
                                    int phase, int part);

}  // namespace podium::cpu
