#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/matmul.h"
#include "backend/cuda/kernels/recurrent.h"
#include "base/numerics/recurrent_cell.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

// p = the hidden states before a token, a row each `row` floats, times the weights.
MatmulShape product_of_states(const RecurrentShape& s, std::int64_t row) {
  return {.rows = s.sequences,
          .depth = s.units,
          .columns = s.gates(),
          .a = {row, 1},
          .b = {1, s.units},
          .y = {s.gates(), 1}};
}
// Of the gradients to a token's sums.
MatmulShape product_of_gradients(const RecurrentShape& s) {
  return {.rows = s.sequences,
          .depth = s.gates(),
          .columns = s.units,
          .a = {s.tokens * s.gates(), 1},
          .b = {s.units, 1},
          .y = {s.units, 1}};
}

// Where a state of a sequence lies: at [sequence][token] of a layer's, or at [sequence].
struct States {
  ConstFloats from;
  std::int64_t row;
};
States states_before(const RecurrentShape& s, std::int64_t step, ConstFloats first,
                     ConstFloats all) {
  if (step == 0) return {first, s.units};
  return {all.from(s.token(step - 1) * s.units), s.tokens * s.units};
}

}  // namespace

std::int64_t recurrent_products(const RecurrentShape& s) { return s.sequences * s.gates(); }
std::int64_t recurrent_scratch(const RecurrentShape& s) {
  return std::max(matmul_scratch(product_of_states(s, s.units)),
                  matmul_scratch(product_of_states(s, s.tokens * s.units)));
}

void lstm(const Launch& launch, const RecurrentShape& s, const LstmLayer& l) {
  for (std::int64_t step = 0; step < s.tokens; ++step) {
    const States hidden = states_before(s, step, l.first_hidden, l.hidden),
                 cells = states_before(s, step, l.first_cells, l.cells);
    const std::int64_t token = s.token(step);
    const bool last = step + 1 == s.tokens;
    matmul(launch, product_of_states(s, hidden.row), hidden.from, l.w, l.products, l.scratch);
    launch_rows(
        launch, s.sequences, s.units, [=] __device__(std::int64_t b, unsigned unit, unsigned r) {
          const std::int64_t row = b * s.tokens + token, at = row * s.units + unit,
                             gates_at = row * s.gates() + unit;
          const LstmGates from_x = load_gates(l.x.of(r) + gates_at, s.units),
                          from_state = load_gates(l.products.of(r) + b * s.gates() + unit, s.units);
          const LstmGates gates = lstm_gates(
              {from_x.input + from_state.input, from_x.forget + from_state.forget,
               from_x.candidate + from_state.candidate, from_x.output + from_state.output});
          const float cell = lstm_cell(gates, cells.from.of(r)[b * cells.row + unit]),
                      now = lstm_hidden(gates, cell);
          l.before.of(r)[at] = hidden.from.of(r)[b * hidden.row + unit];
          store_gates(l.gates.of(r) + gates_at, s.units, gates);
          l.cells.of(r)[at] = cell;
          l.hidden.of(r)[at] = now;
          if (!last) return;
          l.last_cells.of(r)[b * s.units + unit] = cell;
          l.last_hidden.of(r)[b * s.units + unit] = now;
        });
  }
}

std::int64_t recurrent_grad_scratch(const RecurrentShape& s) {
  return matmul_scratch(product_of_gradients(s));
}

