// Operations on the rows of plain row-major matrices (docs/numerics.md: embedding, layer_norm,
// attention and their gradients, rotary).
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"
#include "ops/geometry.h"

namespace podium::PODIUM_CUDA_SPACE {

// What a token's row of the table is: tokens[n], or n % period where that is not 0.
struct EmbeddingShape {
  std::int64_t tokens, rows, columns, period;
};
void embedding(const Launch& launch, const EmbeddingShape& shape, Each<const std::int32_t> tokens,
               ConstFloats table, Floats y);
// `next` [tokens] and `is_first` [tokens] are scratch.
void embedding_grad(const Launch& launch, const EmbeddingShape& shape,
                    Each<const std::int32_t> tokens, ConstFloats dy, Each<std::int32_t> next,
                    Each<std::int32_t> is_first, Floats dtable);

struct LayerNormShape {
  std::int64_t rows, columns;
  float epsilon;
  bool centred;
};
// `shift` only of rows that are centred.
void layer_norm(const Launch& launch, const LayerNormShape& shape, ConstFloats x, ConstFloats scale,
                ConstFloats shift, Floats y);
std::int64_t layer_norm_grad_scratch(const LayerNormShape& shape);
void layer_norm_grad(const Launch& launch, const LayerNormShape& shape, ConstFloats dy,
                     ConstFloats x, ConstFloats scale, Floats dx, Floats dscale, Floats dshift,
                     Floats scratch);

// `table` as rotary_table() makes it.
void rotary(const Launch& launch, const RotaryShape& shape, ConstFloats table, ConstFloats x,
            Floats y);

// The largest score of each query and what the exponentials are multiplied by.
std::int64_t attention_scratch(const AttentionShape& shape);
// `lengths`: of the keys of each sequence; null: all are seen.
void attention(const Launch& launch, const AttentionShape& shape, ConstFloats q, ConstFloats k,
               ConstFloats v, Each<const std::int32_t> lengths, Floats y);
struct AttentionGrad {
  Each<const std::int32_t> lengths;
  ConstFloats dy, q, k, v;
  Floats dq, dk, dv;
};
void attention_grad(const Launch& launch, const AttentionShape& shape, const AttentionGrad& grad,
                    Floats scratch);

}  // namespace podium::PODIUM_CUDA_SPACE
