// For tests of passes that must not change a program's results.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "backend/reference/reference_device.h"
#include "base/numerics/philox.h"
#include "graph/graph.h"

namespace podium {

// Floats in [-1, 1], of "variance" in [0.5, 1.5]; integers below 3.
inline std::vector<Tensor> random_inputs(const Graph& graph) {
  std::vector<Tensor> tensors;
  for (const NamedValue& input : graph.inputs()) {
    const PhiloxStream words(3, RandomPurpose::kInitialise,
                             static_cast<std::uint32_t>(tensors.size()));
    Tensor& tensor = tensors.emplace_back(graph.type(input.value));
    for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.elements()); ++i) {
      const std::uint32_t word = words.word(static_cast<std::uint32_t>(i));
      if (tensor.type().dtype == DType::kI32) {
        tensor.i32()[i] = static_cast<std::int32_t>(word % 3);
        continue;
      }
      const float u = uniform01(word);
      tensor.f32()[i] = input.name == "variance" ? u + 0.5f : 2 * u - 1;
    }
  }
  return tensors;
}

// Checks what must hold of a graph that a pass has made of another one.
inline void expect_same_results(const Graph& before, const Graph& after) {
  EXPECT_NO_THROW(after.verify());
  const std::vector<Tensor> inputs = random_inputs(before);
  ASSERT_EQ(before.inputs().size(), after.inputs().size());
  for (std::size_t i = 0; i < before.inputs().size(); ++i)
    EXPECT_EQ(before.inputs()[i].name, after.inputs()[i].name);
  const std::vector<Tensor> x = interpret(before, inputs), y = interpret(after, inputs);
  ASSERT_EQ(x.size(), y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(before.outputs()[i].name, after.outputs()[i].name);
    ASSERT_EQ(x[i].type(), y[i].type());
    EXPECT_EQ(std::memcmp(x[i].data(), y[i].data(), static_cast<std::size_t>(x[i].type().bytes())),
              0)
        << before.outputs()[i].name;
  }
}

}  // namespace podium
