#include "compile/choose.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compile/fuse.h"
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
  return op;  // NOLINT(bugprone-return-const-ref-from-parameter)
}

// What a network of BF16 operands keeps between its operations: images, gradients to images, and
// sums of these.
bool makes_images(const Node& node, const std::set<Value>& images) {
  if (node.outputs[0].shape.rank() != 4) return false;
  switch (node.op->kind) {
    case OpKind::kConv2dBf16:
    case OpKind::kConv2dBf16GradInput:
    case OpKind::kBiasAdd:
    case OpKind::kActivate:
    case OpKind::kActivateGrad:
    case OpKind::kMaxPool:
    case OpKind::kMaxPoolGrad:
    case OpKind::kAvgPool:
    case OpKind::kAvgPoolGrad: return true;
    case OpKind::kBatchNorm:
    case OpKind::kBatchNormGrad:
    case OpKind::kBatchNormInference: return !node.attributes.as<BatchNormAttributes>().defers;
    // Gradients to weights may have four axes, too.
    case OpKind::kAdd:
    case OpKind::kMul:
    case OpKind::kScale:
      return std::ranges::any_of(node.inputs, [&](Value x) { return images.contains(x); });
    default: return false;
  }
}

// Every operation that makes images is followed by their rounding, for all its readers, unless
// these round them themselves.
class ImageRounder {
 public:
  explicit ImageRounder(const Graph& graph) : old_(graph) {
    for (const Node& node : graph.nodes())
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (!rounds_images(*node.op, i)) read_.insert(node.inputs[i]);
    for (const NamedValue& output : graph.outputs()) read_.insert(output.value);
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
    const Value first{index, 0};
    if (node.op == nullptr) {
      moved_[first] = new_.input(node.name, node.outputs[0], node.role);
      return;
    }
    std::vector<Value> inputs;
    for (const Value value : node.inputs) inputs.push_back(moved_.at(value));
    const std::vector<Value> outputs =
        new_.add(*node.op, node.attributes, std::move(inputs), node.name);
    for (std::size_t o = 0; o < outputs.size(); ++o)
      moved_[{index, static_cast<std::int32_t>(o)}] = outputs[o];
    if (!makes_images(node, images_)) return;
    images_.insert(first);
    if (read_.contains(first))
      moved_[first] = new_.add1(round_bf16_op, {}, {outputs[0]}, node.name);
  }

  const Graph& old_;
  Graph new_;
  std::map<Value, Value> moved_;
  std::set<Value> images_;  // of the old graph
  std::set<Value> read_;    // by those who do not round it
};

}  // namespace

Graph choose_algorithms(const Graph& graph, Precision precision) {
  const Graph result = with_changed_nodes(graph, [&](std::int32_t, Node& node) {
    node.op = precision.bf16 ? &of_bf16(*node.op) : &chosen(graph, node);
    if (precision.bf16 && is_bf16(*node.op))
      node.attributes = with_bf16_order(*node.op, node.attributes, *precision.bf16);
  });
  // Which operations there are is part of the contract here, so they are fused before.
  return precision.bf16 ? ImageRounder(fuse(result)).run() : result;
}

}  // namespace podium
