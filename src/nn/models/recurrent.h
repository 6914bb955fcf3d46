// What networks of LSTMs share. Parameters are named as in PyTorch.
#pragma once

#include <string>

#include "nn/model.h"
#include "nn/network_options.h"

namespace podium::recurrent {

// Throws UserError(kUsage) if there are no such layers.
void require_size(const std::string& model, const NetworkOptions& options);

// A parameter that begins between options.initial_range and its negative or, where that is 0, one
// divided by the root of the width.
Value parameter(Network& net, const NetworkOptions& options, const std::string& name,
                const Shape& shape);

// What a layer of options.width units reads: the sums of its gates from x alone, biases included,
// and what the hidden state is multiplied by.
struct Gates {
  Value sums;    // [rows, 4 width]
  Value hidden;  // [4 width, width]
};
// Of x [rows, features]; `end` names the layer: "_l0", "_l1_reverse".
Gates gates(Network& net, const NetworkOptions& options, const std::string& end, Value x);

}  // namespace podium::recurrent
