// The matrix product of plain row-major matrices of BF16 numbers (contract matmul_bf16), in phases
// and parts as in kernels/conv/conv.h. What is made `rounded` is rounded to BF16.
#pragma once

#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/products/matmul.h"
#include "base/numerics/precision.h"

namespace podium::cpu {

ConvWork matmul_bf16_work(Bf16Order order, const MatmulShape& shape);
void matmul_bf16(Bf16Order order, bool rounded, const MatmulShape& shape, const float* a,
                 const float* b, float* c, float* shared, float* scratch, int phase, int part);

}  // namespace podium::cpu
