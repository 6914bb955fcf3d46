// The matrix product of BF16 numbers (contract matmul_bf16), in phases and parts as in
// kernels/conv/conv.h. Matrices are plain and row-major, but where one is said to be in lanes.
#pragma once

#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/products/matmul.h"
#include "base/numerics/precision.h"

namespace podium::cpu {

struct MatmulBf16 {
  Bf16Order order = Bf16Order::kAmx;
  MatmulShape shape;
  // a's rows, which transpose_a makes its terms, are images in lanes (layout.h).
  bool a_in_lanes = false;
  // c's columns are images in lanes.
  bool c_in_lanes = false;
  // c holds the sums of the terms before these; a multiple of kBf16Run of them.
  bool continues = false;
  // What is made is rounded to BF16; not in lanes.
  bool rounded = false;
};

ConvWork matmul_bf16_work(const MatmulBf16& product);
void matmul_bf16(const MatmulBf16& product, const float* a, const float* b, float* c, float* shared,
                 float* scratch, int phase, int part);

}  // namespace podium::cpu
