// The keys of a recipe's [network] table: the size of a model that has more than one.
#pragma once

#include <cstdint>

namespace podium {

// Sizes of a network. A model says which of them it reads; the data say the rest, such as the
// vocabulary.
struct NetworkOptions {
  std::int64_t layers = 12;  // blocks; of a perceptron, dense layers before the last
  std::int64_t heads = 12;   // of attention; they divide the width
  std::int64_t width = 768;  // features of a token, units of a dense layer
  bool tied = true;          // the last layer multiplies by the table of the tokens
  bool bias = true;          // of dense layers, and the shift of layer norms
  float dropout = 0;         // share of the features that are dropped
  bool operator==(const NetworkOptions&) const = default;
};

}  // namespace podium
