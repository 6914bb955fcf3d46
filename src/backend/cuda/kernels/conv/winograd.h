// Winograd convolution and its gradients (docs/numerics.md) of batch-last images: x [C][H][W][N], y
// [K][P][Q][N]. Weights are plain, [K][C][3 stride_h][3 stride_w], and so is their gradient.
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"
#include "base/numerics/activation.h"
#include "ops/images/winograd_reference.h"

namespace podium::PODIUM_CUDA_SPACE {

// Images that are normalised where they are read: activation(fma(x, scale, shift)), with scale and
// shift [2][C]. Without `affine` they are taken as they are.
struct WinogradNorm {
  ConstFloats affine;
  Activation activation;
};

// The floats of `scratch`, for each replica. Its memory begins at a multiple of 16 bytes.
std::int64_t conv2d_winograd_scratch(const ConvShape& shape);
std::int64_t conv2d_winograd_grad_input_scratch(const ConvShape& shape);
std::int64_t conv2d_winograd_grad_weight_scratch(const ConvShape& shape);

// What the output becomes: itself, or the maxima of its windows of 2x2 and, unless null, their
// places.
struct WinogradResult {
  Floats y;
  bool pools = false;
  Floats places;
};
void conv2d_winograd(const Launch& launch, const ConvShape& shape, ConstFloats x, ConstFloats w,
                     const WinogradResult& result, Floats scratch, const WinogradNorm& norm = {});

// The gradient to the output: itself, or with `places` that to its maxima.
struct WinogradGradient {
  ConstFloats dy;
  ConstFloats places;
};
void conv2d_winograd_grad_input(const Launch& launch, const ConvShape& shape,
                                const WinogradGradient& gradient, ConstFloats w, Floats dx,
                                Floats scratch);
void conv2d_winograd_grad_weight(const Launch& launch, const ConvShape& shape, ConstFloats x,
                                 const WinogradGradient& gradient, Floats dw, Floats scratch,
                                 const WinogradNorm& norm = {});

}  // namespace podium::PODIUM_CUDA_SPACE
