// What recurrent layers over whole sequences share.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/geometry.h"
#include "ops/ops.h"

namespace podium {

inline TensorType matrix_f32(std::int64_t rows, std::int64_t columns) {
  return {DType::kF32, Shape{rows, columns}};
}

// Of a layer: products of the hidden states, and for each unit at a token `each` operations more.
inline Cost recurrent_cost(const RecurrentShape& s, double each, std::span<const TensorType> in,
                           std::span<const TensorType> out) {
  const double at = static_cast<double>(s.sequences * s.tokens) * static_cast<double>(s.units);
  double bytes = 0;
  for (const auto& types : {in, out})
    for (const TensorType& type : types) bytes += static_cast<double>(type.bytes());
  return {at * (2 * static_cast<double>(s.gates()) + each), bytes};
}

// Attributes and sizes of samples of such layers.
struct RecurrentSample {
  RecurrentAttributes attributes;
  std::int64_t sequences, units;
};
inline std::vector<RecurrentSample> recurrent_samples() {
  std::vector<RecurrentSample> list;
  for (const auto& [sequences, tokens, units] : {std::array<std::int64_t, 3>{1, 1, 1},
                                                 {2, 3, 5},
                                                 {17, 2, 4},
                                                 {3, 5, 16},
                                                 {1, 4, 33},
                                                 {5, 1, 20}})
    for (const bool reverse : {false, true})
      list.push_back({{.tokens = tokens, .reverse = reverse}, sequences, units});
  return list;
}

}  // namespace podium
