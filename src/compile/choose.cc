#include "compile/choose.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compile/fuse.h"
#include "ops/bf16.h"
#include "ops/ops.h"

namespace podium {
namespace {

// Below it the transforms cost more than the products that they save.
constexpr std::int64_t kWinogradChannels = 12;
// From so many on it also pays for outputs of 3x3, a single smaller tile.
constexpr std::int64_t kWideChannels = 64;

// images [N, C, H, W], weights [K, C, R, S], output [N, K, P, Q]: one decision for the three passes
// of a convolution.
bool winograd_pays(const Conv2dAttributes& a, const Shape& x, const Shape& w, const Shape& y) {
  const std::int64_t channels = std::min(x[1] * a.stride_h * a.stride_w, w[0]);
  const std::int64_t least = channels >= kWideChannels ? 3 : 4;
  return w[2] == 3 * a.stride_h && w[3] == 3 * a.stride_w && channels >= kWinogradChannels &&
         y[2] >= least && y[3] >= least;
}

const OpDef& chosen(const Graph& graph, const Node& node) {
  if (node.op != &conv2d_op && node.op != &conv2d_grad_input_op &&
      node.op != &conv2d_grad_weight_op)
    return *node.op;
  const auto& a = node.attributes.as<Conv2dAttributes>();
  const Shape &first = graph.shape(node.inputs[0]), &second = graph.shape(node.inputs[1]),
              &result = node.outputs[0].shape;
  if (node.op == &conv2d_op)
    return winograd_pays(a, first, second, result) ? conv2d_winograd_op : *node.op;
  if (node.op == &conv2d_grad_input_op)
    return winograd_pays(a, result, second, first) ? conv2d_winograd_grad_input_op : *node.op;
  return winograd_pays(a, first, result, second) ? conv2d_winograd_grad_weight_op : *node.op;
}

const OpDef& of_bf16(const OpDef& op) {
  if (&op == &conv2d_op) return conv2d_bf16_op;
  if (&op == &conv2d_grad_input_op) return conv2d_bf16_grad_input_op;
  if (&op == &conv2d_grad_weight_op) return conv2d_bf16_grad_weight_op;
  if (&op == &matmul_op) return matmul_bf16_op;
  if (&op == &attention_op) return attention_bf16_op;
  if (&op == &attention_grad_op) return attention_bf16_grad_op;
  return op;  // NOLINT(bugprone-return-const-ref-from-parameter)
}

// What a network of BF16 operands keeps between its operations: images and tokens, gradients to
// these, and sums of them: whether this result of an operation is one.
bool is_activation(const Node& node, std::size_t output, const std::set<Value>& activations) {
  const std::size_t rank = node.outputs[output].shape.rank();
  if (rank != 2 && rank != 4) return false;
  switch (node.op->kind) {
    case OpKind::kConv2dBf16:
    case OpKind::kConv2dBf16GradInput:
    case OpKind::kBiasAdd:
    case OpKind::kActivate:
    case OpKind::kActivateGrad:
    case OpKind::kMaxPool:
    case OpKind::kMaxPoolGrad:
    case OpKind::kAvgPool:
    case OpKind::kAvgPoolGrad:
    case OpKind::kEmbedding:
    case OpKind::kLayerNorm:
    case OpKind::kLayerNormGrad:
    case OpKind::kAttentionBf16:
    case OpKind::kRotary: return output == 0;
    case OpKind::kAttentionBf16Grad: return true;
    case OpKind::kLinearCrossEntropyBf16Grad: return output == 1;
    case OpKind::kBatchNorm:
    case OpKind::kBatchNormGrad:
    case OpKind::kBatchNormInference:
      return output == 0 && !node.attributes.as<BatchNormAttributes>().defers;
    // Whose terms are the rows is a gradient to weights.
    case OpKind::kMatmulBf16: return !node.attributes.as<MatmulAttributes>().transpose_a;
    // Parameters and gradients to them may have as many axes.
    case OpKind::kAdd:
    case OpKind::kMul:
    case OpKind::kScale:
      return std::ranges::any_of(node.inputs, [&](Value x) { return activations.contains(x); });
    default: return false;
  }
}

// Losses, among them the difference of a regression, and what is counted beside them are of the
// numbers that the network's last operation makes.
bool reads_predictions(const OpDef& op) {
  switch (op.kind) {
    case OpKind::kSoftmaxCrossEntropy:
    case OpKind::kSoftmaxCrossEntropyGrad:
    case OpKind::kCorrect:
    case OpKind::kArgmax:
    case OpKind::kSub: return true;
    default: return false;
  }
}

// Every operation that makes activations is followed by their rounding, for all its readers, unless
// these round them themselves, or they are the network's predictions.
class ActivationRounder {
 public:
  explicit ActivationRounder(const Graph& graph) : old_(graph) {
    for (auto i = static_cast<std::int32_t>(graph.nodes().size()); i-- > 0;) {
      const Node& node = graph.nodes()[static_cast<std::size_t>(i)];
      if (node.op == nullptr) continue;
      // Predictions of several views are added, those of a regression take the shape of the target.
      const bool makes_predictions =
          (node.op == &add_op || node.op == &scale_op || node.op == &reshape_op) &&
          !read_.contains({i, 0}) && !products_.contains({i, 0});
      for (std::size_t k = 0; k < node.inputs.size(); ++k)
        if (rounds(*node.op, k))
          products_.insert(node.inputs[k]);
        else if (!reads_predictions(*node.op) && !makes_predictions)
          read_.insert(node.inputs[k]);
    }
  }

  Graph run() {
    for (std::size_t i = 0; i < old_.nodes().size(); ++i) visit(static_cast<std::int32_t>(i));
    for (const NamedValue& output : old_.outputs())
      new_.output(output.name, moved_.at(output.value));
    return std::move(new_);
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
    const std::vector<Value> outputs =
        new_.add(*node.op, node.attributes, std::move(inputs), node.name);
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const Value old{index, static_cast<std::int32_t>(o)};
      moved_[old] = outputs[o];
      if (!is_activation(node, o, activations_)) continue;
      activations_.insert(old);
      if (read_.contains(old)) moved_[old] = new_.add1(round_bf16_op, {}, {outputs[o]}, node.name);
    }
  }

  const Graph& old_;
  Graph new_;
  std::map<Value, Value> moved_;
  std::set<Value> activations_;  // of the old graph
  std::set<Value> products_;     // what products read, which round it
  std::set<Value> read_;         // what others read, as activations
};

}  // namespace

Graph choose_algorithms(const Graph& graph, Precision precision) {
  const Graph result = with_changed_nodes(graph, [&](std::int32_t, Node& node) {
    node.op = precision.bf16 ? &of_bf16(*node.op) : &chosen(graph, node);
    if (precision.bf16 && is_bf16(*node.op))
      node.attributes = with_bf16_order(*node.op, node.attributes, *precision.bf16);
  });
  // Which operations there are is part of the contract here, so they are fused before.
  return precision.bf16 ? ActivationRounder(fuse(result)).run() : result;
}

}  // namespace podium
