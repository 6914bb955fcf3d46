// Convolution and its gradients of BF16 operands (contracts conv2d_bf16...), with the batch in the
// lanes: tensors, phases, parts and memory as in kernels/conv/conv.h.
#pragma once

#include "backend/cpu/kernels/conv/conv.h"

namespace podium::cpu {

ConvWork conv_bf16_forward_work(const ConvShape& shape);
void conv_bf16_forward(const ConvShape& shape, const float* x, const float* w, float* y,
                       float* shared, float* scratch, int phase, int part);

ConvWork conv_bf16_grad_input_work(const ConvShape& shape);
void conv_bf16_grad_input(const ConvShape& shape, const float* dy, const float* w, float* dx,
                          float* shared, float* scratch, int phase, int part);

ConvWork conv_bf16_grad_weight_work(const ConvShape& shape);
void conv_bf16_grad_weight(const ConvShape& shape, const float* dy, const float* x, float* dw,
                           float* shared, float* scratch, int phase, int part);

}  // namespace podium::cpu
