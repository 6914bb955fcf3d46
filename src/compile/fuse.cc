#include "compile/fuse.h"

#include <set>

#include "ops/ops.h"

namespace podium {
namespace {

bool is(const Node& node, const OpDef& op) { return node.op == &op; }

class Fuser {
 public:
  explicit Fuser(const Graph& graph) : old_(graph), uses_(count_uses(graph)) {}

  Graph run() {
    for (std::size_t i = 0; i < old_.nodes().size(); ++i) visit(static_cast<std::int32_t>(i));
    for (const NamedValue& output : old_.outputs())
      new_.output(output.name, moved_.at(output.value));
    return without_dead_nodes(new_);
  }

 private:
  void visit(std::int32_t index) {
    const Node& node = old_.nodes()[static_cast<std::size_t>(index)];
    if (node.op == nullptr) {
      moved_[{index, 0}] = new_.input(node.name, node.outputs[0], node.role);
      return;
    }
    std::vector<Value> inputs;
    for (const Value value : node.inputs) inputs.push_back(moved_.at(value));
    Attributes attributes = node.attributes;

    if ((is(node, batch_norm_op) || is(node, batch_norm_inference_op)) && relu_after({index, 0})) {
      // The unit as a whole stands where batch_norm stood; relu becomes its name.
      attributes = with_relu(attributes);
      fused_.insert({index, 0});
    } else if (is(node, relu_op) && fused_.contains(node.inputs[0])) {
      moved_[{index, 0}] = moved_.at(node.inputs[0]);
      return;
    } else if (is(node, batch_norm_grad_op)) {
      const Node& before = old_.node(node.inputs[0]);
      if (is(before, relu_grad_op) && uses_.at(node.inputs[0]) == 1 &&
          masks_own_output(before, node)) {
        inputs[0] = moved_.at(before.inputs[0]);
        attributes = with_relu(attributes);
      }
    }
    const std::vector<Value> outputs = new_.add(*node.op, attributes, std::move(inputs), node.name);
    for (std::size_t o = 0; o < outputs.size(); ++o)
      moved_[{index, static_cast<std::int32_t>(o)}] = outputs[o];
  }

  static Attributes with_relu(const Attributes& attributes) {
    auto a = attributes.as<BatchNormAttributes>();
    a.activation = Activation::kRelu;
    return a;
  }

  // Whether relu is the only reader of the value.
  bool relu_after(Value value) const {
    const auto uses = uses_.find(value);
    if (uses == uses_.end() || uses->second != 1) return false;
    for (const Node& node : old_.nodes()) {
      if (is(node, relu_op) && node.inputs[0] == value) return true;
    }
    return false;
  }

  // Whether relu_grad's mask is the relu of the very batch_norm whose gradient this is.
  bool masks_own_output(const Node& relu_grad, const Node& batch_norm_grad) const {
    const Node& mask = old_.node(relu_grad.inputs[1]);
    if (!is(mask, relu_op) || !fused_.contains(mask.inputs[0])) return false;
    const Node& norm = old_.node(mask.inputs[0]);
    return is(norm, batch_norm_op) && batch_norm_grad.inputs[4] == Value{mask.inputs[0].node, 1};
  }

  const Graph& old_;
  Graph new_;
  std::map<Value, int> uses_;
  std::map<Value, Value> moved_;
  std::set<Value> fused_;
};

}  // namespace

Graph fuse(const Graph& graph) { return Fuser(graph).run(); }

}  // namespace podium
