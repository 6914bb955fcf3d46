// Differences of tensors, for people and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "trust/tensor_difference.h"

namespace podium {

std::string difference_table(const std::vector<TensorDifference>& tensors);
nlohmann::ordered_json difference_json(const TensorDifference& difference);

}  // namespace podium
