// What the references of attention share (docs/numerics.md).
#pragma once

#include <cstdint>
#include <vector>

#include "base/numerics/precision.h"
#include "ops/geometry.h"

namespace podium {

// Scores of the keys that a query sees become their weights.
void weights_of_scores(std::vector<float>& scores);
// attention_bf16 of one query of one head, which sees the first `seen` keys: keys and values lie
// shape.key_row() apart.
void attend_bf16(const AttentionShape& shape, Bf16Order order, const float* query,
                 const float* keys, const float* values, std::int64_t seen, float* y);

}  // namespace podium
