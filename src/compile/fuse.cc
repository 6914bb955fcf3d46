#include "compile/fuse.h"

#include <map>
#include <optional>
#include <set>

#include "ops/ops.h"

namespace podium {
namespace {

bool is(const Node& node, const OpDef& op) { return node.op == &op; }

class Fuser {
 public:
  explicit Fuser(const Graph& graph) : old_(graph), readers_(readers_of(graph)) {}

  Graph run() {
    for (std::size_t i = 0; i < old_.nodes().size(); ++i) visit(static_cast<std::int32_t>(i));
    for (const NamedValue& output : old_.outputs())
      new_.output(output.name, moved_.at(output.value));
    return without_dead_nodes(new_);
  }

 private:
  const Node& node(std::int32_t index) const {
    return old_.nodes()[static_cast<std::size_t>(index)];
  }

  void visit(std::int32_t index) {
    const Node& node = this->node(index);
    if (node.op == nullptr) {
      moved_[{index, 0}] = new_.input(node.name, node.outputs[0], node.role);
      return;
    }
    if (is(node, activate_op) && fused_.contains(node.inputs[0])) {
      moved_[{index, 0}] = moved_.at(node.inputs[0]);
      return;
    }
    if (is(node, activate_grad_op) && fused_.contains(node.inputs[1])) return;
    if (const auto sum = sums_.find(index); sum != sums_.end()) {
      moved_[{index, 0}] = moved_.at(sum->second);
      return;
    }

    std::vector<Value> sources = node.inputs;
    Attributes attributes = node.attributes;
    if (is(node, batch_norm_op) || is(node, batch_norm_inference_op)) {
      if (const auto activation = activation_after(index)) {
        attributes = with(attributes, *activation);
        fused_.insert({index, 0});
      }
    } else if (is(node, batch_norm_grad_op)) {
      const Node& before = old_.node(sources[0]);
      if (is(before, activate_grad_op) && fused_.contains(before.inputs[1])) {
        attributes = with(attributes, before.attributes.as<ActivationAttributes>().activation);
        sources[0] = before.inputs[0];
      }
    }
    if (is(node, batch_norm_op) || is(node, batch_norm_inference_op) ||
        is(node, batch_norm_grad_op)) {
      if (const auto addend = addend_after(index)) {
        auto a = attributes.as<BatchNormAttributes>();
        a.adds = true;
        attributes = a;
        sources.push_back(*addend);
      }
    }
    std::vector<Value> inputs;
    for (const Value value : sources) inputs.push_back(moved_.at(value));
    const std::vector<Value> outputs = new_.add(*node.op, attributes, std::move(inputs), node.name);
    for (std::size_t o = 0; o < outputs.size(); ++o)
      moved_[{index, static_cast<std::int32_t>(o)}] = outputs[o];
  }

  static Attributes with(const Attributes& attributes, const Activation& activation) {
    auto a = attributes.as<BatchNormAttributes>();
    a.activation = activation;
    return a;
  }

  // The activation that takes the place of what the batch_norm puts out; none where something else
  // reads that.
  std::optional<Activation> activation_after(std::int32_t batch_norm) const {
    const Value value{batch_norm, 0};
    const auto found = readers_.find(value);
    const auto& a = node(batch_norm).attributes.as<BatchNormAttributes>();
    if (found == readers_.end() || found->second.outputs > 0 ||
        a.activation.kind != ActivationKind::kNone)
      return std::nullopt;
    const Node* activate = nullptr;
    for (const std::int32_t reader : found->second.nodes) {
      if (!is(node(reader), activate_op)) continue;
      if (activate != nullptr) return std::nullopt;
      activate = &node(reader);
    }
    if (activate == nullptr) return std::nullopt;
    for (const std::int32_t reader : found->second.nodes) {
      if (&node(reader) != activate && !leads_back(reader, *activate, batch_norm))
        return std::nullopt;
    }
    return activate->attributes.as<ActivationAttributes>().activation;
  }

  // The other operand of a sum that alone reads the unit's result, the activation's where that is
  // part of the unit; the sum is left out then.
  std::optional<Value> addend_after(std::int32_t index) {
    if (node(index).attributes.as<BatchNormAttributes>().adds) return std::nullopt;
    Value result{index, 0};
    if (fused_.contains(result)) {
      for (const std::int32_t reader : readers_.at(result).nodes)
        if (is(node(reader), activate_op)) result = {reader, 0};
    }
    const std::int32_t reader = only_reader(readers_, result);
    if (reader < 0 || !is(node(reader), add_op)) return std::nullopt;
    const Node& sum = node(reader);
    const Value other = sum.inputs[0] == result ? sum.inputs[1] : sum.inputs[0];
    if (!moved_.contains(other)) return std::nullopt;  // comes later
    sums_[reader] = {index, 0};
    return other;
  }

  // Whether the node is the gradient of the activation, and is read by the gradient of the
  // batch_norm alone.
  bool leads_back(std::int32_t index, const Node& activate, std::int32_t batch_norm) const {
    const Node& gradient = node(index);
    const std::int32_t below = only_reader(readers_, {index, 0});
    if (!is(gradient, activate_grad_op) || gradient.attributes != activate.attributes ||
        gradient.inputs[1] != activate.inputs[0] || gradient.inputs[0] == gradient.inputs[1] ||
        below < 0)
      return false;
    const Node& reader = node(below);
    return is(reader, batch_norm_grad_op) && reader.inputs[0] == Value{index, 0} &&
           reader.inputs[4] == Value{batch_norm, 1};
  }

  const Graph& old_;
  Graph new_;
  std::map<Value, Readers> readers_;
  std::map<Value, Value> moved_;
  std::set<Value> fused_;
  std::map<std::int32_t, Value> sums_;  // that became part of what made this value
};

}  // namespace

Graph fuse(const Graph& graph) { return Fuser(graph).run(); }

}  // namespace podium
