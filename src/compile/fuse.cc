#include "compile/fuse.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "compile/linear_loss.h"
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
    if (is(node, max_pool_op) && pooled_.contains(node.inputs[0])) {
      moved_[{index, 0}] = moved_.at(node.inputs[0]);
      return;
    }
    if (is(node, max_pool_grad_op) && pooled_.contains(node.inputs[1])) return;
    if (const auto sum = sums_.find(index); sum != sums_.end()) {
      moved_[{index, 0}] = moved_.at(sum->second);
      return;
    }

    Unit unit{.attributes = node.attributes, .sources = node.inputs, .further = {}};
    if (is(node, batch_norm_op) || is(node, batch_norm_inference_op)) {
      extend_batch_norm(index, unit);
    } else if (is(node, batch_norm_grad_op)) {
      extend_batch_norm_grad(index, unit);
    } else if (is(node, conv2d_winograd_op)) {
      extend_winograd(index, unit);
      take_norm(unit);
    } else if (is(node, conv2d_winograd_grad_input_op)) {
      take_places(unit, 0);
    } else if (is(node, conv2d_winograd_grad_weight_op)) {
      take_places(unit, 1);
      take_norm(unit);
    } else if (is(node, max_pool_op) && !gradients_of_pooling(index).empty()) {
      auto a = node.attributes.as<PoolAttributes>();
      a.places = true;
      unit.attributes = a;
      if (leads_to_winograd(index)) led_to_winograd_.insert(node.inputs[0]);
    } else if (is(node, max_pool_grad_op) && places_.contains(node.inputs[1])) {
      auto a = node.attributes.as<PoolAttributes>();
      a.places = true;
      a.height = node.outputs[0].shape[2];
      a.width = node.outputs[0].shape[3];
      unit = {a, {node.inputs[0]}, {places_.at(node.inputs[1])}, {}};
    } else if (is(node, activate_grad_op)) {
      take_result(unit);
      take_terms(index, unit);
    }
    std::vector<Value> inputs;
    for (const Value value : unit.sources) inputs.push_back(moved_.at(value));
    std::ranges::copy(unit.further, std::back_inserter(inputs));
    const std::vector<Value> outputs =
        new_.add(*node.op, unit.attributes, std::move(inputs), node.name);
    if (outputs.size() > node.outputs.size()) {
      const Value pooled = is(node, max_pool_op) ? node.inputs[0] : Value{index, 0};
      places_[pooled] = outputs.back();
    }
    if (unit.defers) deferred_.at(*unit.defers).affine = outputs[0];
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      moved_[{index, static_cast<std::int32_t>(o)}] = outputs[o];
  }

  // What a node becomes.
  struct Unit {
    Attributes attributes;
    std::vector<Value> sources;   // operands, of the old graph
    std::vector<Value> further;   // after them, of the new one
    std::optional<Value> defers;  // a batch norm's: what its readers make, of the old graph
  };
  // What is made where it is read: activation(x * scale + shift).
  struct Deferred {
    Value x;  // of the old graph
    Activation activation;
    Value affine;  // of the new one
  };

  void extend_batch_norm(std::int32_t index, Unit& unit) {
    auto a = unit.attributes.as<BatchNormAttributes>();
    Value result{index, 0};
    if (const Node* activate = activation_after(index)) {
      a.activation = activate->attributes.as<ActivationAttributes>().activation;
      fused_.insert(result);
      result = {index_of(*activate), 0};
    }
    if (!a.adds && !a.pools && pools_after(index, result, a.activation)) {
      a.pools = true;
      pooled_.insert(result);
    }
    if (!a.adds && !a.pools && !a.defers && is_deferred(result, a.activation)) {
      a.defers = true;
      deferred_[result] = {node(index).inputs[0], a.activation, {}};
      unit.defers = result;
    }
    if (!a.pools && !a.defers && take_addend(result, index, a, unit.sources))
      take_activation_of_sum(result, index, a);
    unit.attributes = a;
  }

  void extend_batch_norm_grad(std::int32_t index, Unit& unit) {
    auto a = unit.attributes.as<BatchNormAttributes>();
    Value& dy = unit.sources[0];
    const Node* before = &old_.node(dy);
    if (is(*before, activate_grad_op) && fused_.contains(before->inputs[1])) {
      a.activation = before->attributes.as<ActivationAttributes>().activation;
      dy = before->inputs[0];
      before = &old_.node(dy);
    }
    if (is(*before, max_pool_grad_op) && pooled_.contains(before->inputs[1])) {
      a.pools = true;
      dy = before->inputs[0];
    }
    take_addend({index, 0}, index, a, unit.sources);
    unit.attributes = a;
  }

  void extend_winograd(std::int32_t index, Unit& unit) {
    auto a = unit.attributes.as<Conv2dAttributes>();
    const Value y{index, 0};
    const auto found = readers_.find(y);
    if (a.pools || found == readers_.end() || found->second.outputs > 0 ||
        !winograd_pools(a, old_.shape(node(index).inputs[0]), old_.shape(y)))
      return;
    const auto& readers = found->second.nodes;
    const auto pooling = std::ranges::find_if(
        readers, [&](std::int32_t reader) { return is(node(reader), max_pool_op); });
    if (pooling == readers.end() || !is_square_of_two(*pooling, y)) return;
    // What else reads it can only be the one gradient that is led on from there.
    a.places = leads_to_winograd(*pooling);
    if (a.places) led_to_winograd_.insert(y);
    if (found->second.count() != (a.places ? 2 : 1)) return;
    a.pools = true;
    unit.attributes = a;
    pooled_.insert(y);
  }

  // Of a convolution's gradient, whose operand `dy` a pooling may have led back.
  void take_places(Unit& unit, std::size_t dy) {
    const Node& before = old_.node(unit.sources[dy]);
    if (!is(before, max_pool_grad_op) || !led_to_winograd_.contains(before.inputs[1])) return;
    auto a = unit.attributes.as<Conv2dAttributes>();
    a.pools = true;
    unit.attributes = a;
    unit.sources[dy] = before.inputs[0];
    unit.further.push_back(places_.at(before.inputs[1]));
  }

  // Of a convolution or its gradient to the weights, whose images a batch norm may leave to it.
  void take_norm(Unit& unit) {
    const auto found = deferred_.find(unit.sources[0]);
    if (found == deferred_.end()) return;
    auto a = unit.attributes.as<Conv2dAttributes>();
    a.normalises = true;
    a.activation = found->second.activation;
    unit.attributes = a;
    unit.sources[0] = found->second.x;
    unit.further.push_back(found->second.affine);
  }

  // The result of the one activation of x, if nothing else reads x, or gradients of a ReLU alone:
  // whether the operand was above zero, the result tells as well.
  std::optional<Value> activation_alone(Value x) const {
    const auto found = readers_.find(x);
    if (found == readers_.end() || found->second.outputs > 0) return {};
    std::optional<Value> result;
    bool led_back = false;
    for (const std::int32_t reader : found->second.nodes) {
      const Node& n = node(reader);
      const bool forward = is(n, activate_op);
      if (forward ? result.has_value() : !is_gradient_of(n, x)) return {};
      if (n.attributes != node(found->second.nodes[0]).attributes) return {};
      if (forward) result = Value{reader, 0};
      led_back = led_back || !forward;
    }
    if (!result || !readers_.contains(*result)) return {};
    const auto& activation = old_.node(*result).attributes.as<ActivationAttributes>().activation;
    return led_back && activation.kind != ActivationKind::kRelu ? std::nullopt : result;
  }

  // Of the gradient of a ReLU. Where nothing else needs the operand, it need not be kept.
  void take_result(Unit& unit) const {
    const std::optional<Value> result = activation_alone(unit.sources[1]);
    if (result && moved_.contains(*result)) unit.sources[1] = *result;
  }

  // Of the gradient of an activation, whose operand may be a sum that nothing else reads.
  void take_terms(std::int32_t index, Unit& unit) const {
    const Value dy = unit.sources[0];
    const Node& sum = old_.node(dy);
    auto a = unit.attributes.as<ActivationAttributes>();
    if (a.adds || !is(sum, add_op) || sums_.contains(dy.node) || only_reader(readers_, dy) != index)
      return;
    a.adds = true;
    unit.attributes = a;
    unit.sources[0] = sum.inputs[0];
    unit.sources.push_back(sum.inputs[1]);
  }

  // Whether the node is the gradient of an activation of `x`.
  static bool is_gradient_of(const Node& node, Value x) {
    return is(node, activate_grad_op) && node.inputs[1] == x && node.inputs[0] != x;
  }

  // Whether one Winograd convolution of a wide layer and, in training, its gradient to the weights
  // are all that reads a batch norm's result, as images.
  bool is_deferred(Value result, const Activation& activation) const {
    const auto found = readers_.find(result);
    if (found == readers_.end() || found->second.outputs > 0 || is_costly(activation.kind))
      return false;
    int forward = 0, backward = 0;
    for (const std::int32_t reader : found->second.nodes) {
      const Node& n = node(reader);
      if (!is(n, conv2d_winograd_op) && !is(n, conv2d_winograd_grad_weight_op)) return false;
      const auto& a = n.attributes.as<Conv2dAttributes>();
      const bool to_weights = is(n, conv2d_winograd_grad_weight_op);
      const Shape& w = to_weights ? n.outputs[0].shape : old_.shape(n.inputs[1]);
      if (a.normalises || n.inputs[0] != result || n.inputs[1] == result ||
          !winograd_is_wide(a, old_.shape(result), w[0]))
        return false;
      ++(to_weights ? backward : forward);
    }
    return forward == 1 && backward <= 1;
  }

  std::int32_t index_of(const Node& node) const {
    return static_cast<std::int32_t>(&node - old_.nodes().data());
  }

  // The activation that takes the place of what the batch_norm puts out; null where something else
  // reads that.
  const Node* activation_after(std::int32_t batch_norm) const {
    const Value value{batch_norm, 0};
    const auto found = readers_.find(value);
    const auto& a = node(batch_norm).attributes.as<BatchNormAttributes>();
    if (found == readers_.end() || found->second.outputs > 0 ||
        a.activation.kind != ActivationKind::kNone || a.pools || a.adds)
      return nullptr;
    const Node* activate = nullptr;
    for (const std::int32_t reader : found->second.nodes) {
      if (!is(node(reader), activate_op)) continue;
      if (activate != nullptr) return nullptr;
      activate = &node(reader);
    }
    if (activate == nullptr) return nullptr;
    for (const std::int32_t reader : found->second.nodes) {
      if (&node(reader) != activate && !leads_back(reader, *activate, batch_norm)) return nullptr;
    }
    return activate;
  }

  // Whether one max pooling over 2x2 takes the place of the unit's result, and all else that reads
  // that is its gradient, on the way to this batch_norm's. The kernels compute the activation anew
  // where they lead back through the pooling, so it must be a cheap one.
  bool pools_after(std::int32_t batch_norm, Value result, const Activation& activation) const {
    const auto found = readers_.find(result);
    if (found == readers_.end() || found->second.outputs > 0 || is_costly(activation.kind))
      return false;
    int poolings = 0;
    for (const std::int32_t reader : found->second.nodes) {
      const Node& pooling = node(reader);
      const bool forward = is(pooling, max_pool_op);
      if (!forward && !is(pooling, max_pool_grad_op)) return false;
      if (!is_square_of_two(reader, result)) return false;
      if (forward)
        ++poolings;
      else if (!pool_leads_back(reader, result, batch_norm))
        return false;
    }
    return poolings == 1;
  }

  // Whether the gradient of a pooling of `result` is read by the batch_norm's gradient alone, or by
  // that of its activation, which leads there.
  bool pool_leads_back(std::int32_t index, Value result, std::int32_t batch_norm) const {
    const Node& gradient = node(index);
    if (gradient.inputs[0] == result) return false;
    const std::int32_t below = only_reader(readers_, {index, 0});
    if (below < 0 || node(below).inputs[0] != Value{index, 0}) return false;
    if (result.node != batch_norm) return leads_back(below, node(result.node), batch_norm);
    return is(node(below), batch_norm_grad_op) && node(below).inputs[4] == Value{batch_norm, 1} &&
           node(below).attributes == node(batch_norm).attributes;
  }

  // Makes a sum that alone reads the unit's result part of the unit, with the other operand as one
  // more source. Whether it did.
  bool take_addend(Value result, std::int32_t index, BatchNormAttributes& a,
                   std::vector<Value>& sources) {
    if (a.adds) return false;
    const std::int32_t reader = only_reader(readers_, result);
    if (reader < 0 || !is(node(reader), add_op)) return false;
    const Node& sum = node(reader);
    const Value other = sum.inputs[0] == result ? sum.inputs[1] : sum.inputs[0];
    if (!moved_.contains(other)) return false;  // comes later
    sums_[reader] = {index, 0};
    a.adds = true;
    sources.push_back(other);
    return true;
  }

  // Makes the activation of that sum part of the unit, too. Gradients of it take its result.
  void take_activation_of_sum(Value result, std::int32_t index, BatchNormAttributes& a) {
    const std::optional<Value> activated = activation_alone({only_reader(readers_, result), 0});
    if (!activated || a.activation.kind != ActivationKind::kNone) return;
    a.activation = old_.node(*activated).attributes.as<ActivationAttributes>().activation;
    a.activates_sum = true;
    sums_[activated->node] = {index, 0};
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

  // Whether a pooling, or its gradient, is over windows of 2x2 that tile what is pooled.
  bool is_square_of_two(std::int32_t pooling, Value x) const {
    const auto& a = node(pooling).attributes.as<PoolAttributes>();
    const Shape& shape = old_.shape(x);
    return a.window_h == 2 && a.window_w == 2 && a.tiles() && !a.places && shape[2] % 2 == 0 &&
           shape[3] % 2 == 0;
  }

  // The gradients that lead back what one pooling of a value took; none if there are other
  // poolings of it.
  std::vector<std::int32_t> gradients_of_pooling(std::int32_t pooling) const {
    const Value x = node(pooling).inputs[0];
    std::vector<std::int32_t> found;
    for (const std::int32_t reader : readers_.at(x).nodes) {
      const Node& n = node(reader);
      if (is(n, max_pool_op) && reader != pooling) return {};
      if (!is(n, max_pool_grad_op) || n.inputs[1] != x) continue;
      if (n.attributes != node(pooling).attributes) return {};
      found.push_back(reader);
    }
    return found;
  }

  // Whether the pooling takes the largest of windows of 2x2 that tile the image, and the one
  // gradient of it is read by gradients of a Winograd convolution alone, as that to its output.
  bool leads_to_winograd(std::int32_t pooling) const {
    if (!is_square_of_two(pooling, node(pooling).inputs[0])) return false;
    const std::vector<std::int32_t> gradients = gradients_of_pooling(pooling);
    if (gradients.size() != 1) return false;
    const std::int32_t gradient = gradients[0];
    const Value led{gradient, 0};
    const auto found = readers_.find(led);
    if (found == readers_.end() || found->second.outputs > 0) return false;
    return std::ranges::all_of(found->second.nodes, [&](std::int32_t reader) {
      const Node& n = node(reader);
      if (is(n, conv2d_winograd_grad_input_op)) return n.inputs[0] == led && n.inputs[1] != led;
      return is(n, conv2d_winograd_grad_weight_op) && n.inputs[1] == led && n.inputs[0] != led;
    });
  }

  const Graph& old_;
  Graph new_;
  std::map<Value, Readers> readers_;
  std::map<Value, Value> moved_;
  std::set<Value> fused_;               // of batch_norms, with the activation that reads it
  std::set<Value> pooled_;              // with the pooling that reads it
  std::map<Value, Deferred> deferred_;  // results that their readers make
  std::map<Value, Value> places_;       // where the maxima of a value are, in the new graph
  std::set<Value> led_to_winograd_;     // of those, what gradients of convolutions lead back
  std::map<std::int32_t, Value> sums_;  // that became part of what made this value
};

}  // namespace

Graph fuse(const Graph& graph) {
  const Graph of_losses = with_linear_losses(graph);
  return Fuser(of_losses).run();
}

}  // namespace podium