// What reaches the hidden states before a token lies in to_first_hidden, the cells' gradients in
// to_first_cells: at the end these are those before the first token.
void lstm_grad(const Launch& launch, const RecurrentShape& s, const LstmGrad& g) {
  for (std::int64_t step = s.tokens - 1; step >= 0; --step) {
    const States before = states_before(s, step, g.first_cells, g.cells);
    const std::int64_t token = s.token(step);
    const bool last = step + 1 == s.tokens;
    const ConstFloats to_hidden = last ? g.to_last_hidden : g.to_first_hidden,
                      to_cells = last ? g.to_last_cells : g.to_first_cells;
    launch_rows(
        launch, s.sequences, s.units, [=] __device__(std::int64_t b, unsigned unit, unsigned r) {
          const std::int64_t row = b * s.tokens + token, at = row * s.units + unit,
                             gates_at = row * s.gates() + unit, state = b * s.units + unit;
          const LstmGradients found =
              lstm_gradients(load_gates(g.gates.of(r) + gates_at, s.units),
                             before.from.of(r)[b * before.row + unit], g.cells.of(r)[at],
                             g.to_hidden.of(r)[at] + to_hidden.of(r)[state], to_cells.of(r)[state]);
          store_gates(g.dx.of(r) + gates_at, s.units, found.sums);
          g.to_first_cells.of(r)[state] = found.before;
        });
    matmul(launch, product_of_gradients(s), ConstFloats(g.dx).from(token * s.gates()), g.w,
           g.to_first_hidden, g.scratch);
  }
}

void gru(const Launch& launch, const RecurrentShape& s, const GruLayer& l) {
  for (std::int64_t step = 0; step < s.tokens; ++step) {
    const States hidden = states_before(s, step, l.first_hidden, l.hidden);
    const std::int64_t token = s.token(step);
    const bool last = step + 1 == s.tokens;
    matmul(launch, product_of_states(s, hidden.row), hidden.from, l.w, l.products, l.scratch);
    launch_rows(launch, s.sequences, s.units,
                [=] __device__(std::int64_t b, unsigned unit, unsigned r) {
                  const std::int64_t row = b * s.tokens + token, at = row * s.units + unit;
                  const GruGates gates =
                      gru_gates(load_sums(l.x.of(r) + row * s.gates() + unit, s.units),
                                load_sums(l.products.of(r) + b * s.gates() + unit, s.units),
                                load_sums(l.bias.of(r) + unit, s.units));
                  const float before = hidden.from.of(r)[b * hidden.row + unit],
                              now = gru_hidden(gates, before);
                  l.before.of(r)[at] = before;
                  store_gru_gates(l.gates.of(r) + row * 4 * s.units + unit, s.units, gates);
                  l.hidden.of(r)[at] = now;
                  if (last) l.last_hidden.of(r)[b * s.units + unit] = now;
                });
  }
}

// The product of a token's gradients lies in to_first_hidden, and `kept` beside it: together they
// are what reaches the hidden states before that token.
void gru_grad(const Launch& launch, const RecurrentShape& s, const GruGrad& g) {
  for (std::int64_t step = s.tokens - 1; step >= 0; --step) {
    const std::int64_t token = s.token(step);
    const bool last = step + 1 == s.tokens;
    launch_rows(
        launch, s.sequences, s.units, [=] __device__(std::int64_t b, unsigned unit, unsigned r) {
          const std::int64_t row = b * s.tokens + token, at = row * s.units + unit,
                             sums_at = row * s.gates() + unit, state = b * s.units + unit;
          const float carried = last ? g.to_last_hidden.of(r)[state]
                                     : g.to_first_hidden.of(r)[state] + g.kept.of(r)[state];
          const GruGradients found =
              gru_gradients(load_gru_gates(g.gates.of(r) + row * 4 * s.units + unit, s.units),
                            g.before.of(r)[at], g.to_hidden.of(r)[at] + carried);
          store_sums(g.dx.of(r) + sums_at, s.units, found.token);
          store_sums(g.to_states.of(r) + sums_at, s.units, found.state);
          g.kept.of(r)[state] = found.before;
        });
    matmul(launch, product_of_gradients(s), ConstFloats(g.to_states).from(token * s.gates()), g.w,
           g.to_first_hidden, g.scratch);
  }
  launch_rows(launch, s.sequences, s.units,
              [=] __device__(std::int64_t b, unsigned unit, unsigned r) {
                const std::int64_t state = b * s.units + unit;
                g.to_first_hidden.of(r)[state] += g.kept.of(r)[state];
              });
}

}  // namespace podium::PODIUM_CUDA_SPACE
