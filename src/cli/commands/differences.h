// Differences of tensors, for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "trust/tensor_difference.h"

namespace podium {

std::string difference_table(const std::vector<TensorDifference>& tensors);
// `Json`: nlohmann::ordered_json.
template <typename Json>
Json difference_json(const TensorDifference& d) {
  return {{"name", d.name},           {"note", d.note},
          {"values", d.values},       {"different", d.different},
          {"most_ulps", d.most_ulps}, {"most_absolute", d.most_absolute}};
}

}  // namespace podium
