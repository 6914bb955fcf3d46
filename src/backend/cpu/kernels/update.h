// The optimizers' updates, on flat ranges of parameters in parts of elementwise.h's
// flat_parts(count) (contracts `adam`, `sgd`, `rescale`).
//
// `shared`: other cores read the parameters next. They are then written past the caches: a line
// that another core holds too would first have to be taken from it, which takes three times as long
// and, between cores that share no cache, ten times (docs/kernels.md).
#pragma once

#include <cstdint>

#include "backend/cpu/kernels/elementwise.h"

namespace podium::cpu {

// One step's constants: those in brackets in the contract computed in double and rounded once.
struct AdamStep {
  float beta1, one_minus_beta1;  // 1 - beta in FP32
  float beta2, one_minus_beta2;
  float rate;        // lr / (1 - beta1^t)
  float root_scale;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
  float weight_decay;  // added to the gradient; 0: none
  float shrink = 0;    // lr * weight decay that is decoupled, where there is none of the former
};
void adam(std::int64_t count, const AdamStep& step, const float* gradient, float* parameter,
          float* m, float* v, bool shared, int part);

struct SgdStep {
  float rate;
  float momentum;
  float weight_decay;  // 0: none
  bool nesterov;
};
void sgd(std::int64_t count, const SgdStep& step, const float* gradient, float* parameter, float* v,
         bool shared, int part);

// y = x * (norm / (|x| + epsilon)) (contract `rescale`), in two phases: the sum of squares of each
// run of ops/ops.h's kSquareRun elements to sums[squares_parts(count)], then the rest, flat.
int squares_parts(std::int64_t count);
void squares(std::int64_t count, const float* x, float* sums, int part);
void rescale(std::int64_t count, float norm, float epsilon, const float* x, const float* sums,
             float* y, int part);

}  // namespace podium::cpu
