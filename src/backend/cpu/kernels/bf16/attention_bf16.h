// Attention of BF16 operands (contract attention_bf16) and its gradient. A part is a run of heads,
// or of groups that share keys, each computed by one thread. Matrices are plain.
#pragma once

#include <cstdint>

#include "base/numerics/precision.h"
#include "ops/geometry.h"

namespace podium::cpu {

struct AttentionBf16 {
  AttentionShape shape;
  Bf16Order order = Bf16Order::kAmx;
};
// A result, and whether it is rounded to BF16.
struct RoundedRows {
  float* to = nullptr;
  bool rounded = false;
};
struct AttentionBf16Operands {
  const float *q, *k, *v;
  const std::int32_t* lengths;  // of the keys of each sequence; null: all are seen
};

// Floats of a thread's own.
std::int64_t attention_bf16_scratch(const AttentionBf16& attention, bool gradient);
int attention_bf16_parts(const AttentionShape& shape);
void attention_bf16(const AttentionBf16& attention, const AttentionBf16Operands& in, RoundedRows y,
                    float* scratch, int part);

int attention_bf16_grad_parts(const AttentionShape& shape);
void attention_bf16_grad(const AttentionBf16& attention, const AttentionBf16Operands& in,
                         const float* dy, RoundedRows dq, RoundedRows dk, RoundedRows dv,
                         float* scratch, int part);

}  // namespace podium::cpu
