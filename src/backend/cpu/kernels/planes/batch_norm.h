// Batch normalisation and the activation after it (contracts `batch_norm...`). A part owns
// channels: it reads a channel's images twice, the second time from the cache.
#pragma once

#include <cstdint>

#include "backend/cpu/kernels/layout.h"
#include "base/numerics/activation.h"

namespace podium::cpu {

struct BatchNormShape {
  ActivationShape x;
  float epsilon = 1e-3f;
  Activation activation = {};
  // The largest of each window of 2x2 of y; x has even height and width, and dy is as y is.
  bool pools = false;
  // The activation is that of the sum with the addend.
  bool activates_sum = false;
  // Nothing is applied to x: y is [2][C], what each channel's scale and shift would be.
  bool defers = false;
  // y, or dx, is rounded to BF16.
  bool rounded = false;
};
// Each of the three adds `addend`, in lanes as x, to its result (dx, or a y that is not pooled)
// where it is not null.

// x, y in lanes (a y that is not pooled may be x where x is not needed again) but where y is
// deferred; the rest [C].
int batch_norm_parts(const BatchNormShape& shape);
void batch_norm(const BatchNormShape& shape, const float* x, const float* gamma, const float* beta,
                const float* addend, float* y, float* mean, float* var, float* inv_std, int part);

// x, dy, dx in lanes (dx may be dy where nothing is pooled, never x or the addend); the rest [C].
// dy is the gradient to the unit's result; the activation's derivative, and where a window's
// largest value stands, are recomputed from x.
int batch_norm_grad_parts(const BatchNormShape& shape);
void batch_norm_grad(const BatchNormShape& shape, const float* dy, const float* x,
                     const float* gamma, const float* beta, const float* mean, const float* inv_std,
                     const float* addend, float* dx, float* dgamma, float* dbeta, int part);

// With the running mean and variance; a y that is not pooled may be x or the addend. x is not
// read where y is deferred.
int batch_norm_inference_parts(const BatchNormShape& shape);
void batch_norm_inference(const BatchNormShape& shape, const float* x, const float* gamma,
                          const float* beta, const float* running_mean, const float* running_var,
                          const float* addend, float* y, int part);

// The running statistics after a step; `count` = N * H * W. new_* may be old_*.
void batch_norm_running(std::int64_t channels, std::int64_t count, float momentum,
                        const float* mean, const float* var, const float* old_mean,
                        const float* old_var, float* new_mean, float* new_var);

}  // namespace podium::cpu
