// Recurrent layers over whole sequences (docs/numerics.md, lstm and gru): at each token the product
// of all states, then a thread for each unit of a sequence.
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"
#include "ops/geometry.h"

namespace podium::PODIUM_CUDA_SPACE {

// The floats of a token's products, and of what their product needs, for each replica.
std::int64_t recurrent_products(const RecurrentShape& shape);
std::int64_t recurrent_scratch(const RecurrentShape& shape);
std::int64_t recurrent_grad_scratch(const RecurrentShape& shape);
struct LstmLayer {
  ConstFloats x, w, first_hidden, first_cells;
  Floats hidden, gates, cells, before, last_hidden, last_cells, products, scratch;
};
void lstm(const Launch& launch, const RecurrentShape& shape, const LstmLayer& layer);

struct LstmGrad {
  ConstFloats to_hidden, to_last_hidden, to_last_cells, w, first_cells, gates, cells;
  Floats dx, to_first_hidden, to_first_cells, scratch;
};
void lstm_grad(const Launch& launch, const RecurrentShape& shape, const LstmGrad& grad);

struct GruLayer {
  ConstFloats x, w, bias, first_hidden;
  Floats hidden, gates, before, last_hidden, products, scratch;
};
void gru(const Launch& launch, const RecurrentShape& shape, const GruLayer& layer);

// `kept` [sequences][units], of each replica: what reaches a state past the product.
struct GruGrad {
  ConstFloats to_hidden, to_last_hidden, w, gates, before;
  Floats dx, to_states, to_first_hidden, kept, scratch;
};
void gru_grad(const Launch& launch, const RecurrentShape& shape, const GruGrad& grad);

}  // namespace podium::PODIUM_CUDA_SPACE
