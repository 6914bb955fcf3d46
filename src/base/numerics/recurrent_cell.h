// One unit of an LSTM or of a gated recurrent unit's layer at one token, and its gradient: scalar
// code whose bits are the contract (docs/numerics.md, lstm and gru), for the reference and for
// kernels of GPUs.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/numerics/device_function.h"
#include "base/numerics/functions.h"

namespace podium {

// The gates of a unit, or the gradients to their sums.
struct LstmGates {
  float input, forget, candidate, output;
};

// Those of a unit in a row of all gates, from the first of the unit on: each lies `units` after the
// one before.
PODIUM_DEVICE_FUNCTION inline LstmGates load_gates(const float* from, std::int64_t units) {
  return {from[0], from[units], from[2 * units], from[3 * units]};
}
PODIUM_DEVICE_FUNCTION inline void store_gates(float* to, std::int64_t units,
                                               const LstmGates& gates) {
  to[0] = gates.input;
  to[units] = gates.forget;
  to[2 * units] = gates.candidate;
  to[3 * units] = gates.output;
}

// Of these sums.
PODIUM_DEVICE_FUNCTION inline LstmGates lstm_gates(const LstmGates& sums) {
  return {logistic_f32(sums.input), logistic_f32(sums.forget), tanh_f32(sums.candidate),
          logistic_f32(sums.output)};
}
PODIUM_DEVICE_FUNCTION inline float lstm_cell(const LstmGates& gates, float before) {
  return std::fma(gates.forget, before, gates.input * gates.candidate);
}
PODIUM_DEVICE_FUNCTION inline float lstm_hidden(const LstmGates& gates, float cell) {
  return gates.output * tanh_f32(cell);
}

PODIUM_DEVICE_FUNCTION inline float through_logistic(float dy, float y) {
  return dy * (y * (1.0f - y));
}
PODIUM_DEVICE_FUNCTION inline float through_tanh(float dy, float y) {
  return dy * std::fma(-y, y, 1.0f);
}

struct LstmGradients {
  LstmGates sums;
  float before;  // to the cell before
};
// Of the gradients to the hidden state and, from the tokens read after it, to the cell.
PODIUM_DEVICE_FUNCTION inline LstmGradients lstm_gradients(const LstmGates& gates, float before,
                                                           float cell, float to_hidden,
                                                           float to_cell) {
  const float t = tanh_f32(cell);
  const float d = std::fma(to_hidden * gates.output, std::fma(-t, t, 1.0f), to_cell);
  return {
      {through_logistic(d * gates.candidate, gates.input),
       through_logistic(d * before, gates.forget), through_tanh(d * gates.input, gates.candidate),
       through_logistic(to_hidden * t, gates.output)},
      d * gates.forget};
}

// Of a gated recurrent unit: what its gradient reads again, `state` being what the hidden state
// brings to the candidate.
struct GruGates {
  float reset, update, candidate, state;
};
// In a row of all of them, as load_gates().
PODIUM_DEVICE_FUNCTION inline GruGates load_gru_gates(const float* from, std::int64_t units) {
  return {from[0], from[units], from[2 * units], from[3 * units]};
}
PODIUM_DEVICE_FUNCTION inline void store_gru_gates(float* to, std::int64_t units,
                                                   const GruGates& gates) {
  to[0] = gates.reset;
  to[units] = gates.update;
  to[2 * units] = gates.candidate;
  to[3 * units] = gates.state;
}

// Sums of a unit: what the token brings, what the hidden state does, or their gradients.
struct GruSums {
  float reset, update, candidate;
};
PODIUM_DEVICE_FUNCTION inline GruSums load_sums(const float* from, std::int64_t units) {
  return {from[0], from[units], from[2 * units]};
}
PODIUM_DEVICE_FUNCTION inline void store_sums(float* to, std::int64_t units, const GruSums& sums) {
  to[0] = sums.reset;
  to[units] = sums.update;
  to[2 * units] = sums.candidate;
}

// Of what the token brings, of the product of the hidden state, and of the bias of that product.
PODIUM_DEVICE_FUNCTION inline GruGates gru_gates(const GruSums& token, const GruSums& product,
                                                 const GruSums& bias) {
  const float reset = logistic_f32(token.reset + (product.reset + bias.reset)),
              update = logistic_f32(token.update + (product.update + bias.update)),
              state = product.candidate + bias.candidate;
  return {reset, update, tanh_f32(std::fma(reset, state, token.candidate)), state};
}
PODIUM_DEVICE_FUNCTION inline float gru_hidden(const GruGates& gates, float before) {
  return std::fma(gates.update, before - gates.candidate, gates.candidate);
}

struct GruGradients {
  GruSums token, state;  // to what the token brings, and to what the hidden state does
  float before;          // to the hidden state before, but for what goes through the product
};
PODIUM_DEVICE_FUNCTION inline GruGradients gru_gradients(const GruGates& gates, float before,
                                                         float to_hidden) {
  const float update = through_logistic(to_hidden * (before - gates.candidate), gates.update),
              candidate = through_tanh(to_hidden * (1.0f - gates.update), gates.candidate),
              reset = through_logistic(candidate * gates.state, gates.reset);
  return {{reset, update, candidate},
          {reset, update, candidate * gates.reset},
          to_hidden * gates.update};
}

}  // namespace podium
