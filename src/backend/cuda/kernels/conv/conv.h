// Convolution and its gradients (docs/numerics.md, conv2d) of batch-last images: x [C][H][W][N],
// y [K][P][Q][N]. Weights are plain, [K][C][R][S], and so is their gradient.
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"
#include "ops/geometry.h"

namespace podium::PODIUM_CUDA_SPACE {

// The floats of `scratch`, for each replica. Its memory begins at a multiple of 16 bytes.
std::int64_t conv2d_scratch(const ConvShape& shape);
std::int64_t conv2d_grad_input_scratch(const ConvShape& shape);
std::int64_t conv2d_grad_weight_scratch(const ConvShape& shape);

void conv2d(const Launch& launch, const ConvShape& shape, ConstFloats x, ConstFloats w, Floats y,
            Floats scratch);
void conv2d_grad_input(const Launch& launch, const ConvShape& shape, ConstFloats dy, ConstFloats w,
                       Floats dx, Floats scratch);
void conv2d_grad_weight(const Launch& launch, const ConvShape& shape, ConstFloats x, ConstFloats dy,
                        Floats dw, Floats scratch);

}  // namespace podium::PODIUM_CUDA_SPACE
