// A layer of long short-term memory over whole sequences (docs/numerics.md, lstm). A part is some
// of the sequences, which depend on nothing of each other, over all of their tokens.
#pragma once

#include <cstdint>

#include "ops/geometry.h"

namespace podium::cpu {

// The weights as the products of states read them, and as those of gradients do.
std::int64_t lstm_packed_floats(const LstmShape& shape);
std::int64_t lstm_grad_packed_floats(const LstmShape& shape);
int lstm_pack_parts(const LstmShape& shape);
void lstm_pack(const LstmShape& shape, const float* w, float* packed, int part);
int lstm_grad_pack_parts(const LstmShape& shape);
void lstm_grad_pack(const LstmShape& shape, const float* w, float* packed, int part);

int lstm_parts(const LstmShape& shape);
// The floats of `scratch`, which is a thread's own.
std::int64_t lstm_scratch(const LstmShape& shape);

struct LstmLayer {
  const float *x, *packed_w, *first_hidden, *first_cells;
  float *hidden, *gates, *cells, *before, *last_hidden, *last_cells;
};
void lstm(const LstmShape& shape, const LstmLayer& layer, float* scratch, int part);

struct LstmGrad {
  const float *to_hidden, *to_last_hidden, *to_last_cells, *packed_w, *first_cells, *gates, *cells;
  float *dx, *to_first_hidden, *to_first_cells;
};
void lstm_grad(const LstmShape& shape, const LstmGrad& grad, int part);

}  // namespace podium::cpu
