// The dense layer y = x w^T on activations with the batch in the lanes (contract `matmul`).
#pragma once

#include <cstdint>

#include "backend/cpu/kernels/layout.h"

namespace podium::cpu {

// x [N, I] and y [N, O] in lanes; w [O][I] plain.
struct DenseShape {
  std::int64_t images = 0;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  // Of the gradient to w: dw holds the sum of the runs of images before these, which are added.
  bool adds = false;
};

// y[n,o] = sum over i of x[n,i] w[o,i].
int dense_forward_parts(const DenseShape& shape);
void dense_forward(const DenseShape& shape, const float* x, const float* w, float* y, int part);

// dx[n,i] = sum over o of dy[n,o] w[o,i].
int dense_grad_input_parts(const DenseShape& shape);
void dense_grad_input(const DenseShape& shape, const float* dy, const float* w, float* dx,
                      int part);

// dw[o][i] = sum over n of dy[n,o] x[n,i]. x_rows is x after lanes_to_rows (pack.h).
int dense_grad_weight_parts(const DenseShape& shape);
void dense_grad_weight(const DenseShape& shape, const float* dy, const float* x_rows, float* dw,
                       int part);

}  // namespace podium::cpu
