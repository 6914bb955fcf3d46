#include "compile/choose.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

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

// Everybody reads the images that a convolution of BF16 operands makes, and the gradients to
// images, rounded.
Graph with_rounded_images(const Graph& graph) {
  Graph result;
  std::map<Value, Value> moved;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    const auto index = static_cast<std::int32_t>(i);
    if (node.op == nullptr) {
      moved[{index, 0}] = result.input(node.name, node.outputs[0], node.role);
      continue;
    }
    std::vector<Value> inputs;
    for (const Value value : node.inputs) inputs.push_back(moved.at(value));
    std::vector<Value> outputs =
        result.add(*node.op, node.attributes, std::move(inputs), node.name);
    if (node.op == &conv2d_bf16_op || node.op == &conv2d_bf16_grad_input_op)
      outputs[0] = result.add1(round_bf16_op, {}, {outputs[0]}, node.name);
    for (std::size_t o = 0; o < outputs.size(); ++o)
      moved[{index, static_cast<std::int32_t>(o)}] = outputs[o];
  }
  for (const NamedValue& output : graph.outputs())
    result.output(output.name, moved.at(output.value));
  return result;
}

}  // namespace

Graph choose_algorithms(const Graph& graph, Precision precision) {
  const Graph result = with_changed_nodes(graph, [&](std::int32_t, Node& node) {
    node.op = precision.bf16 ? &of_bf16(*node.op) : &chosen(graph, node);
    if (precision.bf16 && is_bf16(*node.op))
      node.attributes = with_bf16_order(*node.op, node.attributes, *precision.bf16);
  });
  return precision.bf16 ? with_rounded_images(result) : result;
}

}  // namespace podium
