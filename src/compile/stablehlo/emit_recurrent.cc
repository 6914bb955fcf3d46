// Recurrent layers, token by token: a sequence's length is known.
#include <array>
#include <cstddef>
#include <vector>

#include "compile/stablehlo/emitters.h"
#include "ops/geometry.h"

namespace podium::stablehlo {
namespace {

// Of x [B T, columns], the rows of one token, [B, columns].
HloValue rows_of_token(Builder& b, const LstmShape& s, const HloValue& x, std::int64_t token) {
  const std::int64_t columns = x.shape[1];
  return b.reshape(b.slice(b.reshape(x, Shape{s.sequences, s.tokens, columns}), 1, token, 1),
                   Shape{s.sequences, columns});
}
// [B, columns] of each token, in order, as [B T, columns].
HloValue rows_of_all(Builder& b, const LstmShape& s, const std::vector<HloValue>& tokens) {
  const std::int64_t columns = tokens[0].shape[1];
  std::vector<HloValue> parts;
  for (const HloValue& rows : tokens)
    parts.push_back(b.reshape(rows, Shape{s.sequences, 1, columns}));
  return b.reshape(b.concatenate(parts, 1), Shape{s.sequences * s.tokens, columns});
}

// Input, forget, candidate, output.
using Gates = std::array<HloValue, 4>;
Gates gates_of(Builder& b, const LstmShape& s, const HloValue& all) {
  Gates gates;
  for (std::size_t i = 0; i < gates.size(); ++i)
    gates[i] = b.slice(all, 1, static_cast<std::int64_t>(i) * s.units, s.units);
  return gates;
}

HloValue one_minus(Builder& b, const HloValue& x) { return b.sub(b.constant(1, x.shape), x); }
HloValue through_logistic(Builder& b, const HloValue& dy, const HloValue& y) {
  return b.mul(dy, b.mul(y, one_minus(b, y)));
}
HloValue through_tanh(Builder& b, const HloValue& dy, const HloValue& y) {
  return b.mul(dy, one_minus(b, b.mul(y, y)));
}

}  // namespace

std::vector<HloValue> emit_lstm(const EmitContext& c) {
  Builder& b = c.b;
  HloValue hidden = c.in[2], cell = c.in[3];
  const LstmShape s = lstm_shape(c.as<LstmAttributes>(), hidden.shape);
  const auto tokens = static_cast<std::size_t>(s.tokens);
  std::vector<HloValue> all_hidden(tokens), all_gates(tokens), all_cells(tokens), before(tokens);
  for (std::int64_t step = 0; step < s.tokens; ++step) {
    const std::int64_t token = s.token(step);
    const auto at = static_cast<std::size_t>(token);
    before[at] = hidden;
    const HloValue sums =
        b.add(rows_of_token(b, s, c.in[0], token), b.product(hidden, c.in[1], 1, 1));
    Gates gates = gates_of(b, s, sums);
    for (std::size_t i = 0; i < gates.size(); ++i)
      gates[i] = b.unary(i == 2 ? "tanh" : "logistic", gates[i]);
    cell = b.add(b.mul(gates[1], cell), b.mul(gates[0], gates[2]));
    hidden = b.mul(gates[3], b.unary("tanh", cell));
    all_gates[at] = b.concatenate(gates, 1);
    all_cells[at] = cell;
    all_hidden[at] = hidden;
  }
  return {rows_of_all(b, s, all_hidden),
          hidden,
          cell,
          rows_of_all(b, s, all_gates),
          rows_of_all(b, s, all_cells),
          rows_of_all(b, s, before)};
}

std::vector<HloValue> emit_lstm_grad(const EmitContext& c) {
  Builder& b = c.b;
  HloValue to_hidden = c.in[1], to_cell = c.in[2];
  const HloValue &w = c.in[3], &first_cells = c.in[4];
  const LstmShape s = lstm_shape(c.as<LstmAttributes>(), to_hidden.shape);
  std::vector<HloValue> all(static_cast<std::size_t>(s.tokens));
  for (std::int64_t step = s.tokens - 1; step >= 0; --step) {
    const std::int64_t token = s.token(step);
    const Gates gates = gates_of(b, s, rows_of_token(b, s, c.in[5], token));
    const HloValue before =
        step == 0 ? first_cells : rows_of_token(b, s, c.in[6], s.token(step - 1));
    const HloValue t = b.unary("tanh", rows_of_token(b, s, c.in[6], token));
    const HloValue dh = b.add(rows_of_token(b, s, c.in[0], token), to_hidden);
    const HloValue d = b.add(through_tanh(b, b.mul(dh, gates[3]), t), to_cell);
    const HloValue parts[] = {through_logistic(b, b.mul(d, gates[2]), gates[0]),
                              through_logistic(b, b.mul(d, before), gates[1]),
                              through_tanh(b, b.mul(d, gates[0]), gates[2]),
                              through_logistic(b, b.mul(dh, t), gates[3])};
    const HloValue sums = b.concatenate(parts, 1);
    all[static_cast<std::size_t>(token)] = sums;
    to_cell = b.mul(d, gates[1]);
    to_hidden = b.product(sums, w, 1, 0);
  }
  return {rows_of_all(b, s, all), to_hidden, to_cell};
}

}  // namespace podium::stablehlo
