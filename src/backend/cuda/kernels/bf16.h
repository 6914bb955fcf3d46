// Convolution, its gradients and the matrix product of BF16 operands on tensor cores, of batch-last
// images as in kernels/conv.h and matrices as in kernels/matmul.h. Operands are rounded as the
// contracts say (docs/numerics.md, BF16), and so are the terms, their order and the parts of long
// sums, which follow from the shape alone. How a tensor core adds 16 terms depends on the GPU
// (tensor_cores.h).
//
// GPUs of compute capability 8.0 and above.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/conv/conv.h"
#include "backend/cuda/kernels/matmul.h"
#include "backend/cuda/launch.h"

namespace podium::PODIUM_CUDA_SPACE {

// A block of the largest tiles of a gradient to weights has a multiprocessor for itself, so nothing
// hides its beginning and its end: it needs so many slices.
#ifdef PODIUM_CUDA_EMULATED
inline int g_bf16_many_slices = 128;  // tests ask for fewer
inline int bf16_many_slices() { return g_bf16_many_slices; }
#else
constexpr int bf16_many_slices() { return 128; }
#endif

// Rounded operands: batch last, [feature][image], with images filled up to a multiple of 8 by
// zeros. Their memory begins at multiples of 16 bytes. Where nothing is filled up, the kernel that
// makes a value may write it so (Result, launch.h).
constexpr bool is_filled(std::int64_t images) { return images % 8 == 0; }
// The bytes of a rounded value.
std::int64_t rounded_bytes(std::int64_t features, std::int64_t images);
void round_images(const Launch& launch, std::int64_t features, std::int64_t images, ConstFloats x,
                  Halves to);

// The floats of `scratch`, for each replica. Its memory begins at a multiple of 16 bytes.
std::int64_t conv2d_bf16_scratch(const ConvShape& shape);
std::int64_t conv2d_bf16_grad_input_scratch(const ConvShape& shape);
std::int64_t conv2d_bf16_grad_weight_scratch(const ConvShape& shape);
std::int64_t matmul_bf16_scratch(const MatmulShape& shape);

void conv2d_bf16(const Launch& launch, const ConvShape& shape, ConstHalves x, ConstFloats w,
                 const Result& y, Floats scratch);
void conv2d_bf16_grad_input(const Launch& launch, const ConvShape& shape, ConstHalves dy,
                            ConstFloats w, const Result& dx, Floats scratch);
void conv2d_bf16_grad_weight(const Launch& launch, const ConvShape& shape, ConstHalves x,
                             ConstHalves dy, Floats dw, Floats scratch);
// Of a sum of parts, `shape.adds`, the terms before these are a multiple of a run's.
void matmul_bf16(const Launch& launch, const MatmulShape& shape, Source a, Source b,
                 const Result& y, Floats scratch);

}  // namespace podium::PODIUM_CUDA_SPACE
