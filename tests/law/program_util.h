// Inputs for the programs of a run, for tests that run them by themselves.
#pragma once

#include <cstdint>
#include <vector>

#include "base/numerics/philox.h"
#include "graph/graph.h"

namespace podium {

// Values for the inputs of a program, small around zero; labels, steps and second moments are what
// they may be.
inline std::vector<Tensor> values_for(const Graph& graph) {
  std::vector<Tensor> values;
  for (const NamedValue& input : graph.inputs()) {
    Tensor& tensor = values.emplace_back(graph.type(input.value));
    const PhiloxStream words(5, RandomPurpose::kInitialise,
                             static_cast<std::uint32_t>(values.size()));
    const bool positive = input.name.ends_with("running_var") || input.name.starts_with("v/") ||
                          graph.node(input.value).role == InputRole::kScalar;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      const std::uint32_t word = words.word(static_cast<std::uint32_t>(i));
      if (tensor.dtype() == DType::kF32) {
        tensor.f32()[i] = positive ? 0.1f + uniform01(word) : uniform01(word) - 0.5f;
      } else if (tensor.dtype() == DType::kI32) {
        tensor.i32()[i] = static_cast<std::int32_t>(uniform_below(word, 10));
      } else {
        tensor.u32()[i] = word % 100;
      }
    }
  }
  return values;
}

}  // namespace podium
