// Operations on the rows of plain row-major matrices (docs/numerics.md: embedding, layer_norm,
// attention and their gradients, rotary). A part is a run of rows, columns or heads.
#pragma once

#include <cstdint>

#include "ops/geometry.h"

namespace podium::cpu {

// --- embedding

// What a token's row of the table is: tokens[n], or n % period where that is not 0.
struct EmbeddingShape {
  std::int64_t tokens = 0;
  std::int64_t rows = 0;  // of the table
  std::int64_t columns = 0;
  std::int64_t period = 0;
};
int embedding_parts(const EmbeddingShape& shape);
void embedding(const EmbeddingShape& shape, const std::int32_t* tokens, const float* table,
               float* y, int part);
// Where each row of the table stands among the tokens: `order` [tokens] has the places of row r
// from first[r] to first[r + 1], ascending; `first` is [rows + 1].
void embedding_places(const EmbeddingShape& shape, const std::int32_t* tokens, std::int32_t* first,
                      std::int32_t* order);
int embedding_grad_parts(const EmbeddingShape& shape);
void embedding_grad(const EmbeddingShape& shape, const std::int32_t* first,
                    const std::int32_t* order, const float* dy, float* dtable, int part);

// --- layer norm

struct LayerNormShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  float epsilon = 0;
  bool centred = true;
};
int layer_norm_parts(const LayerNormShape& shape);
void layer_norm(const LayerNormShape& shape, const float* x, const float* scale, const float* shift,
                float* y, int part);
// dx, and `statistics` [rows][2] for layer_norm_grad_weights: mean and scale.
void layer_norm_grad(const LayerNormShape& shape, const float* dy, const float* x,
                     const float* scale, float* dx, float* statistics, int part);
int layer_norm_grad_weights_parts(const LayerNormShape& shape);
// dshift is null where rows are not centred.
void layer_norm_grad_weights(const LayerNormShape& shape, const float* dy, const float* x,
                             const float* statistics, float* dscale, float* dshift, int part);

// --- rotary

int rotary_parts(const RotaryShape& shape);
// `table` as rotary_table() makes it. `positions` of the rows: null: sequence by sequence.
void rotary(const RotaryShape& shape, const float* table, const float* x,
            const std::int32_t* positions, float* y, int part);

// --- attention: a step that packs, and one or two more

// Keys, or values, with sixteen tokens in a vector: packed[sequence][group][tile][feature][token].
std::int64_t attention_packed_floats(const AttentionShape& shape);
int attention_pack_parts(const AttentionShape& shape);
void attention_pack(const AttentionShape& shape, const float* keys, float* packed, int part);

// Floats of a thread's own.
std::int64_t attention_scratch(const AttentionShape& shape);
int attention_parts(const AttentionShape& shape);
// `lengths`: of the keys of each sequence; null: all are seen.
void attention(const AttentionShape& shape, const float* q, const float* packed_k, const float* v,
               const std::int32_t* lengths, float* y, float* scratch, int part);
struct AttentionGrad {
  const std::int32_t* lengths;
  const float *dy, *q, *k;
  const float *packed_k, *packed_v;
  float* statistics;  // [sequences][heads][tokens][3]: largest score, share, mean
  float *dq, *dk, *dv;
};
// dq and the statistics.
void attention_grad_queries(const AttentionShape& shape, const AttentionGrad& grad, float* scratch,
                            int part);
int attention_grad_keys_parts(const AttentionShape& shape);
std::int64_t attention_grad_keys_scratch(const AttentionShape& shape);
// dk and dv.
void attention_grad_keys(const AttentionShape& shape, const AttentionGrad& grad, float* scratch,
                         int part);

// Rows of products of a query and keys, `row` floats apart. The first query sees first_keys keys,
// each further one `more` more; behind them +0 is written, up to `columns`, a multiple of 16.
struct ScoreRows {
  std::int64_t rows = 0, row = 0, columns = 0;
  std::int64_t first_keys = 0, more = 0;
  float scale = 1;
};
// The products become the keys' weights.
void attention_weights(const ScoreRows& rows, float* p);
// dp, the gradients to the weights p, become those to the products.
void attention_score_gradients(const ScoreRows& rows, const float* p, float* dp);

}  // namespace podium::cpu
