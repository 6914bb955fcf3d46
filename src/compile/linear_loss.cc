#include "compile/linear_loss.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/ops.h"

namespace podium {
namespace {

// Whether a node is a product of the kind `like`, of operands as they are or transposed.
bool is_product(const Node& node, const Node& like, bool transpose_a, bool transpose_b) {
  if (node.op != like.op || (node.op != &matmul_op && node.op != &matmul_bf16_op)) return false;
  const Bf16Order order = like.attributes.as<MatmulAttributes>().order;
  return node.attributes == Attributes(MatmulAttributes{transpose_a, transpose_b, order});
}

// The nodes of one loss, by number; of a gradient, all or none. The fused node stands where the
// last of them did that needs anything else: the gradient, or the loss.
struct LinearLoss {
  std::int32_t logits = -1, loss = -1, gradient = -1, to_x = -1, to_w = -1;
  std::int32_t place() const { return gradient >= 0 ? gradient : loss; }
};

class Pass {
 public:
  Pass(const Graph& graph, std::int64_t most)
      : old_(graph), most_(most), readers_(readers_of(graph)) {}

  Graph run() {
    for (std::size_t i = 0; i < old_.nodes().size(); ++i) find(static_cast<std::int32_t>(i));
    if (fused_.empty()) return old_;
    std::vector<std::int32_t> waiting;  // for a loss that comes later than it did, in their order
    for (std::size_t i = 0; i < old_.nodes().size(); ++i) {
      waiting.push_back(static_cast<std::int32_t>(i));
      std::erase_if(waiting, [&](std::int32_t index) { return put(index); });
    }
    PODIUM_CHECK(waiting.empty());
    for (const NamedValue& output : old_.outputs())
      new_.output(output.name, moved_.at(output.value));
    return std::move(new_);
  }

 private:
  const Node& node(std::int32_t index) const {
    return old_.nodes()[static_cast<std::size_t>(index)];
  }
  // The only readers of a node's first output; nothing if an output of the program is it.
  std::vector<std::int32_t> readers(std::int32_t index) const {
    const auto found = readers_.find({index, 0});
    if (found == readers_.end() || found->second.outputs > 0) return {};
    return found->second.nodes;
  }

  void find(std::int32_t logits) {
    if (!is_product(node(logits), node(logits), false, true) ||
        node(logits).outputs[0].shape.elements() <= most_)
      return;
    LinearLoss found{.logits = logits};
    for (const std::int32_t reader : readers(logits)) {
      std::int32_t& place =
          node(reader).op == &softmax_cross_entropy_op ? found.loss : found.gradient;
      const bool known = node(reader).op == &softmax_cross_entropy_op ||
                         node(reader).op == &softmax_cross_entropy_grad_op;
      if (!known || place >= 0) return;
      place = reader;
    }
    if (found.loss < 0) return;
    if (found.gradient >= 0 && !find_gradient(found)) return;
    for (const std::int32_t part :
         {found.logits, found.loss, found.gradient, found.to_x, found.to_w})
      if (part >= 0) fused_[part] = found;
  }

  // Whether the gradient is of this loss, needs no loss itself, and is led on to both
  // operands of the product and nowhere else.
  bool find_gradient(LinearLoss& found) const {
    const Node &loss = node(found.loss), &gradient = node(found.gradient);
    const Node& product = node(found.logits);
    const Value x = product.inputs[0], w = product.inputs[1];
    if (gradient.attributes != loss.attributes || gradient.inputs[1] != loss.inputs[1] ||
        needs_a_loss(gradient.inputs[2]))
      return false;
    const Value dlogits{found.gradient, 0};
    for (const std::int32_t reader : readers(found.gradient)) {
      const Node& n = node(reader);
      if (n.inputs[0] != dlogits) return false;
      const bool to_x = is_product(n, product, false, false) && n.inputs[1] == w && found.to_x < 0;
      const bool to_w = is_product(n, product, true, false) && n.inputs[1] == x && found.to_w < 0;
      if (!to_x && !to_w) return false;
      (to_x ? found.to_x : found.to_w) = reader;
    }
    return found.to_x >= 0 && found.to_w >= 0;
  }

  // Whether a value is computed from the cross-entropy of anything.
  bool needs_a_loss(Value value) const {
    std::vector<bool> needed(static_cast<std::size_t>(value.node) + 1);
    needed.back() = true;
    for (std::int32_t i = value.node; i >= 0; --i) {
      if (!needed[static_cast<std::size_t>(i)]) continue;
      if (node(i).op == &softmax_cross_entropy_op) return true;
      for (const Value input : node(i).inputs) needed[static_cast<std::size_t>(input.node)] = true;
    }
    return false;
  }

  // Puts what a node becomes into the new graph; false if an operand is not there yet.
  bool put(std::int32_t index) {
    const Node& node = this->node(index);
    if (node.op == nullptr) {
      moved_[{index, 0}] = new_.input(node.name, node.outputs[0], node.role);
      return true;
    }
    const auto found = fused_.find(index);
    if (found == fused_.end()) {
      std::vector<Value> results;
      for (std::size_t o = 0; o < node.outputs.size(); ++o)
        results.push_back({index, static_cast<std::int32_t>(o)});
      return put(*node.op, node.attributes, node.inputs, node.name, results);
    }
    const LinearLoss& parts = found->second;
    if (index != parts.place()) return true;
    const Node &product = this->node(parts.logits), &loss = this->node(parts.loss);
    std::vector<Value> inputs = {product.inputs[0], product.inputs[1], loss.inputs[1]};
    const Value result{parts.loss, 0};
    auto attributes = loss.attributes.as<SoftmaxCrossEntropyAttributes>();
    attributes.order = product.attributes.as<MatmulAttributes>().order;
    const bool bf16 = product.op == &matmul_bf16_op;
    if (parts.gradient < 0)
      return put(bf16 ? linear_cross_entropy_bf16_op : linear_cross_entropy_op, attributes, inputs,
                 product.name, {result});
    inputs.push_back(this->node(parts.gradient).inputs[2]);
    return put(bf16 ? linear_cross_entropy_bf16_grad_op : linear_cross_entropy_grad_op, attributes,
               inputs, product.name, {result, {parts.to_x, 0}, {parts.to_w, 0}});
  }
  // `results`: what the outputs are in the old graph.
  bool put(const OpDef& op, const Attributes& attributes, std::vector<Value> inputs,
           const std::string& name, const std::vector<Value>& results) {
    for (Value& input : inputs) {
      const auto found = moved_.find(input);
      if (found == moved_.end()) return false;
      input = found->second;
    }
    const std::vector<Value> outputs = new_.add(op, attributes, std::move(inputs), name);
    for (std::size_t o = 0; o < outputs.size(); ++o) moved_[results[o]] = outputs[o];
    return true;
  }

  const Graph& old_;
  const std::int64_t most_;
  Graph new_;
  std::map<Value, Readers> readers_;
  std::map<std::int32_t, LinearLoss> fused_;  // by each node that becomes a part of it
  std::map<Value, Value> moved_;
};

}  // namespace

Graph with_linear_losses(const Graph& graph, std::int64_t most) { return Pass(graph, most).run(); }

}  // namespace podium
