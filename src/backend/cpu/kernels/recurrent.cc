#include "backend/cpu/kernels/recurrent.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/recurrent.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/functions-inl.h"
#include "backend/cpu/kernels/products/matmul-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

// Some columns, packed: run by run, and in each panel by panel.
void pack_columns(const RecurrentWeights& of, const float* w, Range own, float* packed) {
  for (int64_t run = 0; run < of.depth; run += kRun) {
    const int64_t rows = std::min(kRun, of.depth - run);
    for (int64_t j = own.begin; j < own.end; j += kPanel)
      pack_panel({w + run * of.row + j * of.column, of.row, of.column}, rows,
                 std::min(kPanel, own.end - j),
                 packed + run * pairs_of(of.columns) * kPairColumns + j * rows);
  }
}
// c [rows][columns] = a times those.
HWY_INLINE void multiply(int64_t rows, const Operand& a, const float* packed, int64_t depth,
                         int64_t columns, float* c) {
  for (int64_t run = 0; run < depth; run += kRun) {
    const int64_t terms = std::min(kRun, depth - run);
    for (int64_t j = 0; j < columns; j += kPanel)
      run_panel(rows, {a.first + run * a.column, a.row, a.column},
                packed + run * pairs_of(columns) * kPairColumns + j * terms, terms, c + j, columns,
                std::min(kPanel, columns - j), run == 0);
  }
}

void lstm_sequences(const RecurrentShape& s, Range own, const LstmLayer& l, float* products) {
  const int64_t rows = own.end - own.begin, units = s.units, gates = s.gates();
  for (int64_t step = 0; step < s.tokens; ++step) {
    const int64_t token = s.token(step),
                  row_before = own.begin * s.tokens + (step == 0 ? 0 : s.token(step - 1));
    // The states that this token finds.
    const Operand hidden = step == 0 ? Operand{l.first_hidden + own.begin * units, units, 1}
                                     : Operand{l.hidden + row_before * units, s.tokens * units, 1};
    const float* const cells =
        step == 0 ? l.first_cells + own.begin * units : l.cells + row_before * units;
    multiply(rows, hidden, l.packed_w, units, gates, products);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t row = (own.begin + r) * s.tokens + token;
      std::memcpy(l.before + row * units, hidden.first + r * hidden.row,
                  static_cast<size_t>(units) * sizeof(float));
      for (int64_t j = 0; j < units; j += kLanes) {
        const int64_t left = units - j;
        const auto sum = [&](int64_t gate) HWY_ATTR {
          const int64_t at = gate * units + j;
          return add16(load_some16(l.x + row * gates + at, left),
                       load_some16(products + r * gates + at, left));
        };
        const V16 input = logistic16(sum(0)), forget = logistic16(sum(1)),
                  candidate = tanh16(sum(2)), output = logistic16(sum(3));
        const V16 cell =
            fma16(forget, load_some16(cells + r * hidden.row + j, left), mul16(input, candidate));
        float* const to = l.gates + row * gates + j;
        store_some16(to, input, left);
        store_some16(to + units, forget, left);
        store_some16(to + 2 * units, candidate, left);
        store_some16(to + 3 * units, output, left);
        store_some16(l.cells + row * units + j, cell, left);
        store_some16(l.hidden + row * units + j, mul16(output, tanh16(cell)), left);
      }
    }
  }
  for (int64_t b = own.begin; b < own.end; ++b) {
    const int64_t row = b * s.tokens + s.token(s.tokens - 1);
    const auto bytes = static_cast<size_t>(units) * sizeof(float);
    std::memcpy(l.last_hidden + b * units, l.hidden + row * units, bytes);
    std::memcpy(l.last_cells + b * units, l.cells + row * units, bytes);
  }
}

// dy (y (1 - y)) and dy (1 - y^2)
HWY_INLINE V16 through_logistic16(const V16& dy, const V16& y) {
  return mul16(dy, mul16(y, sub16(set16(1), y)));
}
HWY_INLINE V16 through_tanh16(const V16& dy, const V16& y) {
  return mul16(dy, fnma16(y, y, set16(1)));
}

