// The graph: a flat list of nodes in an order in which each node comes after what it reads.
// Operations are data (`OpDef`, defined in ops/); a graph knows nothing of how they are computed.
//
// A graph is built by appending and never changed afterwards; a pass makes a new one.
#pragma once

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
// Of an operation that a program defines for itself: no backend has a kernel for it, so each runs
// its reference.
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

// What a program input is, as far as a backend cares: a batch input has the images of the replica
// as first axis.
enum class InputRole : std::uint8_t { kBatch, kParameter, kState, kScalar };

struct Node {
  const OpDef* op = nullptr;  // null: a program input
  Attributes attributes;
  std::vector<Value> inputs;
  std::vector<TensorType> outputs;
  std::string name;
  InputRole role = InputRole::kBatch;  // of a program input
};

struct NamedValue {
  std::string name;
  Value value;
};

class Graph {
 public:
  Value input(std::string name, TensorType type, InputRole role);
  // Appends a node; its output types come from the operation's shape rule, which throws UserError
  // with the node's name in brackets when the inputs break it.
  std::vector<Value> add(const OpDef& op, Attributes attributes, std::vector<Value> inputs,
                         std::string name = "");
  Value add1(const OpDef& op, Attributes attributes, std::vector<Value> inputs,
             std::string name = "");
  void output(std::string name, Value value);

  std::span<const Node> nodes() const { return nodes_; }
  const Node& node(Value value) const { return nodes_[static_cast<std::size_t>(value.node)]; }
  const TensorType& type(Value value) const {
    return node(value).outputs[static_cast<std::size_t>(value.output)];
  }
  const Shape& shape(Value value) const { return type(value).shape; }
  std::span<const NamedValue> inputs() const { return inputs_; }
  std::span<const NamedValue> outputs() const { return outputs_; }
  // The program input or output of that name; InternalError if there is none.
  Value input(const std::string& name) const;
  Value output(const std::string& name) const;

  // Throws InternalError where a rule of graphs is broken: order, types that differ from the shape
  // rule's, names.
  void verify() const;

 private:
  std::vector<Node> nodes_;
  std::vector<NamedValue> inputs_, outputs_;
};

// One line a node: `%7 = conv2d(%3, %1) {stride_h=2, ...} : f32[32, 12, 14, 14]  # conv2`.
std::string to_string(const Graph& graph);

// A copy of the graph, node for node, so that values keep their numbers: change(index, node) may
// give an operation's node another operation of as many outputs, or other attributes.
Graph with_changed_nodes(const Graph& graph,
                         const std::function<void(std::int32_t, Node&)>& change);

// A copy of the graph without nodes that no output needs. Program inputs stay.
Graph without_dead_nodes(const Graph& graph);

// Who reads a value: nodes, one entry for each operand, and the program's outputs.
struct Readers {
  std::vector<std::int32_t> nodes;
  int outputs = 0;
  std::size_t count() const { return nodes.size() + static_cast<std::size_t>(outputs); }
};
// Of all values that something reads.
std::map<Value, Readers> readers_of(const Graph& graph);
// The node that alone reads the value; -1 where there is none, or something else reads it too.
std::int32_t only_reader(const std::map<Value, Readers>& readers, Value value);

}  // namespace podium
