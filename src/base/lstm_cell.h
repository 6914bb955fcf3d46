// One unit of an LSTM at one token, and its gradient: scalar code whose bits are the contract
// (docs/numerics.md, lstm), for the reference and for kernels of GPUs.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/device_function.h"
#include "base/functions.h"

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
  const auto through_logistic = [](float dy, float y) { return dy * (y * (1.0f - y)); };
  return {{through_logistic(d * gates.candidate, gates.input),
           through_logistic(d * before, gates.forget),
           (d * gates.input) * std::fma(-gates.candidate, gates.candidate, 1.0f),
           through_logistic(to_hidden * t, gates.output)},
          d * gates.forget};
}

}  // namespace podium
