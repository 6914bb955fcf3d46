// Convolutions with the batch in the lanes (kernels/layout.h): activations x[n / 16][c][h][w][n %
// 16], weights plain [K][C][R][S]. The arithmetic is that of docs/numerics.md, bit for bit, on
// every target: `conv_*` are the contracts conv2d, conv2d_grad_input and conv2d_grad_weight.
//
// A kernel runs in phases, one after the other; the parts of a phase run in any order, on any
// threads, with equal bits. ConvWork says how many there are (a function of the shape alone) and
// how much memory they want: `shared` is one buffer kept from the first phase to the end of the
// last, `scratch` one buffer for each part that runs at a time, its contents of no further use.
// Both best aligned to 64 bytes. Kernels check nothing, allocate nothing and keep no state. Padding
// lanes of the last block may hold anything on input and hold anything on output; they reach no sum
// over images.
#pragma once

#include <cstdint>

#include "backend/cpu/kernels/layout.h"
#include "base/numerics/activation.h"
#include "ops/geometry.h"

namespace podium::cpu {

// Floats in memory, padding lanes included.
constexpr std::int64_t in_floats(const ConvShape& s) {
  return padded(s.images) * s.in_channels * s.in_pixels();
}
constexpr std::int64_t out_floats(const ConvShape& s) {
  return padded(s.images) * s.out_channels * s.out_pixels();
}

inline constexpr int kMaxConvPhases = 3;
struct ConvWork {
  int phases = 0;
  int parts[kMaxConvPhases] = {};
  std::int64_t shared = 0;   // floats
  std::int64_t scratch = 0;  // floats for each part that runs at a time
};

// Contract conv2d: y from x and w.
ConvWork conv_forward_work(const ConvShape& shape);
void conv_forward(const ConvShape& shape, const float* x, const float* w, float* y, float* shared,
                  float* scratch, int phase, int part);

// Contract conv2d_grad_input: dx from dy and w.
ConvWork conv_grad_input_work(const ConvShape& shape);
void conv_grad_input(const ConvShape& shape, const float* dy, const float* w, float* dx,
                     float* shared, float* scratch, int phase, int part);

// Contract conv2d_grad_weight: dw from dy and x.
ConvWork conv_grad_weight_work(const ConvShape& shape);
void conv_grad_weight(const ConvShape& shape, const float* dy, const float* x, float* dw,
                      float* shared, float* scratch, int phase, int part);

// The same convolution by Winograd's algorithm, a contract of its own (docs/numerics.md,
// conv2d_winograd): R = 3 stride_height and S = 3 stride_width.
bool conv_winograd_applies(const ConvShape& shape);

ConvWork conv_winograd_forward_work(const ConvShape& shape);
void conv_winograd_forward(const ConvShape& shape, const float* x, const float* w, float* y,
                           float* shared, float* scratch, int phase, int part);
ConvWork conv_winograd_grad_input_work(const ConvShape& shape);
void conv_winograd_grad_input(const ConvShape& shape, const float* dy, const float* w, float* dx,
                              float* shared, float* scratch, int phase, int part);
ConvWork conv_winograd_grad_weight_work(const ConvShape& shape);
void conv_winograd_grad_weight(const ConvShape& shape, const float* dy, const float* x, float* dw,
                               float* shared, float* scratch, int phase, int part);

// What is convolved in place of x: activation(x * scale + shift) of each channel; x itself where
// `scale` is null. The activation is not a costly one (base/numerics/activation.h).
struct ImageNorm {
  const float* scale = nullptr;  // [C]
  const float* shift = nullptr;  // [C]
  Activation activation = {};
};

// The forward pass with its neighbours. `pools`: the largest of each window of 2x2 of the output is
// taken, where all tiles are whole; `place`, unless it is null, then gets which pixel of its window
// that was, row by row from 0 (pool.h).
struct ConvForward {
  const float *x, *w;
  float* y;
  ImageNorm norm = {};
  bool pools = false;
  float* place = nullptr;
};
void conv_winograd_fused_forward(const ConvShape& shape, const ConvForward& tensors, float* shared,
                                 float* scratch, int phase, int part);

// The gradients where the output is pooled: the largest of each window of 2x2, which tile it. dy is
// the gradient to the pooled output, and `place` says which pixel of a window it belongs to
// (pool.h); in ConvGradWeight it is null where nothing is pooled.
void conv_winograd_grad_input_pooled(const ConvShape& shape, const float* dy, const float* place,
                                     const float* w, float* dx, float* shared, float* scratch,
                                     int phase, int part);
// That to the weights, of images that are normalised too, for wide layers.
struct ConvGradWeight {
  const float *dy, *x;
  float* dw;
  const float* place = nullptr;
  ImageNorm norm = {};
};
bool conv_winograd_grad_weight_is_wide(const ConvShape& shape);
void conv_winograd_fused_grad_weight(const ConvShape& shape, const ConvGradWeight& tensors,
                                     float* shared, float* scratch, int phase, int part);

// Runs all phases and parts on the calling thread.
template <typename Kernel>
void run_serially(const ConvWork& work, const Kernel& kernel) {
  for (int phase = 0; phase < work.phases; ++phase)
    for (int part = 0; part < work.parts[phase]; ++part) kernel(phase, part);
}

}  // namespace podium::cpu
