// Recurrent layers, a loop over the tokens: unrolled, XLA would compile a hundred of them for
// minutes.
#include <cstddef>
#include <vector>

#include "compile/stablehlo/emitters.h"
#include "ops/geometry.h"

namespace podium::stablehlo {
namespace {

// Rows [B T, columns] as sequences [B, T, columns].
HloValue by_sequence(Builder& b, const RecurrentShape& s, const HloValue& rows) {
  return b.reshape(rows, Shape{s.sequences, s.tokens, rows.shape[1]});
}
HloValue as_rows(Builder& b, const RecurrentShape& s, const HloValue& sequences) {
  return b.reshape(sequences, Shape{s.sequences * s.tokens, sequences.shape[2]});
}
// Of sequences, what one token has, [B, columns].
HloValue at_token(Builder& b, const RecurrentShape& s, const HloValue& x, const HloValue& token) {
  return b.reshape(b.dynamic_slice(x, token, 1, 1), Shape{s.sequences, x.shape[2]});
}
// Sequences in which one token has these values.
HloValue with_token(Builder& b, const RecurrentShape& s, const HloValue& x, const HloValue& rows,
                    const HloValue& token) {
  return b.dynamic_update_slice(x, b.reshape(rows, Shape{s.sequences, 1, x.shape[2]}), token, 1);
}
HloValue no_sequences(Builder& b, const RecurrentShape& s, std::int64_t columns) {
  return b.constant(0, Shape{s.sequences, s.tokens, columns});
}
// Of each token what the one read before it has, and of the one read first `first` [B, columns].
HloValue shifted(Builder& b, const RecurrentShape& s, const HloValue& x, const HloValue& first) {
  const HloValue start = b.reshape(first, Shape{s.sequences, 1, first.shape[1]});
  if (s.tokens == 1) return start;
  const HloValue rest = b.slice(x, 1, s.reverse ? 1 : 0, s.tokens - 1);
  const HloValue parts[] = {s.reverse ? rest : start, s.reverse ? start : rest};
  return b.concatenate(parts, 1);
}
// The number of the token that is read as the `step`-th.
HloValue token_of(Builder& b, const RecurrentShape& s, const HloValue& step) {
  if (!s.reverse) return step;
  return b.sub(b.integer("i32", static_cast<std::uint64_t>(s.tokens - 1)), step);
}

// The parts of a token's rows, as many as there are of `units` columns each: input, forget,
// candidate, output of an LSTM; reset, update, candidate of a GRU, and what its states brought.
using Gates = std::vector<HloValue>;
Gates gates_of(Builder& b, const RecurrentShape& s, const HloValue& all) {
  Gates gates;
  for (std::int64_t first = 0; first < all.shape[1]; first += s.units)
    gates.push_back(b.slice(all, 1, first, s.units));
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
  const RecurrentShape s = lstm_shape(c.as<RecurrentAttributes>(), first_hidden.shape);
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
  const RecurrentShape s = lstm_shape(c.as<RecurrentAttributes>(), c.in[1].shape);
  const HloValue to_each = by_sequence(b, s, c.in[0]), all_gates = by_sequence(b, s, c.in[5]),
                 cells = by_sequence(b, s, c.in[6]), before = shifted(b, s, cells, c.in[4]);
  enum : std::size_t { kToHidden, kToCell, kAll };
  // From the token that is read last to the first.
  RecurrentShape back = s;
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

std::vector<HloValue> emit_gru(const EmitContext& c) {
  Builder& b = c.b;
  const HloValue &w = c.in[1], &first_hidden = c.in[3];
  const RecurrentShape s = gru_shape(c.as<RecurrentAttributes>(), first_hidden.shape);
  const HloValue x = by_sequence(b, s, c.in[0]);
  const std::int64_t columns[] = {1};
  const HloValue bias = b.broadcast(c.in[2], Shape{s.sequences, s.gates()}, columns);
  enum : std::size_t { kHidden, kAllHidden, kAllGates };
  const std::vector<HloValue> after = b.repeat(
      s.tokens, {first_hidden, no_sequences(b, s, s.units), no_sequences(b, s, 4 * s.units)},
      [&](const HloValue& step, std::vector<HloValue> v) {
        const HloValue token = token_of(b, s, step);
        const Gates from_x = gates_of(b, s, at_token(b, s, x, token)),
                    from_state = gates_of(b, s, b.add(b.product(v[kHidden], w, 1, 1), bias));
        const HloValue reset = b.unary("logistic", b.add(from_x[0], from_state[0])),
                       update = b.unary("logistic", b.add(from_x[1], from_state[1])),
                       candidate = b.unary("tanh", b.add(b.mul(reset, from_state[2]), from_x[2]));
        v[kHidden] = b.add(b.mul(update, b.sub(v[kHidden], candidate)), candidate);
        const HloValue gates[] = {reset, update, candidate, from_state[2]};
        v[kAllHidden] = with_token(b, s, v[kAllHidden], v[kHidden], token);
        v[kAllGates] = with_token(b, s, v[kAllGates], b.concatenate(gates, 1), token);
        return v;
      });
  return {as_rows(b, s, after[kAllHidden]), after[kHidden], as_rows(b, s, after[kAllGates]),
          as_rows(b, s, shifted(b, s, after[kAllHidden], first_hidden))};
}

std::vector<HloValue> emit_gru_grad(const EmitContext& c) {
  Builder& b = c.b;
  const HloValue& w = c.in[2];
  const RecurrentShape s = gru_shape(c.as<RecurrentAttributes>(), c.in[1].shape);
  const HloValue to_each = by_sequence(b, s, c.in[0]), all_gates = by_sequence(b, s, c.in[3]),
                 before = by_sequence(b, s, c.in[4]);
  enum : std::size_t { kToHidden, kAllTokens, kAllStates };
  RecurrentShape back = s;
  back.reverse = !s.reverse;
  const std::vector<HloValue> after = b.repeat(
      s.tokens, {c.in[1], no_sequences(b, s, s.gates()), no_sequences(b, s, s.gates())},
      [&](const HloValue& step, std::vector<HloValue> v) {
        const HloValue token = token_of(b, back, step);
        const Gates gates = gates_of(b, s, at_token(b, s, all_gates, token));
        const HloValue &reset = gates[0], &update = gates[1], &candidate = gates[2];
        const HloValue dh = b.add(at_token(b, s, to_each, token), v[kToHidden]);
        const HloValue kept = b.sub(at_token(b, s, before, token), candidate);
        const HloValue to_update = through_logistic(b, b.mul(dh, kept), update),
                       to_candidate = through_tanh(b, b.mul(dh, one_minus(b, update)), candidate),
                       to_reset = through_logistic(b, b.mul(to_candidate, gates[3]), reset);
        const HloValue of_token[] = {to_reset, to_update, to_candidate},
                       of_state[] = {to_reset, to_update, b.mul(to_candidate, reset)};
        const HloValue states = b.concatenate(of_state, 1);
        v[kAllTokens] = with_token(b, s, v[kAllTokens], b.concatenate(of_token, 1), token);
        v[kAllStates] = with_token(b, s, v[kAllStates], states, token);
        v[kToHidden] = b.add(b.product(states, w, 1, 0), b.mul(dh, update));
        return v;
      });
  return {as_rows(b, s, after[kAllTokens]), as_rows(b, s, after[kAllStates]), after[kToHidden]};
}

}  // namespace podium::stablehlo
