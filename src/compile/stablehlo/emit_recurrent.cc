// Recurrent layers, a loop over the tokens: unrolled, XLA would compile a hundred of them for
// minutes.
#include <array>
#include <cstddef>
#include <vector>

#include "compile/stablehlo/emitters.h"
#include "ops/geometry.h"

namespace podium::stablehlo {
namespace {

// Rows [B T, columns] as sequences [B, T, columns].
HloValue by_sequence(Builder& b, const LstmShape& s, const HloValue& rows) {
  return b.reshape(rows, Shape{s.sequences, s.tokens, rows.shape[1]});
}
HloValue as_rows(Builder& b, const LstmShape& s, const HloValue& sequences) {
  return b.reshape(sequences, Shape{s.sequences * s.tokens, sequences.shape[2]});
}
// Of sequences, what one token has, [B, columns].
HloValue at_token(Builder& b, const LstmShape& s, const HloValue& x, const HloValue& token) {
  return b.reshape(b.dynamic_slice(x, token, 1, 1), Shape{s.sequences, x.shape[2]});
}
// Sequences in which one token has these values.
HloValue with_token(Builder& b, const LstmShape& s, const HloValue& x, const HloValue& rows,
                    const HloValue& token) {
  return b.dynamic_update_slice(x, b.reshape(rows, Shape{s.sequences, 1, x.shape[2]}), token, 1);
}
HloValue no_sequences(Builder& b, const LstmShape& s, std::int64_t columns) {
  return b.constant(0, Shape{s.sequences, s.tokens, columns});
}
// Of each token what the one read before it has, and of the one read first `first` [B, columns].
HloValue shifted(Builder& b, const LstmShape& s, const HloValue& x, const HloValue& first) {
  const HloValue start = b.reshape(first, Shape{s.sequences, 1, first.shape[1]});
  if (s.tokens == 1) return start;
  const HloValue rest = b.slice(x, 1, s.reverse ? 1 : 0, s.tokens - 1);
  const HloValue parts[] = {s.reverse ? rest : start, s.reverse ? start : rest};
  return b.concatenate(parts, 1);
}
// The number of the token that is read as the `step`-th.
HloValue token_of(Builder& b, const LstmShape& s, const HloValue& step) {
  if (!s.reverse) return step;
  return b.sub(b.integer("i32", static_cast<std::uint64_t>(s.tokens - 1)), step);
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
  const HloValue &w = c.in[1], &first_hidden = c.in[2];
  const LstmShape s = lstm_shape(c.as<LstmAttributes>(), first_hidden.shape);
  const HloValue x = by_sequence(b, s, c.in[0]);
  enum : std::size_t { kHidden, kCell, kAllHidden, kAllGates, kAllCells };
  const std::vector<HloValue> after =
      b.repeat(s.tokens,
               {first_hidden, c.in[3], no_sequences(b, s, s.units), no_sequences(b, s, s.gates()),
                no_sequences(b, s, s.units)},
               [&](const HloValue& step, std::vector<HloValue> v) {
                 const HloValue token = token_of(b, s, step);
                 Gates gates = gates_of(
                     b, s, b.add(at_token(b, s, x, token), b.product(v[kHidden], w, 1, 1)));
                 for (std::size_t i = 0; i < gates.size(); ++i)
                   gates[i] = b.unary(i == 2 ? "tanh" : "logistic", gates[i]);
                 v[kCell] = b.add(b.mul(gates[1], v[kCell]), b.mul(gates[0], gates[2]));
                 v[kHidden] = b.mul(gates[3], b.unary("tanh", v[kCell]));
                 v[kAllHidden] = with_token(b, s, v[kAllHidden], v[kHidden], token);
                 v[kAllGates] = with_token(b, s, v[kAllGates], b.concatenate(gates, 1), token);
                 v[kAllCells] = with_token(b, s, v[kAllCells], v[kCell], token);
                 return v;
               });
  return {as_rows(b, s, after[kAllHidden]),
          after[kHidden],
          after[kCell],
          as_rows(b, s, after[kAllGates]),
          as_rows(b, s, after[kAllCells]),
          as_rows(b, s, shifted(b, s, after[kAllHidden], first_hidden))};
}

std::vector<HloValue> emit_lstm_grad(const EmitContext& c) {
  Builder& b = c.b;
  const HloValue& w = c.in[3];
  const LstmShape s = lstm_shape(c.as<LstmAttributes>(), c.in[1].shape);
  const HloValue to_each = by_sequence(b, s, c.in[0]), all_gates = by_sequence(b, s, c.in[5]),
                 cells = by_sequence(b, s, c.in[6]), before = shifted(b, s, cells, c.in[4]);
  enum : std::size_t { kToHidden, kToCell, kAll };
  // From the token that is read last to the first.
  LstmShape back = s;
  back.reverse = !s.reverse;
  const std::vector<HloValue> after =
      b.repeat(s.tokens, {c.in[1], c.in[2], no_sequences(b, s, s.gates())},
               [&](const HloValue& step, std::vector<HloValue> v) {
                 const HloValue token = token_of(b, back, step);
                 const Gates gates = gates_of(b, s, at_token(b, s, all_gates, token));
                 const HloValue t = b.unary("tanh", at_token(b, s, cells, token));
                 const HloValue dh = b.add(at_token(b, s, to_each, token), v[kToHidden]);
                 const HloValue d = b.add(through_tanh(b, b.mul(dh, gates[3]), t), v[kToCell]);
                 const HloValue parts[] = {
                     through_logistic(b, b.mul(d, gates[2]), gates[0]),
                     through_logistic(b, b.mul(d, at_token(b, s, before, token)), gates[1]),
                     through_tanh(b, b.mul(d, gates[0]), gates[2]),
                     through_logistic(b, b.mul(dh, t), gates[3])};
                 const HloValue sums = b.concatenate(parts, 1);
                 v[kAll] = with_token(b, s, v[kAll], sums, token);
                 v[kToCell] = b.mul(d, gates[1]);
                 v[kToHidden] = b.product(sums, w, 1, 0);
                 return v;
               });
  return {as_rows(b, s, after[kAll]), after[kToHidden], after[kToCell]};
}

}  // namespace podium::stablehlo
