#include "graph/graph.h"

#include <set>

#include "graph/op_def.h"

namespace podium {
namespace {

std::string node_label(const OpDef& op, const std::string& name) {
  return name.empty() ? std::string(op.name) : cat(op.name, " \"", name, "\"");
}

bool exists(const Graph& graph, Value value) {
  return value.node >= 0 && value.node < static_cast<std::int32_t>(graph.nodes().size()) &&
         value.output >= 0 &&
         value.output < static_cast<std::int32_t>(graph.node(value).outputs.size());
}

std::vector<TensorType> input_types(const Graph& graph, std::span<const Value> inputs) {
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (const Value value : inputs) types.push_back(graph.type(value));
  return types;
}

Value find(std::span<const NamedValue> values, const std::string& name) {
  for (const NamedValue& value : values) {
    if (value.name == name) return value.value;
  }
  throw InternalError(__FILE__, __LINE__, cat("the graph has no value \"", name, "\""));
}

}  // namespace

Value Graph::input(std::string name, TensorType type, InputRole role) {
  Node node;
  node.outputs = {std::move(type)};
  node.name = name;
  node.role = role;
  nodes_.push_back(std::move(node));
  const Value value{static_cast<std::int32_t>(nodes_.size()) - 1, 0};
  inputs_.push_back({std::move(name), value});
  return value;
}

std::vector<Value> Graph::add(const OpDef& op, Attributes attributes, std::vector<Value> inputs,
                              std::string name) {
  for (const Value value : inputs) {
    PODIUM_CHECK(exists(*this, value), node_label(op, name), " reads a value that is not there");
  }
  const std::vector<TensorType> types = input_types(*this, inputs);
  Node node;
  node.op = &op;
  node.outputs = op.infer(InferContext(node_label(op, name), attributes, types));
  node.attributes = std::move(attributes);
  node.inputs = std::move(inputs);
  node.name = std::move(name);
  nodes_.push_back(std::move(node));
  std::vector<Value> values;
  for (std::size_t i = 0; i < nodes_.back().outputs.size(); ++i) {
    values.push_back({static_cast<std::int32_t>(nodes_.size()) - 1, static_cast<std::int32_t>(i)});
  }
  return values;
}

Value Graph::add1(const OpDef& op, Attributes attributes, std::vector<Value> inputs,
                  std::string name) {
  return add(op, std::move(attributes), std::move(inputs), std::move(name)).front();
}

void Graph::output(std::string name, Value value) {
  PODIUM_CHECK(exists(*this, value), "output ", name, " is a value that is not there");
  outputs_.push_back({std::move(name), value});
}

Value Graph::input(const std::string& name) const { return find(inputs_, name); }
Value Graph::output(const std::string& name) const { return find(outputs_, name); }

void Graph::verify() const {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.op == nullptr) {
      PODIUM_CHECK(node.inputs.empty() && node.outputs.size() == 1, node.name);
      continue;
    }
    for (const Value value : node.inputs) {
      PODIUM_CHECK(value.node >= 0 && value.node < static_cast<std::int32_t>(i), node.op->name,
                   " reads ahead");
      PODIUM_CHECK(value.output < static_cast<std::int32_t>(this->node(value).outputs.size()),
                   node.op->name);
    }
    const std::vector<TensorType> types = input_types(*this, node.inputs);
    PODIUM_CHECK(node.outputs == node.op->infer(InferContext{node_label(*node.op, node.name),
                                                             node.attributes, types}),
                 node.op->name, " has other types than its shape rule gives");
  }
  for (const auto& values : {inputs_, outputs_}) {
    std::set<std::string> names;
    for (const NamedValue& value : values) {
      PODIUM_CHECK(names.insert(value.name).second, "two program values are called ", value.name);
    }
  }
}

std::string to_string(const Graph& graph) {
  std::string text;
  std::int32_t index = 0;
  for (const Node& node : graph.nodes()) {
    text += cat("%", index++, " = ", node.op == nullptr ? "input" : node.op->name, "(");
    const char* separator = "";
    for (const Value value : node.inputs) {
      text += cat(separator, "%", value.node);
      if (graph.node(value).outputs.size() > 1) text += cat(".", value.output);
      separator = ", ";
    }
    text += ')';
    if (!node.attributes.text().empty()) text += cat(" {", node.attributes.text(), "}");
    separator = " : ";
    for (const TensorType& type : node.outputs) {
      text += separator + to_string(type);
      separator = ", ";
    }
    if (!node.name.empty()) text += "  # " + node.name;
    text += '\n';
  }
  for (const NamedValue& output : graph.outputs()) {
    text += cat("output ", output.name, " = %", output.value.node, ".", output.value.output, "\n");
  }
  return text;
}

Graph with_changed_nodes(const Graph& graph,
                         const std::function<void(std::int32_t, Node&)>& change) {
  Graph result;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    Node node = graph.nodes()[i];
    if (node.op == nullptr) {
      result.input(node.name, node.outputs[0], node.role);
    } else {
      change(static_cast<std::int32_t>(i), node);
      result.add(*node.op, std::move(node.attributes), std::move(node.inputs), node.name);
    }
  }
  for (const NamedValue& output : graph.outputs()) result.output(output.name, output.value);
  return result;
}

Graph without_dead_nodes(const Graph& graph) {
  std::vector<bool> live(graph.nodes().size(), false);
  for (const NamedValue& output : graph.outputs())
    live[static_cast<std::size_t>(output.value.node)] = true;
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    if (!live[i]) continue;
    for (const Value value : graph.nodes()[i].inputs)
      live[static_cast<std::size_t>(value.node)] = true;
  }
  Graph result;
  std::vector<std::int32_t> moved(graph.nodes().size(), -1);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op == nullptr) {
      moved[i] = result.input(node.name, node.outputs[0], node.role).node;
    } else if (live[i]) {
      std::vector<Value> inputs = node.inputs;
      for (Value& value : inputs) value.node = moved[static_cast<std::size_t>(value.node)];
      moved[i] = result.add(*node.op, node.attributes, std::move(inputs), node.name).front().node;
    }
  }
  for (const NamedValue& output : graph.outputs()) {
    result.output(output.name,
                  {moved[static_cast<std::size_t>(output.value.node)], output.value.output});
  }
  return result;
}

Cost cost_of(const OpDef& op, const Attributes& attributes, std::span<const TensorType> inputs,
             std::span<const TensorType> outputs) {
  if (op.cost != nullptr) return op.cost(attributes, inputs, outputs);
  Cost cost;
  for (const auto types : {inputs, outputs})
    for (const TensorType& type : types) cost.bytes += static_cast<double>(type.bytes());
  return cost;
}

std::map<Value, Readers> readers_of(const Graph& graph) {
  std::map<Value, Readers> readers;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    for (const Value value : graph.nodes()[i].inputs)
      readers[value].nodes.push_back(static_cast<std::int32_t>(i));
  }
  for (const NamedValue& output : graph.outputs()) ++readers[output.value].outputs;
  return readers;
}

std::int32_t only_reader(const std::map<Value, Readers>& readers, Value value) {
  const auto found = readers.find(value);
  return found != readers.end() && found->second.count() == 1 && found->second.outputs == 0
             ? found->second.nodes[0]
             : -1;
}

}  // namespace podium
