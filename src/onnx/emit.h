// How operations of a network read in ONNX's (operator set 17); included by this folder alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "onnx/builder.h"

namespace podium::onnx {

// An operation that is written.
struct Emission {
  Builder& b;
  const Node& node;
  std::vector<std::string> in;           // names of its operands
  std::vector<const TensorType*> types;  // of its operands, for some number of examples
  // Extents of its first result; -1 where they depend on the number of examples.
  std::vector<std::int64_t> extents;
  std::int64_t rows;     // that number in `types` and in the node's outputs
  std::string examples;  // a value whose first extent it is

  template <typename T>
  const T& as() const {
    return node.attributes.as<T>();
  }
  const Shape& shape(std::size_t operand) const { return types[operand]->shape; }
};

// The names of its results; empty: no network that predicts has this operation.
using Results = std::vector<std::string>;
Results emit(const Emission& e);

// Of rows that are tokens (emit_sequence.cc).
std::string emit_embedding(const Emission& e);
std::string emit_layer_norm(const Emission& e);
std::string emit_attention(const Emission& e);
std::string emit_rotary(const Emission& e);
Results emit_lstm(const Emission& e);
Results emit_gru(const Emission& e);

}  // namespace podium::onnx
