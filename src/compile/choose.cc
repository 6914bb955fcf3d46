#include "compile/choose.h"

#include <algorithm>

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

// Images, weights and output of a convolution, or of that whose gradient the node is.
struct ConvShapes {
  const Shape &x, &w, &y;
};
bool is_conv(const OpDef* op) {
  return op == &conv2d_op || op == &conv2d_grad_input_op || op == &conv2d_grad_weight_op;
}
ConvShapes shapes_of(const Graph& graph, const Node& node) {
  const Shape &first = graph.shape(node.inputs[0]), &second = graph.shape(node.inputs[1]),
              &result = node.outputs[0].shape;
  if (node.op == &conv2d_op) return {first, second, result};
  if (node.op == &conv2d_grad_input_op) return {result, second, first};
  return {first, result, second};
}

const OpDef& chosen(const Graph& graph, const Node& node) {
  if (!is_conv(node.op)) return *node.op;
  const auto& a = node.attributes.as<Conv2dAttributes>();
  const auto [x, w, y] = shapes_of(graph, node);
  if (!winograd_pays(a, x, w, y)) return *node.op;
  if (node.op == &conv2d_op) return conv2d_winograd_op;
  return node.op == &conv2d_grad_input_op ? conv2d_winograd_grad_input_op
                                          : conv2d_winograd_grad_weight_op;
}

// Over whole rows of one channel, as over the words of a sentence, BF16 would save nothing: its
// input gradient has a term for each column of the kernel, of which all but one are zero.
bool is_over_rows(const Graph& graph, const Node& node) {
  if (!is_conv(node.op)) return false;
  const auto [x, w, y] = shapes_of(graph, node);
  return x[1] == 1 && w[3] == x[3] && w[3] > 1;
}

const OpDef& of_bf16(const OpDef& op) {
  if (&op == &conv2d_op) return conv2d_bf16_op;
  if (&op == &conv2d_grad_input_op) return conv2d_bf16_grad_input_op;
  if (&op == &conv2d_grad_weight_op) return conv2d_bf16_grad_weight_op;
  if (&op == &matmul_op) return matmul_bf16_op;
  return op;  // NOLINT(bugprone-return-const-ref-from-parameter)
}

}  // namespace

Graph choose_algorithms(const Graph& graph, Precision precision) {
  return with_changed_nodes(graph, [&](std::int32_t, Node& node) {
    if (precision.bf16 && is_over_rows(graph, node)) return;
    node.op = precision.bf16 ? &of_bf16(*node.op) : &chosen(graph, node);
    if (precision.bf16 && is_bf16(*node.op))
      node.attributes = with_bf16_order(*node.op, node.attributes, *precision.bf16);
  });
}

}  // namespace podium
