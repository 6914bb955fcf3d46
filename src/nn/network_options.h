// The keys of a recipe's [network] table: the size of a model that has more than one.
#pragma once

#include <cstdint>

namespace podium {

// Sizes of a network. A model says which of them it reads; the data say the rest, such as the
// vocabulary.
struct NetworkOptions {
  std::int64_t layers = 12;  // blocks; recurrent ones; of a perceptron, dense ones before the last
  std::int64_t heads = 12;   // of attention; they divide the width
  std::int64_t width = 768;  // features of a token, units of a dense layer
  bool tied = true;          // the last layer multiplies by the table of the tokens
  bool bias = true;          // of dense layers, and the shift of layer norms
  float dropout = 0;         // share of the features that are dropped
  std::int64_t groups = 0;   // heads of keys and values, which divide `heads`; 0: as many
  std::int64_t hidden =
      0;  // units of a block's gated dense layer; 0: a multiple of 32 near 8/3 width; of a
          // text-cnn, filters of each length; 0: 100
  bool gelu_tanh = false;     // of a gpt: GELU by tanh, as in the published GPT-2
  float rotary_base = 10000;  // of the angles of rotary embedding
  // Of recurrent layers: parameters begin between this and its negative; 0: 1 / the root of the
  // width. Of a text-cnn: its vectors of tokens; 0: 0.25.
  float initial_range = 0;

  std::int64_t key_heads() const { return groups == 0 ? heads : groups; }
  std::int64_t hidden_units() const {
    return hidden == 0 ? (8 * width / 3 + 31) / 32 * 32 : hidden;
  }
  bool operator==(const NetworkOptions&) const = default;
};

}  // namespace podium
