// What the references of attention share (docs/numerics.md).
#pragma once

#include <vector>

namespace podium {

// Scores of the keys that a query sees become their weights.
void weights_of_scores(std::vector<float>& scores);

}  // namespace podium