// What reaches the hidden states before a token lies in to_first_hidden, the cells' gradients in
// to_first_cells: at the end these are those before the first token.
void lstm_grad_sequences(const RecurrentShape& s, Range own, const LstmGrad& g) {
  const int64_t rows = own.end - own.begin, units = s.units, gates = s.gates();
  const int64_t first = own.begin * units;
  float *const to_hidden = g.to_first_hidden + first, *const to_cells = g.to_first_cells + first;
  const auto bytes = static_cast<size_t>(rows * units) * sizeof(float);
  std::memcpy(to_hidden, g.to_last_hidden + first, bytes);
  std::memcpy(to_cells, g.to_last_cells + first, bytes);
  for (int64_t step = s.tokens - 1; step >= 0; --step) {
    const int64_t token = s.token(step);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t sequence = own.begin + r, row = sequence * s.tokens + token;
      const float* const before = step == 0
                                      ? g.first_cells + sequence * units
                                      : g.cells + (sequence * s.tokens + s.token(step - 1)) * units;
      for (int64_t j = 0; j < units; j += kLanes) {
        const int64_t left = units - j;
        const float* const from = g.gates + row * gates + j;
        const V16 input = load_some16(from, left), forget = load_some16(from + units, left),
                  candidate = load_some16(from + 2 * units, left),
                  output = load_some16(from + 3 * units, left);
        const V16 dh = add16(load_some16(g.to_hidden + row * units + j, left),
                             load_some16(to_hidden + r * units + j, left));
        const V16 t = tanh16(load_some16(g.cells + row * units + j, left)), one = set16(1);
        const V16 d = fma16(mul16(dh, output), fnma16(t, t, one),
                            load_some16(to_cells + r * units + j, left));
        float* const to = g.dx + row * gates + j;
        store_some16(to, through_logistic16(mul16(d, candidate), input), left);
        store_some16(to + units,
                     through_logistic16(mul16(d, load_some16(before + j, left)), forget), left);
        store_some16(to + 2 * units, through_tanh16(mul16(d, input), candidate), left);
        store_some16(to + 3 * units, through_logistic16(mul16(dh, t), output), left);
        store_some16(to_cells + r * units + j, mul16(d, forget), left);
      }
    }
    multiply(rows, {g.dx + (own.begin * s.tokens + token) * gates, s.tokens * gates, 1}, g.packed_w,
             gates, units, to_hidden);
  }
}

void gru_sequences(const RecurrentShape& s, Range own, const GruLayer& l, float* products) {
  const int64_t rows = own.end - own.begin, units = s.units, sums = s.gates();
  for (int64_t step = 0; step < s.tokens; ++step) {
    const int64_t token = s.token(step),
                  row_before = own.begin * s.tokens + (step == 0 ? 0 : s.token(step - 1));
    // The states that this token finds.
    const Operand hidden = step == 0 ? Operand{l.first_hidden + own.begin * units, units, 1}
                                     : Operand{l.hidden + row_before * units, s.tokens * units, 1};
    multiply(rows, hidden, l.packed_w, units, sums, products);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t row = (own.begin + r) * s.tokens + token;
      const float* const from = hidden.first + r * hidden.row;
      std::memcpy(l.before + row * units, from, static_cast<size_t>(units) * sizeof(float));
      for (int64_t j = 0; j < units; j += kLanes) {
        const int64_t left = units - j;
        const auto token_sum = [&](int64_t sum) HWY_ATTR {
          return load_some16(l.x + row * sums + sum * units + j, left);
        };
        const auto state_sum = [&](int64_t sum) HWY_ATTR {
          const int64_t at = sum * units + j;
          return add16(load_some16(products + r * sums + at, left), load_some16(l.bias + at, left));
        };
        const V16 reset = logistic16(add16(token_sum(0), state_sum(0))),
                  update = logistic16(add16(token_sum(1), state_sum(1))), state = state_sum(2),
                  candidate = tanh16(fma16(reset, state, token_sum(2)));
        float* const to = l.gates + row * 4 * units + j;
        store_some16(to, reset, left);
        store_some16(to + units, update, left);
        store_some16(to + 2 * units, candidate, left);
        store_some16(to + 3 * units, state, left);
        store_some16(l.hidden + row * units + j,
                     fma16(update, sub16(load_some16(from + j, left), candidate), candidate), left);
      }
    }
  }
  for (int64_t b = own.begin; b < own.end; ++b)
    std::memcpy(l.last_hidden + b * units,
                l.hidden + (b * s.tokens + s.token(s.tokens - 1)) * units,
                static_cast<size_t>(units) * sizeof(float));
}

