// Operations on the rows of plain row-major matrices (docs/numerics.md: embedding, layer_norm,
// attention and their gradients, rotary, cache_row, and bias_add, channel_sum of matrices).
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"
#include "ops/geometry.h"

namespace podium::PODIUM_CUDA_SPACE {

// y = x + bias[column].
void bias_add_rows(const Launch& launch, std::int64_t rows, std::int64_t columns, Source x,
                   ConstFloats bias, const Result& y);
// sum[column], the image sum over the rows.
void channel_sum_rows(const Launch& launch, std::int64_t rows, std::int64_t columns, Source x,
                      Floats sum);

// What a token's row of the table is: tokens[n], or n % period where that is not 0.
struct EmbeddingShape {
  std::int64_t tokens, rows, columns, period;
};
void embedding(const Launch& launch, const EmbeddingShape& shape, Each<const std::int32_t> tokens,
               ConstFloats table, const Result& y);
// `next` [tokens] and `is_first` [tokens] are scratch.
void embedding_grad(const Launch& launch, const EmbeddingShape& shape,
                    Each<const std::int32_t> tokens, Source dy, Each<std::int32_t> next,
                    Each<std::int32_t> is_first, Floats dtable);

struct CacheShape {
  std::int64_t sequences, tokens, features;
};
// `moved` [sequences tokens features] is scratch. `next` may lie where `kept` does.
void cache_row(const Launch& launch, const CacheShape& shape, Each<const std::int32_t> positions,
               Each<const std::int32_t> origins, ConstFloats row, ConstFloats kept, Floats moved,
               Floats next, Each<std::int32_t> seen);

struct LayerNormShape {
  std::int64_t rows, columns;
  float epsilon;
  bool centred;
};
// `shift` only of rows that are centred.
void layer_norm(const Launch& launch, const LayerNormShape& shape, Source x, ConstFloats scale,
                ConstFloats shift, const Result& y);
std::int64_t layer_norm_grad_scratch(const LayerNormShape& shape);
void layer_norm_grad(const Launch& launch, const LayerNormShape& shape, Source dy, Source x,
                     ConstFloats scale, const Result& dx, Floats dscale, Floats dshift,
                     Floats scratch);

// `table` as rotary_table() makes it. `positions` of the rows; null: sequence by sequence.
void rotary(const Launch& launch, const RotaryShape& shape, ConstFloats table, Source x,
            Each<const std::int32_t> positions, const Result& y);

// --- kernels/attention.cu

// The largest score of each query, what the exponentials are multiplied by, and a mean.
std::int64_t attention_scratch(const AttentionShape& shape);
// `lengths`: of the keys of each sequence; null: all are seen.
void attention(const Launch& launch, const AttentionShape& shape, Source q, Source k, Source v,
               Each<const std::int32_t> lengths, const Result& y);
struct AttentionGrad {
  Each<const std::int32_t> lengths;
  Source dy, q, k, v;
  Result dq, dk, dv;
};
void attention_grad(const Launch& launch, const AttentionShape& shape, const AttentionGrad& grad,
                    Floats scratch);

// --- kernels/attention_bf16.cu, the same of BF16 operands, from compute capability 8.0 on

void attention_bf16(const Launch& launch, const AttentionShape& shape, Source q, Source k, Source v,
                    Each<const std::int32_t> lengths, const Result& y);
void attention_bf16_grad(const Launch& launch, const AttentionShape& shape,
                         const AttentionGrad& grad, Floats scratch);

}  // namespace podium::PODIUM_CUDA_SPACE
