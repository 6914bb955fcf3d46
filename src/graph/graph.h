// The graph: a flat list of nodes in topological order (each node comes after its operands).
// Operations are data (`OpDef`, defined in ops/). A graph does not know how they are computed.
//
// A graph is built by appending nodes and never changes afterwards; a pass returns a new graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/attributes.h"
#include "tensor/tensor.h"

namespace podium {

enum class OpKind : std::uint16_t;  // listed in ops/op_list.h
// The kind of operations that a program defines itself. No backend has a kernel for them, so every
// backend runs the reference.
inline constexpr OpKind kOwnOperation = static_cast<OpKind>(0xffff);
struct OpDef;
class Graph;

// One output of one node.
struct Value {
  std::int32_t node = -1;
  std::int32_t output = 0;
  explicit operator bool() const { return node >= 0; }
  auto operator<=>(const Value&) const = default;
};

// The role of a program input, for backends. The first axis of a batch input is the images of the
// replica.
enum class InputRole : std::uint8_t { kBatch, kParameter, kState, kScalar };

// One operation with its operands, or one input of the program.
struct Node {
  const OpDef* op = nullptr;  // null: a program input
  Attributes attributes;
  std::vector<Value> inputs;
  std::vector<TensorType> outputs;
  std::string name;
  InputRole role = InputRole::kBatch;  // of a program input
};

// An input or an output of the program.
struct NamedValue {
  std::string name;
  Value value;
};

// A program of operations, built by appending.
class Graph {
 public:
  // Appends an input of the program. Inputs keep their order.
  Value input(std::string name, TensorType type, InputRole role);
  // Appends a node. The operation's shape rule gives its output types; it throws UserError, with
  // the node's name in brackets, if the inputs violate it.
  std::vector<Value> add(const OpDef& op, Attributes attributes, std::vector<Value> inputs,
                         std::string name = "");
  // The same for an operation with one output.
  Value add1(const OpDef& op, Attributes attributes, std::vector<Value> inputs,
             std::string name = "");
  // Makes a value an output of the program. Outputs keep their order.
  void output(std::string name, Value value);

  // All nodes, each after those that it reads.
  std::span<const Node> nodes() const { return nodes_; }
  // The node that computes a value, the value's type and its shape.
  const Node& node(Value value) const { return nodes_[static_cast<std::size_t>(value.node)]; }
  const TensorType& type(Value value) const {
    return node(value).outputs[static_cast<std::size_t>(value.output)];
  }
  const Shape& shape(Value value) const { return type(value).shape; }
  // The program's inputs and outputs, in the order in which they were appended.
  std::span<const NamedValue> inputs() const { return inputs_; }
  std::span<const NamedValue> outputs() const { return outputs_; }
  // The program input or output of this name. Throws InternalError if there is none.
  Value input(const std::string& name) const;
  Value output(const std::string& name) const;

  // Throws InternalError if the graph breaks a rule: wrong order, duplicate names, or types that
  // differ from those of the shape rule.
  void verify() const;

 private:
  std::vector<Node> nodes_;
  std::vector<NamedValue> inputs_, outputs_;
};

// One line per node: `%7 = conv2d(%3, %1) {stride_h=2, ...} : f32[32, 12, 14, 14]  # conv2`.
std::string to_string(const Graph& graph);

// A copy of the graph, node for node, so that values keep their numbers. change(index, node) may
// replace a node's operation by another with as many outputs, or change its attributes.
Graph with_changed_nodes(const Graph& graph,
                         const std::function<void(std::int32_t, Node&)>& change);

// A copy of the graph without the nodes that no output needs. Program inputs are kept.
Graph without_dead_nodes(const Graph& graph);

// The readers of a value: nodes, with one entry per operand, and the program's outputs.
struct Readers {
  std::vector<std::int32_t> nodes;
  int outputs = 0;
  std::size_t count() const { return nodes.size() + static_cast<std::size_t>(outputs); }
};
// The readers of every value that has at least one.
std::map<Value, Readers> readers_of(const Graph& graph);
// The only node that reads the value; -1 if there is none or if the value has other readers.
std::int32_t only_reader(const std::map<Value, Readers>& readers, Value value);

}  // namespace podium
