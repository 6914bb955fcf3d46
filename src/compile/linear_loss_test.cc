#include "compile/linear_loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "autodiff/gradients.h"
#include "compile/same_bits_test_util.h"
#include "ops/ops.h"

namespace podium {
namespace {

constexpr std::int64_t kRows = 300, kDepth = 5, kClasses = 40;

std::vector<std::string> operations(const Graph& graph) {
  std::vector<std::string> list;
  for (const Node& node : graph.nodes())
    if (node.op != nullptr) list.emplace_back(node.op->name);
  return list;
}
bool has(const Graph& graph, const OpDef& op) {
  return std::ranges::count(operations(graph), std::string(op.name)) > 0;
}

// relu(x) w^T, its mean cross-entropy with `labels`, and what a test adds.
struct Network {
  explicit Network(std::int64_t rows = kRows, std::int64_t classes = kClasses,
                   const OpDef& product = matmul_op, Bf16Order order = Bf16Order::kAmx) {
    x = graph.input("x", {DType::kF32, {rows, kDepth}}, InputRole::kBatch);
    w = graph.input("w", {DType::kF32, {classes, kDepth}}, InputRole::kParameter);
    labels = graph.input("labels", {DType::kI32, {rows}}, InputRole::kBatch);
    features = relu(graph, x, "features");
    logits = graph.add1(product, MatmulAttributes{.transpose_b = true, .order = order},
                        {features, w}, "logits");
    loss = softmax_cross_entropy(graph, logits, labels, 0.1f, "loss");
    graph.output("mean", batch_mean(graph, loss, "mean"));
  }
  // The gradients of the sum of losses, each times its `weights`.
  void differentiate(Value weights) {
    const std::vector<Value> wanted = {x, w};
    const std::vector<Value> found = gradients(graph, loss, weights, wanted);
    graph.output("dx", found[0]);
    graph.output("dw", found[1]);
  }
  Graph graph;
  Value x, w, labels, features, logits, loss;
};

Graph checked(const Graph& graph) {
  const Graph fused = with_linear_losses(graph, 1000);
  expect_same_results(graph, fused);
  return fused;
}

using Operations = std::vector<std::string>;

TEST(LinearLoss, that_nothing_is_derived_from_is_one_operation) {
  const Graph fused = checked(Network().graph);
  EXPECT_EQ(operations(fused), (Operations{"activate", "linear_cross_entropy", "batch_mean"}));
}

TEST(LinearLoss, and_its_gradients_are_one_operation) {
  Network of_constant, of_weights;
  of_constant.differentiate(fill(of_constant.graph, Shape{kRows}, 0.5f));
  EXPECT_EQ(
      operations(checked(of_constant.graph)),
      (Operations{"activate", "fill", "linear_cross_entropy_grad", "batch_mean", "activate_grad"}));
  of_weights.differentiate(
      of_weights.graph.input("weights", {DType::kF32, {kRows}}, InputRole::kBatch));
  EXPECT_TRUE(has(checked(of_weights.graph), linear_cross_entropy_grad_op));
}

// In BF16, gradients are derived before products become those of BF16.
TEST(LinearLoss, of_bf16_has_the_order_of_its_products) {
  const Graph alone = checked(Network(kRows, kClasses, matmul_bf16_op, Bf16Order::kAmpere).graph);
  EXPECT_EQ(operations(alone), (Operations{"activate", "linear_cross_entropy_bf16", "batch_mean"}));
  Network n;
  n.differentiate(fill(n.graph, Shape{kRows}, 0.5f));
  const auto in_bf16 = [&](Bf16Order other) {
    return with_changed_nodes(n.graph, [&](std::int32_t, Node& node) {
      if (node.op != &matmul_op) return;
      auto a = node.attributes.as<MatmulAttributes>();
      a.order = a.transpose_a ? other : Bf16Order::kHopper;
      node.op = &matmul_bf16_op, node.attributes = a;
    });
  };
  const Graph fused = checked(in_bf16(Bf16Order::kHopper));
  EXPECT_EQ(operations(fused), (Operations{"activate", "fill", "linear_cross_entropy_bf16_grad",
                                           "batch_mean", "activate_grad"}));
  EXPECT_TRUE(has(checked(in_bf16(Bf16Order::kAmpere)), softmax_cross_entropy_grad_op));
}

TEST(LinearLoss, of_two_tables_one_after_the_other) {
  Network n;
  const TensorType of_table{DType::kF32, {kClasses, kDepth}};
  const Value table = n.graph.input("table", of_table, InputRole::kParameter);
  const Value logits = matmul(n.graph, n.x, table, {.transpose_b = true}, "others");
  const Value other = softmax_cross_entropy(n.graph, logits, n.labels, 0, "other");
  n.graph.output("losses", add(n.graph, n.loss, other));
  EXPECT_EQ(std::ranges::count(operations(checked(n.graph)), "linear_cross_entropy"), 2);
}

TEST(LinearLoss, whose_logits_or_gradient_another_reads_keeps_them) {
  Network output, reader, gradient;
  output.graph.output("logits", output.logits);
  EXPECT_TRUE(has(checked(output.graph), matmul_op));
  reader.graph.output("guesses", argmax(reader.graph, reader.logits));
  EXPECT_TRUE(has(checked(reader.graph), matmul_op));
  const Value dlogits = gradient.graph.add1(
      softmax_cross_entropy_grad_op, SoftmaxCrossEntropyAttributes{0.1f},
      {gradient.logits, gradient.labels, fill(gradient.graph, Shape{kRows}, 1.0f)}, "dlogits");
  gradient.graph.output("dlogits", dlogits);
  EXPECT_TRUE(has(checked(gradient.graph), softmax_cross_entropy_grad_op));
}

// The square of a loss: its gradient needs the loss, which would come with the gradients.
TEST(LinearLoss, whose_gradient_needs_a_loss_keeps_its_logits) {
  Network n;
  n.differentiate(n.loss);
  EXPECT_FALSE(has(checked(n.graph), linear_cross_entropy_grad_op));
}

TEST(LinearLoss, of_one_gradient_alone_keeps_its_logits) {
  Network n;
  const std::vector<Value> wanted = {n.w};
  n.graph.output("dw", gradients(n.graph, n.loss, fill(n.graph, Shape{kRows}, 1.0f), wanted)[0]);
  EXPECT_FALSE(has(checked(n.graph), linear_cross_entropy_grad_op));
}

TEST(LinearLoss, of_few_logits_keeps_them) {
  const std::int64_t most = kMostLogits / 4096;
  EXPECT_TRUE(has(with_linear_losses(Network(4096, most).graph), matmul_op));
  EXPECT_FALSE(has(with_linear_losses(Network(4096, most + 1).graph), matmul_op));
}

}  // namespace
}  // namespace podium
