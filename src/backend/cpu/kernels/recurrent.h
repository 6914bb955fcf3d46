// Recurrent layers over whole sequences (docs/numerics.md, lstm and gru). A part is some
// of the sequences, which depend on nothing of each other, over all of their tokens.
#pragma once

#include <cstdint>

#include "ops/geometry.h"

namespace podium::cpu {

// The weights of a layer as a product reads them: element (k, j) of [depth, columns] lies at
// [k * row + j * column].
struct RecurrentWeights {
  std::int64_t depth, columns, row, column;
};
// Those of the product of states, and of gradients.
RecurrentWeights recurrent_weights(const RecurrentShape& shape);
RecurrentWeights recurrent_grad_weights(const RecurrentShape& shape);
std::int64_t packed_floats(const RecurrentWeights& weights);
int pack_parts(const RecurrentWeights& weights);
void pack(const RecurrentWeights& weights, const float* w, float* packed, int part);

int recurrent_parts(const RecurrentShape& shape);
// The floats of `scratch`, which is a thread's own.
std::int64_t recurrent_scratch(const RecurrentShape& shape);

struct LstmLayer {
  const float *x, *packed_w, *first_hidden, *first_cells;
  float *hidden, *gates, *cells, *before, *last_hidden, *last_cells;
};
void lstm(const RecurrentShape& shape, const LstmLayer& layer, float* scratch, int part);

struct LstmGrad {
  const float *to_hidden, *to_last_hidden, *to_last_cells, *packed_w, *first_cells, *gates, *cells;
  float *dx, *to_first_hidden, *to_first_cells;
};
void lstm_grad(const RecurrentShape& shape, const LstmGrad& grad, int part);

struct GruLayer {
  const float *x, *packed_w, *bias, *first_hidden;
  float *hidden, *gates, *before, *last_hidden;
};
void gru(const RecurrentShape& shape, const GruLayer& layer, float* scratch, int part);

struct GruGrad {
  const float *to_hidden, *to_last_hidden, *packed_w, *gates, *before;
  float *dx, *to_states, *to_first_hidden;
};
void gru_grad(const RecurrentShape& shape, const GruGrad& grad, float* scratch, int part);

}  // namespace podium::cpu
