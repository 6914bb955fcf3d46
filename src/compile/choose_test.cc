#include "compile/choose.h"

#include <gtest/gtest.h>

#include "autodiff/gradients.h"
#include "ops/bf16.h"
#include "ops/ops.h"

namespace podium {
namespace {

struct Convolution {
  std::int64_t channels = 12, outputs = 12, height = 8, width = 8;
  std::int64_t kernel_h = 3, kernel_w = 3, stride_h = 1, stride_w = 1;
};

// The operations that the convolution and its two gradients become.
std::vector<std::string> chosen(const Convolution& c) {
  Graph graph;
  const Shape images{4, c.channels, c.height, c.width};
  const Value x = graph.input("x", {DType::kF32, images}, InputRole::kBatch);
  const Value w = graph.input("w", {DType::kF32, {c.outputs, c.channels, c.kernel_h, c.kernel_w}},
                              InputRole::kParameter);
  // `same` padding, each direction by its own stride.
  Conv2dAttributes a = same_padding(images, c.kernel_h, c.kernel_w, c.stride_h);
  const Conv2dAttributes other = same_padding(images, c.kernel_h, c.kernel_w, c.stride_w);
  a.stride_w = other.stride_w, a.pad_left = other.pad_left, a.pad_right = other.pad_right;
  const Value y = conv2d(graph, x, w, a, "conv");
  const Value dy = graph.input("dy", graph.type(y), InputRole::kBatch);
  gradients(graph, y, dy, std::vector<Value>{x, w});
  std::vector<std::string> names;
  const Graph result = choose_algorithms(graph);
  for (const Node& node : result.nodes()) {
    if (node.op != nullptr) names.emplace_back(node.op->name);
  }
  return names;
}

const std::vector<std::string> kDirect = {"conv2d", "conv2d_grad_input", "conv2d_grad_weight"};
const std::vector<std::string> kWinograd = {"conv2d_winograd", "conv2d_winograd_grad_input",
                                            "conv2d_winograd_grad_weight"};

TEST(Choose, winograd_takes_3x3_with_twelve_channels_on_both_sides) {
  EXPECT_EQ(chosen({}), kWinograd);
  EXPECT_EQ(chosen({.channels = 11}), kDirect);
  EXPECT_EQ(chosen({.outputs = 11}), kDirect);
  EXPECT_EQ(chosen({.channels = 64, .outputs = 64}), kWinograd);
}

TEST(Choose, channels_count_once_for_each_phase_of_the_stride) {
  const Convolution strided{.kernel_h = 6, .kernel_w = 6, .stride_h = 2, .stride_w = 2};
  Convolution c = strided;
  c.channels = 3;
  EXPECT_EQ(chosen(c), kWinograd);
  c.channels = 2;
  EXPECT_EQ(chosen(c), kDirect);
  // The channels of the output have no phases.
  c = strided;
  c.outputs = 11;
  EXPECT_EQ(chosen(c), kDirect);
}

TEST(Choose, the_kernel_must_be_three_times_the_stride_in_both_directions) {
  EXPECT_EQ(chosen({.kernel_h = 1, .kernel_w = 1}), kDirect);
  EXPECT_EQ(chosen({.kernel_h = 5, .kernel_w = 5}), kDirect);
  EXPECT_EQ(chosen({.kernel_w = 5}), kDirect);
  EXPECT_EQ(chosen({.kernel_h = 5}), kDirect);
  EXPECT_EQ(chosen({.stride_h = 2, .stride_w = 2}), kDirect);
  EXPECT_EQ(chosen({.kernel_w = 6, .stride_w = 2}), kWinograd);
  EXPECT_EQ(chosen({.kernel_w = 6, .stride_h = 2}), kDirect);
}

TEST(Choose, outputs_must_have_four_rows_and_columns) {
  EXPECT_EQ(chosen({.height = 4, .width = 4}), kWinograd);
  EXPECT_EQ(chosen({.height = 3}), kDirect);
  EXPECT_EQ(chosen({.width = 3}), kDirect);
  // The output counts, not the input: 7 and 6 rows at stride 2 give 4 and 3.
  Convolution strided{.kernel_h = 6, .kernel_w = 6, .stride_h = 2, .stride_w = 2};
  strided.height = 7;
  EXPECT_EQ(chosen(strided), kWinograd);
  strided.height = 6;
  EXPECT_EQ(chosen(strided), kDirect);
}

TEST(Choose, the_batch_has_no_say) {
  for (const std::int64_t images : {1, 3, 1000}) {
    Graph graph;
    const Value x = graph.input("x", {DType::kF32, {images, 12, 8, 8}}, InputRole::kBatch);
    const Value w = graph.input("w", {DType::kF32, {12, 12, 3, 3}}, InputRole::kParameter);
    conv2d(graph, x, w, same_padding(graph.shape(x), 3, 3, 1));
    EXPECT_EQ(choose_algorithms(graph).nodes().back().op, &conv2d_winograd_op) << images;
  }
}

TEST(Choose, the_layers_of_the_mnist_network_are_told_apart) {
  EXPECT_EQ(chosen({.channels = 1, .outputs = 6, .height = 28, .width = 28}), kDirect);
  Convolution c{.channels = 6,
                .outputs = 12,
                .height = 28,
                .width = 28,
                .kernel_h = 6,
                .kernel_w = 6,
                .stride_h = 2,
                .stride_w = 2};
  EXPECT_EQ(chosen(c), kWinograd);
  c.channels = 12, c.outputs = 24, c.height = c.width = 14;
  EXPECT_EQ(chosen(c), kWinograd);
}

TEST(Choose, changes_nothing_else) {
  Graph graph;
  const Value x = graph.input("x", {DType::kF32, {4, 12, 8, 8}}, InputRole::kBatch);
  const Value w = graph.input("w", {DType::kF32, {12, 12, 3, 3}}, InputRole::kParameter);
  const Value b = graph.input("b", {DType::kF32, {12}}, InputRole::kParameter);
  const Value y = conv2d(graph, x, w, same_padding(graph.shape(x), 3, 3, 1), "conv");
  graph.output("unused", relu(graph, x));
  graph.output("y", relu(graph, bias_add(graph, y, b, "bias")));
  const Graph result = choose_algorithms(graph);
  EXPECT_NO_THROW(result.verify());
  std::string expected = to_string(graph);
  expected.replace(expected.find("conv2d("), 7, "conv2d_winograd(");
  EXPECT_EQ(to_string(result), expected);
  EXPECT_EQ(result.node(result.input("w")).role, InputRole::kParameter);
  // Once chosen, chosen for good.
  EXPECT_EQ(to_string(choose_algorithms(result)), expected);
}

// With the gradients as outputs, beside the losses.
Graph with_gradients(Graph& graph, Value losses, const std::vector<Value>& wanted,
                     Precision precision) {
  const Value ones = fill(graph, graph.shape(losses), 1);
  const std::vector<Value> found = gradients(graph, losses, ones, wanted);
  graph.output("losses", losses);
  for (std::size_t i = 0; i < found.size(); ++i) graph.output(graph.node(wanted[i]).name, found[i]);
  return choose_algorithms(graph, precision);
}

// A block of a residual network, its losses and its gradients.
Graph residual_block(Precision precision) {
  Graph graph;
  const Shape images{4, 8, 6, 6};
  const auto parameter = [&](const char* name, const Shape& shape) {
    return graph.input(name, {DType::kF32, shape}, InputRole::kParameter);
  };
  const Value x = graph.input("x", {DType::kF32, {4, 3, 6, 6}}, InputRole::kBatch),
              stem = parameter("stem", {8, 3, 1, 1}), w = parameter("w", {8, 8, 3, 3}),
              gamma = parameter("gamma", {8}), beta = parameter("beta", {8}),
              labels = graph.input("labels", {DType::kI32, {4}}, InputRole::kBatch);
  const Value y = conv2d(graph, x, stem, {}, "stem");
  const Value z = conv2d(graph, y, w, same_padding(images, 3, 3, 1), "conv");
  const Value sum = add(graph, batch_norm(graph, z, gamma, beta, 1e-5f, "norm").y, y, "sum");
  const Value pooled = avg_pool(graph, relu(graph, sum, "relu"), 6, 6, "pool");
  const Value head = parameter("head", {8, 5});
  const Value logits = matmul(graph, flatten(graph, pooled, "flat"), head, {}, "head");
  const Value losses = softmax_cross_entropy(graph, logits, labels, 0, "loss");
  return with_gradients(graph, losses, {stem, w, gamma, beta, head}, precision);
}

// A block of a transformer.
Graph transformer_block(Precision precision, std::int64_t words = 11) {
  constexpr std::int64_t kTokens = 6, kWidth = 8;
  Graph graph;
  const auto parameter = [&](const char* name, const Shape& shape) {
    return graph.input(name, {DType::kF32, shape}, InputRole::kParameter);
  };
  const Value tokens = graph.input("tokens", {DType::kI32, {2, kTokens}}, InputRole::kBatch),
              labels = graph.input("labels", {DType::kI32, {2 * kTokens}}, InputRole::kBatch),
              table = parameter("table", {words, kWidth}), gain = parameter("gain", {kWidth}),
              w = parameter("w", {kWidth, kWidth}), bias = parameter("bias", {kWidth});
  const Value x = embedding(graph, tokens, table, "words");
  const Value normed = rms_norm(graph, x, gain, 1e-5f, "norm");
  const Value q = matmul(graph, normed, w, {}, "q"), k = matmul(graph, normed, w, {}, "k"),
              v = matmul(graph, normed, w, {}, "v");
  const Value mixed = attention(graph, q, k, v, {.tokens = kTokens}, "attention");
  const Value sum = add(graph, x, matmul(graph, mixed, w, {}, "out"), "sum");
  const Value hidden =
      activate(graph, bias_add(graph, matmul(graph, sum, w, {}, "dense"), bias, "bias"),
               {ActivationKind::kGelu}, "gelu");
  const Value logits = matmul(graph, hidden, table, {.transpose_b = true}, "head");
  const Value losses = softmax_cross_entropy(graph, logits, labels, 0, "loss");
  return with_gradients(graph, losses, {table, gain, w, bias}, precision);
}

std::vector<std::string> rounded_in(const Graph& graph) {
  std::vector<std::string> rounded;
  for (const Node& node : graph.nodes())
    if (node.op == &round_bf16_op)
      rounded.push_back(
          cat(graph.node(node.inputs[0]).op->name, " ", node.name, " ", node.inputs[0].output));
  return rounded;
}

TEST(Choose, in_bf16_every_token_that_others_than_products_read_is_rounded_once) {
  const Graph graph = transformer_block({Bf16Order::kHopper});
  // Not: what products, those of attention among them, alone read, logits, gradients to parameters
  // and to logits.
  const std::vector<std::string> expected{
      "embedding words 0",      "matmul_bf16 out 0",    "matmul_bf16 dense 0", "bias_add bias 0",
      "matmul_bf16 head 0",     "activate_grad gelu 0", "matmul_bf16 dense 0", "matmul_bf16 v 0",
      "matmul_bf16 k 0",        "add norm 0",           "matmul_bf16 q 0",     "add norm 0",
      "layer_norm_grad norm 0", "add words 0"};
  EXPECT_EQ(rounded_in(graph), expected);
  for (const NamedValue& output : graph.outputs())
    EXPECT_NE(graph.node(output.value).op, &round_bf16_op) << output.name;
}

TEST(Choose, in_bf16_the_gradient_that_a_loss_of_many_classes_makes_to_tokens_is_rounded) {
  const Graph graph = transformer_block({Bf16Order::kHopper}, std::int64_t{1} << 21);
  const std::vector<std::string> rounded = rounded_in(graph);
  EXPECT_EQ(std::ranges::count(rounded, "linear_cross_entropy_bf16_grad head 1"), 1);
  EXPECT_EQ(rounded.size(), rounded_in(transformer_block({Bf16Order::kHopper})).size());
}

TEST(Choose, in_bf16_every_image_that_others_than_products_read_is_rounded_once) {
  const Graph graph = residual_block({Bf16Order::kHopper});
  for (const Node& node : graph.nodes()) {
    if (node.op == nullptr) continue;
    for (const Value x : node.inputs) {
      const Node& maker = graph.node(x);
      const bool image = maker.op != nullptr && maker.op != &conv2d_bf16_grad_weight_op &&
                         x.output == 0 && graph.shape(x).rank() == 4 && maker.op != &reshape_op &&
                         maker.op != &fill_op;
      if (image && !is_bf16(*node.op) && node.op != &round_bf16_op) {
        EXPECT_EQ(maker.op, &round_bf16_op) << node.op->name << " reads " << maker.name;
      }
    }
  }
  const std::vector<std::string> expected{"conv2d_bf16 stem 0",   "conv2d_bf16 conv 0",
                                          "batch_norm norm 0",    "avg_pool pool 0",
                                          "matmul_bf16 head 0",   "avg_pool_grad pool 0",
                                          "activate_grad relu 0", "conv2d_bf16_grad_input conv 0"};
  EXPECT_EQ(rounded_in(graph), expected);
  for (const NamedValue& output : graph.outputs())
    EXPECT_NE(graph.node(output.value).op, &round_bf16_op) << output.name;
}

TEST(Choose, in_fp32_nothing_is_rounded) {
  EXPECT_TRUE(rounded_in(residual_block({})).empty());
  EXPECT_TRUE(rounded_in(transformer_block({})).empty());
}

}  // namespace
}  // namespace podium
