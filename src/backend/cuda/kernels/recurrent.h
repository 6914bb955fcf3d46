// A layer of long short-term memory over whole sequences (docs/numerics.md, lstm): at each token
// the product of all states, then a thread for each unit of a sequence.
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"
#include "ops/geometry.h"

namespace podium::PODIUM_CUDA_SPACE {

// The floats of a token's products, and of what their product needs, for each replica.
std::int64_t lstm_products(const LstmShape& shape);
std::int64_t lstm_scratch(const LstmShape& shape);
struct LstmLayer {
  ConstFloats x, w, first_hidden, first_cells;
  Floats hidden, gates, cells, before, last_hidden, last_cells, products, scratch;
};
void lstm(const Launch& launch, const LstmShape& shape, const LstmLayer& layer);

std::int64_t lstm_grad_scratch(const LstmShape& shape);
struct LstmGrad {
  ConstFloats to_hidden, to_last_hidden, to_last_cells, w, first_cells, gates, cells;
  Floats dx, to_first_hidden, to_first_cells, scratch;
};
void lstm_grad(const Launch& launch, const LstmShape& shape, const LstmGrad& grad);

}  // namespace podium::PODIUM_CUDA_SPACE
