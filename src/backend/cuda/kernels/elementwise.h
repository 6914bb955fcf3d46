// Kernels that compute each element from those at its place: arithmetic, activations, the updates
// of optimizers. Layouts do not matter.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cuda/launch.h"
#include "base/numerics/activation.h"
#include "ops/ops.h"

namespace podium::PODIUM_CUDA_SPACE {

void add(const Launch& launch, std::int64_t count, Source a, Source b, const Result& y);
void sub(const Launch& launch, std::int64_t count, Source a, Source b, const Result& y);
void mul(const Launch& launch, std::int64_t count, Source a, Source b, const Result& y);
void scale(const Launch& launch, std::int64_t count, float factor, Source x, const Result& y);
void divide(const Launch& launch, std::int64_t count, float divisor, Source x, const Result& y);
// y = x * *factor
void multiply_by(const Launch& launch, std::int64_t count, Source x, ConstFloats factor,
                 const Result& y);
// y = fma(a, u, b * v)
void combine(const Launch& launch, std::int64_t count, const CombineAttributes& attributes,
             Source u, Source v, const Result& y);
void activate(const Launch& launch, std::int64_t count, const Activation& activation, Source x,
              const Result& y);
void activate_grad(const Launch& launch, std::int64_t count, const Activation& activation,
                   Source dy, Source x, const Result& dx);
// Of the gradient dy + more.
void activate_sum_grad(const Launch& launch, std::int64_t count, const Activation& activation,
                       Source dy, Source more, Source x, const Result& dx);
// Rounded to BF16.
void round_bf16(const Launch& launch, std::int64_t count, Source x, const Result& y);
// y = x + bias[channel], x [channels][inner].
void bias_add(const Launch& launch, std::int64_t channels, std::int64_t inner, Source x,
              ConstFloats bias, const Result& y);

// The updates; results may be the memory of the operands that they replace.
void descend(const Launch& launch, std::int64_t count, ConstFloats p, ConstFloats direction,
             ConstFloats rate, Floats y);
struct SgdOperands {
  ConstFloats p, g, v, rate;
  Floats new_p, new_v;
};
struct SgdPart {
  std::int64_t count;
  SgdAttributes attributes;
  SgdOperands operands;
};
// Of several tensors, kTogether at most in a launch.
void sgd_update(const Launch& launch, std::span<const SgdPart> parts);
struct AdamOperands {
  ConstFloats p, g, m, v, step_size, correction, learning_rate;  // the last if decoupled
  Floats new_p, new_m, new_v;
};
void adam_update(const Launch& launch, std::int64_t count, const AdamAttributes& attributes,
                 const AdamOperands& operands);

// mask [features][images], from step and replica, u32 scalars.
void dropout_mask(const Launch& launch, const DropoutMaskAttributes& attributes,
                  Each<const std::uint32_t> step, Each<const std::uint32_t> replica, Floats mask);

}  // namespace podium::PODIUM_CUDA_SPACE
