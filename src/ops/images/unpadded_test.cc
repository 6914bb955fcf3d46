#include "ops/images/unpadded.h"

#include <gtest/gtest.h>

#include "ops/ops.h"

namespace podium {
namespace {

Graph convolution_of(const Shape& images, const Shape& weights, const Conv2dAttributes& a,
                     const OpDef& op = conv2d_op) {
  Graph graph;
  const Value x = graph.input("x", {DType::kF32, images}, InputRole::kBatch),
              w = graph.input("w", {DType::kF32, weights}, InputRole::kParameter);
  graph.add1(op, a, {x, w}, "conv");
  return graph;
}

TEST(UnpaddedFlops, leaves_out_products_with_padding) {
  // Rows and columns of 5 pixels: 5 * 3 places of the kernel, of which one at each end is outside.
  const Conv2dAttributes same{.pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1};
  EXPECT_EQ(unpadded_flops(convolution_of({2, 3, 5, 5}, {4, 3, 3, 3}, same)),
            2.0 * 2 * 3 * 4 * 13 * 13);
  EXPECT_EQ(unpadded_flops(convolution_of({2, 3, 5, 5}, {4, 3, 3, 3}, {})),
            2.0 * 2 * 3 * 4 * 9 * 9);
}

TEST(UnpaddedFlops, counts_what_strides_reach_and_winograd_as_a_direct_convolution) {
  // Rows of 8 pixels: outputs at -2, 0, 2, 4, of which the first misses two places of the kernel.
  Conv2dAttributes a{.stride_h = 2, .stride_w = 2, .pad_top = 2, .pad_left = 2};
  const double expected = 2.0 * 5 * 12 * 12 * (4 + 6 + 6) * (4 + 6 + 6);
  EXPECT_EQ(unpadded_flops(convolution_of({5, 12, 8, 8}, {12, 12, 6, 6}, a)), expected);
  EXPECT_EQ(unpadded_flops(convolution_of({5, 12, 8, 8}, {12, 12, 6, 6}, a, conv2d_winograd_op)),
            expected);
}

TEST(UnpaddedFlops, are_the_same_for_a_convolution_and_its_gradients) {
  Graph graph;
  const Value x = graph.input("x", {DType::kF32, {2, 3, 6, 6}}, InputRole::kBatch),
              w = graph.input("w", {DType::kF32, {4, 3, 3, 3}}, InputRole::kParameter),
              dy = graph.input("dy", {DType::kF32, {2, 4, 6, 6}}, InputRole::kBatch);
  Conv2dAttributes a{.pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1};
  graph.add1(conv2d_op, a, {x, w}, "conv");
  const double forward = unpadded_flops(graph);
  a.extent_h = a.extent_w = 6;
  graph.add1(conv2d_grad_input_op, a, {dy, w}, "conv");
  a.extent_h = a.extent_w = 3;
  graph.add1(conv2d_grad_weight_op, a, {x, dy}, "conv");
  EXPECT_EQ(unpadded_flops(graph), 3 * forward);
  // Nothing else is counted in another way.
  relu(graph, dy, "relu");
  const Node& last = graph.nodes().back();
  const TensorType type = last.outputs[0];
  EXPECT_EQ(unpadded_flops(graph),
            3 * forward + cost_of(*last.op, last.attributes, {&type, 1}, last.outputs).flops);
}

}  // namespace
}  // namespace podium