// What reaches the hidden states before a token lies in to_first_hidden; `kept` is what of it goes
// past the product.
void gru_grad_sequences(const RecurrentShape& s, Range own, const GruGrad& g, float* kept) {
  const int64_t rows = own.end - own.begin, units = s.units, sums = s.gates();
  float* const to_hidden = g.to_first_hidden + own.begin * units;
  std::memcpy(to_hidden, g.to_last_hidden + own.begin * units,
              static_cast<size_t>(rows * units) * sizeof(float));
  for (int64_t step = s.tokens - 1; step >= 0; --step) {
    const int64_t first = own.begin * s.tokens + s.token(step);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t row = first + r * s.tokens;
      for (int64_t j = 0; j < units; j += kLanes) {
        const int64_t left = units - j;
        const float* const from = g.gates + row * 4 * units + j;
        const V16 reset = load_some16(from, left), update = load_some16(from + units, left),
                  candidate = load_some16(from + 2 * units, left),
                  state = load_some16(from + 3 * units, left),
                  before = load_some16(g.before + row * units + j, left);
        const V16 dh = add16(load_some16(g.to_hidden + row * units + j, left),
                             load_some16(to_hidden + r * units + j, left));
        const V16 to_update = through_logistic16(mul16(dh, sub16(before, candidate)), update),
                  to_candidate = through_tanh16(mul16(dh, sub16(set16(1), update)), candidate),
                  to_reset = through_logistic16(mul16(to_candidate, state), reset);
        const auto store = [&](float* to, const V16& of_candidate) HWY_ATTR {
          float* const at = to + row * sums + j;
          store_some16(at, to_reset, left);
          store_some16(at + units, to_update, left);
          store_some16(at + 2 * units, of_candidate, left);
        };
        store(g.dx, to_candidate);
        store(g.to_states, mul16(to_candidate, reset));
        store_some16(kept + r * units + j, mul16(dh, update), left);
      }
    }
    multiply(rows, {g.to_states + first * sums, s.tokens * sums, 1}, g.packed_w, sums, units,
             to_hidden);
    for (int64_t i = 0; i < rows * units; i += kLanes) {
      const int64_t left = rows * units - i;
      store_some16(to_hidden + i,
                   add16(load_some16(to_hidden + i, left), load_some16(kept + i, left)), left);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(pack_columns);
HWY_EXPORT(lstm_sequences);
HWY_EXPORT(lstm_grad_sequences);
HWY_EXPORT(gru_sequences);
HWY_EXPORT(gru_grad_sequences);

namespace {

constexpr std::int64_t kPackWork = 1 << 16, kWork = 1 << 19;

// Each part reads all weights at each token, so that a few sequences are no part of their own.
constexpr std::int64_t kSequencesOfPart = 8;
Range sequences_of(const RecurrentShape& s, int part) {
  return share_of(s.sequences, recurrent_parts(s), part);
}

}  // namespace

RecurrentWeights recurrent_weights(const RecurrentShape& s) {
  return {.depth = s.units, .columns = s.gates(), .row = 1, .column = s.units};
}
RecurrentWeights recurrent_grad_weights(const RecurrentShape& s) {
  return {.depth = s.gates(), .columns = s.units, .row = s.units, .column = 1};
}
std::int64_t packed_floats(const RecurrentWeights& of) {
  return pairs_of(of.columns) * kPairColumns * of.depth;
}
int pack_parts(const RecurrentWeights& of) {
  return parts_of(pairs_of(of.columns), kPairColumns * of.depth, kPackWork);
}
void pack(const RecurrentWeights& of, const float* w, float* packed, int part) {
  const Range pairs = share_of(pairs_of(of.columns), pack_parts(of), part);
  PODIUM_DISPATCH(pack_columns)
  (of, w, {pairs.begin * kPairColumns, std::min(pairs.end * kPairColumns, of.columns)}, packed);
}

int recurrent_parts(const RecurrentShape& s) {
  return parts_of((s.sequences + kSequencesOfPart - 1) / kSequencesOfPart,
                  kSequencesOfPart * s.tokens * s.units * s.gates(), kWork);
}
std::int64_t recurrent_scratch(const RecurrentShape& s) {
  const std::int64_t parts = recurrent_parts(s);
  return (s.sequences + parts - 1) / parts * s.gates();
}
void lstm(const RecurrentShape& s, const LstmLayer& layer, float* scratch, int part) {
  PODIUM_DISPATCH(lstm_sequences)(s, sequences_of(s, part), layer, scratch);
}
void lstm_grad(const RecurrentShape& s, const LstmGrad& grad, int part) {
  PODIUM_DISPATCH(lstm_grad_sequences)(s, sequences_of(s, part), grad);
}
void gru(const RecurrentShape& s, const GruLayer& layer, float* scratch, int part) {
  PODIUM_DISPATCH(gru_sequences)(s, sequences_of(s, part), layer, scratch);
}
void gru_grad(const RecurrentShape& s, const GruGrad& grad, float* scratch, int part) {
  PODIUM_DISPATCH(gru_grad_sequences)(s, sequences_of(s, part), grad, scratch);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
