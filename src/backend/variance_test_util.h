// How far batch_norm may be from its contract on a device that adds in another order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "graph/graph.h"
#include "ops/ops.h"

namespace podium {

// batch_norm makes the variance of two sums: v = s2 / m - mean^2. A device that adds in another
// order is wrong in each by some roundings, say 8, as the contract is, so in v by up to 3 * 8
// roundings of mean^2 + v (the mean is squared). The further the mean is from 0, the larger is
// that beside v. What a tolerance grows by, for the worst channel; 0 for other graphs.
inline float growth_of_variance(const Graph& graph, std::span<const Tensor> outputs) {
  constexpr float kRoundings = 3 * 8 * std::numeric_limits<float>::epsilon() / 2;
  const auto output = [&](std::int32_t node, std::int32_t number) -> const Tensor* {
    for (std::size_t o = 0; o < outputs.size(); ++o)
      if (graph.outputs()[o].value == Value{node, number}) return &outputs[o];
    return nullptr;
  };
  float growth = 0;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    if (graph.nodes()[i].op != &batch_norm_op) continue;
    const auto node = static_cast<std::int32_t>(i);
    const Tensor *const means = output(node, 1), *const inv_stds = output(node, 3);
    if (means == nullptr || inv_stds == nullptr) continue;
    for (std::size_t c = 0; c < means->f32().size(); ++c) {
      const float away = means->f32()[c] * inv_stds->f32()[c];
      if (std::isfinite(away)) growth = std::max(growth, kRoundings * away * away);
    }
  }
  return growth;
}

}  // namespace podium
