// What recurrent networks share. Parameters are named as in PyTorch.
#pragma once

#include <string>
#include <string_view>

#include "nn/model.h"
#include "nn/network_options.h"
#include "ops/ops.h"

namespace podium::recurrent {

// Throws UserError(kUsage) if there are no such layers.
void require_size(const std::string& model, const NetworkOptions& options);

// A parameter that begins between options.initial_range and its negative or, where that is 0, one
// divided by the root of the width.
Value parameter(Network& net, const NetworkOptions& options, const std::string& name,
                const Shape& shape);

// What a layer consists of, and what parameters and values are named after.
enum class Cell { kLstm, kGru };
std::string_view name_of(Cell cell);

// The states of a layer, [sequences, width] each; a GRU has no cells.
struct States {
  Value hidden, cells;
};
struct Layer {
  Value hidden;  // after each token, [rows, width]
  States last;   // after the last one that is read
};
// Reads x [rows, features] from these states on; `end` names the layer: "_l0", "_l1_reverse".
Layer layer(Network& net, const NetworkOptions& options, Cell cell, const std::string& end, Value x,
            const States& first, const RecurrentAttributes& attributes);

}  // namespace podium::recurrent
