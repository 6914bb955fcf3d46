#include "ops/images/unpadded.h"

#include <cstdint>
#include <vector>

#include "ops/ops.h"

namespace podium {
namespace {

// Pairs of an output and a place of the kernel that meet on a pixel, along one axis.
std::int64_t pairs(std::int64_t extent, std::int64_t before, std::int64_t after,
                   std::int64_t kernel, std::int64_t stride) {
  std::int64_t count = 0;
  for (std::int64_t first = -before; first + kernel <= extent + after; first += stride)
    for (std::int64_t at = first; at < first + kernel; ++at)
      count += at >= 0 && at < extent ? 1 : 0;
  return count;
}

double convolution_flops(const Conv2dAttributes& a, const Shape& images, const Shape& weights) {
  const std::int64_t of_rows = pairs(images[2], a.pad_top, a.pad_bottom, weights[2], a.stride_h),
                     of_columns = pairs(images[3], a.pad_left, a.pad_right, weights[3], a.stride_w);
  return 2.0 * static_cast<double>(images[0] * weights[0]) *
         static_cast<double>(weights[1] * of_rows * of_columns);
}

}  // namespace

double unpadded_flops(const Graph& graph, const Node& node) {
  if (node.op == nullptr) return 0;
  const auto convolution = [&](const Shape& images, const Shape& weights) {
    return convolution_flops(node.attributes.as<Conv2dAttributes>(), images, weights);
  };
  const auto in = [&](std::size_t i) -> const Shape& { return graph.shape(node.inputs[i]); };
  switch (node.op->kind) {
    case OpKind::kConv2d:
    case OpKind::kConv2dBf16:
    case OpKind::kConv2dWinograd: return convolution(in(0), in(1));
    case OpKind::kConv2dGradInput:
    case OpKind::kConv2dBf16GradInput:
    case OpKind::kConv2dWinogradGradInput: return convolution(node.outputs[0].shape, in(1));
    case OpKind::kConv2dGradWeight:
    case OpKind::kConv2dBf16GradWeight:
    case OpKind::kConv2dWinogradGradWeight: return convolution(in(0), node.outputs[0].shape);
    default: break;
  }
  std::vector<TensorType> inputs;
  for (const Value value : node.inputs) inputs.push_back(graph.type(value));
  return cost_of(*node.op, node.attributes, inputs, node.outputs).flops;
}

double unpadded_flops(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes()) flops += unpadded_flops(graph, node);
  return flops;
}

}  // namespace podium
