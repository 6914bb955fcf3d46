#include "compile/fuse.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "autodiff/gradients.h"
#include "compile/same_bits_test_util.h"
#include "ops/ops.h"

namespace podium {
namespace {

std::vector<std::string> names(const Graph& graph) {
  std::vector<std::string> list;
  for (const Node& node : graph.nodes()) {
    if (node.op == nullptr) continue;
    const std::string text = node.attributes.text();
    const bool fused = node.op != &activate_op && node.op != &activate_grad_op &&
                       text.find("activation=") != std::string::npos &&
                       text.find("activation=0") == std::string::npos;
    const bool pools = text.find("pools=true") != std::string::npos;
    const bool places = text.find("places=true") != std::string::npos;
    const bool adds = text.find("adds=true") != std::string::npos;
    const bool of_sum = text.find("activates_sum=true") != std::string::npos;
    const bool defers = text.find("defers=true") != std::string::npos;
    const bool normalises = text.find("normalises=true") != std::string::npos;
    list.push_back(cat(node.op->name, normalises ? "+norm" : "",
                       fused && !of_sum ? "+activation" : "", pools ? "+pool" : "",
                       places ? "+places" : "", adds ? "+add" : "", of_sum ? "+activation" : "",
                       defers ? "+deferred" : ""));
  }
  return list;
}
using Names = std::vector<std::string>;

// Checks what must hold for every graph; returns the fused one.
Graph checked_fuse(const Graph& graph) {
  const Graph fused = fuse(graph);
  expect_same_results(graph, fused);
  return fused;
}

// batch_norm of x, with all that a test may build on it.
struct Norm {
  explicit Norm(Shape shape = {5, 3, 4, 4}) {
    const Shape vector{shape[1]};
    x = graph.input("x", {DType::kF32, std::move(shape)}, InputRole::kBatch);
    gamma = graph.input("gamma", {DType::kF32, vector}, InputRole::kParameter);
    beta = graph.input("beta", {DType::kF32, vector}, InputRole::kParameter);
    out = batch_norm(graph, x, gamma, beta, 1e-3f, "bn");
  }
  void differentiate(Value y) {
    const Value dy = graph.input("dy", graph.type(y), InputRole::kBatch);
    const std::vector<Value> found = gradients(graph, y, dy, std::vector<Value>{x, gamma, beta});
    for (std::size_t i = 0; i < found.size(); ++i) graph.output(cat("gradient", i), found[i]);
  }
  Graph graph;
  Value x, gamma, beta;
  BatchNormOutputs out;
};

TEST(Fuse, batch_norm_takes_the_relu_that_follows) {
  Norm n;
  n.graph.output("y", relu(n.graph, n.out.y));
  n.graph.output("mean", n.out.mean);
  EXPECT_EQ(names(checked_fuse(n.graph)), (Names{"batch_norm+activation"}));
}

TEST(Fuse, batch_norm_for_evaluation_takes_it_too) {
  Graph graph;
  std::vector<Value> vectors;
  const Value x = graph.input("x", {DType::kF32, {6, 4}}, InputRole::kBatch);
  for (const char* name : {"gamma", "beta", "mean", "variance"})
    vectors.push_back(graph.input(name, {DType::kF32, {4}}, InputRole::kState));
  graph.output("y", relu(graph, batch_norm_inference(graph, x, vectors[0], vectors[1], vectors[2],
                                                     vectors[3], 1e-3f)));
  EXPECT_EQ(names(checked_fuse(graph)), (Names{"batch_norm_inference+activation"}));
}

TEST(Fuse, the_gradient_takes_its_own_activation) {
  for (const Shape& shape : {Shape{5, 3, 4, 4}, Shape{18, 7}}) {
    Norm n(shape);
    const Value y = relu(n.graph, n.out.y);
    n.graph.output("y", y);
    n.differentiate(y);
    EXPECT_EQ(names(n.graph),
              (Names{"batch_norm", "activate", "activate_grad", "batch_norm_grad"}));
    EXPECT_EQ(names(checked_fuse(n.graph)),
              (Names{"batch_norm+activation", "batch_norm_grad+activation"}));
  }
}

TEST(Fuse, a_value_that_something_else_reads_keeps_its_relu) {
  Norm n;
  const Value y = relu(n.graph, n.out.y);
  n.graph.output("y", add(n.graph, y, n.out.y));
  EXPECT_EQ(names(checked_fuse(n.graph)), (Names{"batch_norm", "activate", "add"}));
}

TEST(Fuse, a_value_that_two_relus_read_keeps_them) {
  Norm n;
  n.graph.output("y", add(n.graph, relu(n.graph, n.out.y), relu(n.graph, n.out.y)));
  EXPECT_EQ(names(checked_fuse(n.graph)), (Names{"batch_norm", "activate", "activate", "add"}));
}

TEST(Fuse, a_value_that_the_program_puts_out_keeps_its_relu) {
  Norm n;
  n.graph.output("y", relu(n.graph, n.out.y));
  n.graph.output("before", n.out.y);
  EXPECT_EQ(names(checked_fuse(n.graph)), (Names{"batch_norm", "activate"}));
}

TEST(Fuse, a_relu_of_the_statistics_is_left_alone) {
  Norm n;
  n.graph.output("mean", relu(n.graph, n.out.mean));
  EXPECT_EQ(names(checked_fuse(n.graph)), (Names{"batch_norm", "activate"}));
}

TEST(Fuse, a_masked_gradient_that_something_else_reads_is_kept) {
  Norm n;
  const Value y = relu(n.graph, n.out.y);
  n.differentiate(y);
  const auto led_back = std::ranges::find_if(
      n.graph.nodes(), [](const Node& node) { return node.op == &activate_grad_op; });
  n.graph.output("led back", {static_cast<std::int32_t>(led_back - n.graph.nodes().begin()), 0});
  EXPECT_EQ(names(checked_fuse(n.graph)),
            (Names{"batch_norm", "activate_grad", "batch_norm_grad"}));
}

TEST(Fuse, the_gradient_of_another_layers_activation_is_kept) {
  Norm n;
  const BatchNormOutputs other = batch_norm(n.graph, n.x, n.beta, n.gamma, 1e-3f, "other");
  n.graph.output("y", relu(n.graph, n.out.y));
  n.graph.output("z", relu(n.graph, other.y));
  const Value dy = n.graph.input("dy", n.graph.type(other.y), InputRole::kBatch);
  const Value masked =
      n.graph.add1(activate_grad_op, ActivationAttributes{{ActivationKind::kRelu}}, {dy, other.y});
  n.graph.output("dx", n.graph.add1(batch_norm_grad_op, BatchNormAttributes{},
                                    {masked, n.x, n.gamma, n.beta, n.out.mean, n.out.inv_std}));
  EXPECT_EQ(names(checked_fuse(n.graph)), (Names{"batch_norm+activation", "batch_norm", "activate",
                                                 "activate_grad", "batch_norm_grad"}));
}

TEST(Fuse, every_activation_is_fused) {
  for (const Activation& activation : kActivations) {
    if (activation.kind == ActivationKind::kNone) continue;
    Norm n;
    const Value y = activate(n.graph, n.out.y, activation);
    n.graph.output("y", y);
    n.differentiate(y);
    EXPECT_EQ(names(checked_fuse(n.graph)),
              (Names{"batch_norm+activation", "batch_norm_grad+activation"}));
  }
}

TEST(Fuse, layers_after_one_another_are_all_fused) {
  Norm n;
  Value y = relu(n.graph, n.out.y);
  const BatchNormOutputs second = batch_norm(n.graph, y, n.gamma, n.beta, 1e-3f, "bn2");
  y = relu(n.graph, second.y);
  n.graph.output("y", y);
  n.graph.output("variance2", second.variance);
  n.differentiate(y);
  EXPECT_EQ(names(checked_fuse(n.graph)),
            (Names{"batch_norm+activation", "batch_norm+activation", "batch_norm_grad+activation",
                   "batch_norm_grad+activation", "add", "add"}));
}

TEST(Fuse, a_sum_with_what_was_there_before_is_part_of_the_unit) {
  for (const bool activated : {false, true}) {
    for (const bool first : {false, true}) {
      Norm n;
      const Value y = activated ? relu(n.graph, n.out.y) : n.out.y;
      const Value sum = first ? add(n.graph, y, n.x) : add(n.graph, n.x, y);
      n.graph.output("y", sum);
      n.differentiate(sum);
      const std::string kind = activated ? "+activation" : "";
      EXPECT_EQ(names(checked_fuse(n.graph)),
                (Names{"batch_norm" + kind + "+add", "batch_norm_grad" + kind + "+add"}));
    }
  }
}

TEST(Fuse, a_sum_with_what_comes_later_or_that_is_not_alone_is_kept) {
  Norm later;
  const Value y = relu(later.graph, later.out.y);
  const Value z = scale(later.graph, later.x, 2.0f);
  later.graph.output("y", add(later.graph, y, z));
  EXPECT_EQ(names(checked_fuse(later.graph)), (Names{"batch_norm+activation", "scale", "add"}));
  Norm shared;
  const Value both = relu(shared.graph, shared.out.y);
  shared.graph.output("y", add(shared.graph, both, shared.x));
  shared.graph.output("z", scale(shared.graph, both, 2.0f));
  EXPECT_EQ(names(checked_fuse(shared.graph)), (Names{"batch_norm+activation", "add", "scale"}));
  Norm twice;
  const Value same = relu(twice.graph, twice.out.y);
  twice.graph.output("y", add(twice.graph, same, same));
  EXPECT_EQ(names(checked_fuse(twice.graph)), (Names{"batch_norm+activation", "add"}));
}

TEST(Fuse, the_activation_of_such_a_sum_is_part_of_the_unit) {
  for (const ActivationKind kind : {ActivationKind::kRelu, ActivationKind::kGelu})
    for (const bool training : {false, true}) {
      Norm n;
      const Value y = activate(n.graph, add(n.graph, n.x, n.out.y), {kind});
      n.graph.output("y", y);
      if (training) n.differentiate(y);
      const Graph fused = checked_fuse(n.graph);
      // The gradient of another one needs the sum itself.
      const bool takes = kind == ActivationKind::kRelu || !training;
      Names expected =
          takes ? Names{"batch_norm+add+activation"} : Names{"batch_norm+add", "activate"};
      if (training) {
        expected.emplace_back("activate_grad");
        expected.emplace_back("batch_norm_grad+add");
      }
      EXPECT_EQ(names(fused), expected);
      EXPECT_EQ(to_string(fuse(fused)), to_string(fused));
    }
}

TEST(Fuse, a_sum_that_the_gradient_of_an_activation_alone_reads_is_part_of_it) {
  for (const bool put_out : {false, true}) {
    Graph graph;
    const Value x = graph.input("x", {DType::kF32, {5, 3, 4, 4}}, InputRole::kBatch),
                y = activate(graph, x, {ActivationKind::kGelu});
    const Value z = mul(graph, scale(graph, y, 2), scale(graph, y, 3));
    graph.output("z", z);
    const Value dz = graph.input("dz", graph.type(z), InputRole::kBatch);
    graph.output("dx", gradients(graph, z, dz, std::vector<Value>{x})[0]);
    if (put_out) {
      const auto sum =
          std::ranges::find_if(graph.nodes(), [](const Node& node) { return node.op == &add_op; });
      graph.output("dy", {static_cast<std::int32_t>(sum - graph.nodes().begin()), 0});
    }
    const Graph fused = checked_fuse(graph);
    const Names found = names(fused);
    EXPECT_EQ(std::ranges::count(found, "add"), put_out ? 1 : 0);
    EXPECT_EQ(std::ranges::count(found, "activate_grad+add"), put_out ? 0 : 1);
    EXPECT_EQ(to_string(fuse(fused)), to_string(fused));
  }
}

// Of the one activate_grad of a graph: what the second of its operands is.
const Node& operand_of_gradient(const Graph& graph) {
  const auto gradient = std::ranges::find_if(
      graph.nodes(), [](const Node& node) { return node.op == &activate_grad_op; });
  return graph.node(gradient->inputs[1]);
}

TEST(Fuse, the_gradient_of_a_relu_reads_its_result_if_only_they_read_its_operand) {
  const auto fused_relu = [](const Activation& activation, bool puts_out) {
    Norm n;
    const Value x = scale(n.graph, n.out.y, 2), y = activate(n.graph, x, activation);
    n.graph.output("y", y);
    if (puts_out) n.graph.output("x", x);
    n.differentiate(y);
    return checked_fuse(n.graph);
  };
  const Graph fused = fused_relu({ActivationKind::kRelu}, false);
  EXPECT_EQ(names(fused), (Names{"batch_norm", "scale", "activate", "activate_grad", "scale",
                                 "batch_norm_grad"}));
  EXPECT_EQ(operand_of_gradient(fused).op, &activate_op);
  EXPECT_NE(operand_of_gradient(fused_relu({ActivationKind::kRelu}, true)).op, &activate_op);
  EXPECT_NE(operand_of_gradient(fused_relu({ActivationKind::kLeakyRelu, 0.1f}, false)).op,
            &activate_op);
}

TEST(Fuse, a_pooling_is_part_of_the_unit_and_its_gradient) {
  for (const bool activated : {false, true}) {
    Norm n;
    const Value y = activated ? relu(n.graph, n.out.y) : n.out.y;
    const Value pooled = max_pool(n.graph, y, 2, 2);
    n.graph.output("y", pooled);
    n.differentiate(pooled);
    const std::string kind = activated ? "+activation+pool" : "+pool";
    EXPECT_EQ(names(checked_fuse(n.graph)), (Names{"batch_norm" + kind, "batch_norm_grad" + kind}));
    EXPECT_EQ(to_string(fuse(fuse(n.graph))), to_string(fuse(n.graph)));
  }
}

TEST(Fuse, a_pooling_that_does_not_tile_or_is_not_alone_or_costs_more_is_kept) {
  Norm odd({5, 3, 5, 4});
  odd.graph.output("y", max_pool(odd.graph, odd.out.y, 2, 2));
  EXPECT_EQ(names(checked_fuse(odd.graph)), (Names{"batch_norm", "max_pool"}));
  Norm wide;
  wide.graph.output("y", max_pool(wide.graph, wide.out.y, 2, 4));
  EXPECT_EQ(names(checked_fuse(wide.graph)), (Names{"batch_norm", "max_pool"}));
  Norm shared;
  const Value y = relu(shared.graph, shared.out.y);
  shared.graph.output("y", max_pool(shared.graph, y, 2, 2));
  shared.graph.output("z", scale(shared.graph, y, 2.0f));
  EXPECT_EQ(names(checked_fuse(shared.graph)),
            (Names{"batch_norm+activation", "max_pool", "scale"}));
  Norm gelu;
  gelu.graph.output(
      "y", max_pool(gelu.graph, activate(gelu.graph, gelu.out.y, {ActivationKind::kGelu}), 2, 2));
  EXPECT_EQ(names(checked_fuse(gelu.graph)), (Names{"batch_norm+activation", "max_pool"}));
}

TEST(Fuse, the_gradient_of_another_layers_pooling_is_kept) {
  Norm n;
  const BatchNormOutputs other = batch_norm(n.graph, n.x, n.beta, n.gamma, 1e-3f, "other");
  n.graph.output("y", max_pool(n.graph, n.out.y, 2, 2));
  const Value pooled = max_pool(n.graph, other.y, 2, 2);
  n.graph.output("z", pooled);
  const Value dy = n.graph.input("dy", n.graph.type(pooled), InputRole::kBatch);
  const Value led = n.graph.add1(max_pool_grad_op, PoolAttributes{2, 2}, {dy, other.y});
  n.graph.output("dx", n.graph.add1(batch_norm_grad_op, BatchNormAttributes{},
                                    {led, n.x, n.gamma, n.beta, n.out.mean, n.out.inv_std}));
  EXPECT_EQ(names(checked_fuse(n.graph)), (Names{"batch_norm+pool", "batch_norm", "max_pool+places",
                                                 "max_pool_grad+places", "batch_norm_grad"}));
}

TEST(Fuse, the_gradient_of_a_pooling_takes_the_places_that_it_found) {
  // Windows that tile the image, and such that overlap and reach into padding.
  const PoolAttributes strided{
      .window_h = 3, .window_w = 3, .stride_h = 2, .stride_w = 2, .pad_top = 1, .pad_left = 1};
  for (const PoolAttributes& a : {PoolAttributes{}, strided})
    for (const bool twice : {false, true}) {
      Graph graph;
      const Value x = graph.input("x", {DType::kF32, {5, 4, 7, 9}}, InputRole::kBatch),
                  y = max_pool(graph, x, a);
      graph.output("y", y);
      // Another pooling of the same images: its gradient seeks the maxima, as it always did.
      if (twice) graph.output("other", max_pool(graph, x, 3, 1));
      const Value dy = graph.input("dy", graph.type(y), InputRole::kBatch);
      graph.output("dx", gradients(graph, y, dy, std::vector<Value>{x})[0]);
      EXPECT_EQ(names(checked_fuse(graph)),
                twice ? (Names{"max_pool", "max_pool", "max_pool_grad"})
                      : (Names{"max_pool+places", "max_pool_grad+places"}));
      EXPECT_EQ(to_string(fuse(fuse(graph))), to_string(fuse(graph)));
    }
}

TEST(Fuse, a_winograd_convolution_takes_its_gradients_from_what_was_pooled) {
  // Two channels go through another algorithm's gradient, and a second reader wants it whole.
  for (const bool also_read : {false, true}) {
    Graph graph;
    const Shape images{5, 4, 7, 9};
    Conv2dAttributes a = same_padding(images, 3, 3, 1);
    a.pad_bottom = a.pad_right = 0;
    const Value x = graph.input("x", {DType::kF32, images}, InputRole::kBatch),
                w = graph.input("w", {DType::kF32, {16, 4, 3, 3}}, InputRole::kParameter);
    const Value made = graph.add1(conv2d_winograd_op, a, {x, w});
    const Value y = max_pool(graph, made, 2, 2);
    graph.output("y", y);
    const Value dy = graph.input("dy", graph.type(y), InputRole::kBatch);
    std::vector<Value> wanted{x, w};
    if (also_read) wanted.push_back(made);
    const std::vector<Value> found = gradients(graph, y, dy, wanted);
    for (std::size_t i = 0; i < found.size(); ++i) graph.output(cat("gradient", i), found[i]);
    EXPECT_EQ(names(checked_fuse(graph)),
              also_read
                  ? (Names{"conv2d_winograd", "max_pool+places", "max_pool_grad+places",
                           "conv2d_winograd_grad_input", "conv2d_winograd_grad_weight"})
                  : (Names{"conv2d_winograd", "max_pool+places", "conv2d_winograd_grad_input+pool",
                           "conv2d_winograd_grad_weight+pool"}));
    EXPECT_EQ(to_string(fuse(fuse(graph))), to_string(fuse(graph)));
  }
}

TEST(Fuse, a_winograd_convolution_of_whole_tiles_pools_itself) {
  // In an evaluation, and in training, where its gradients read the places.
  for (const bool training : {false, true}) {
    Graph graph;
    const Value x = graph.input("x", {DType::kF32, {3, 16, 8, 4}}, InputRole::kBatch),
                w = graph.input("w", {DType::kF32, {16, 16, 3, 3}}, InputRole::kParameter);
    const Value y = max_pool(
        graph, graph.add1(conv2d_winograd_op, same_padding({3, 16, 8, 4}, 3, 3, 1), {x, w}), 2, 2);
    graph.output("y", y);
    if (training) {
      const Value dy = graph.input("dy", graph.type(y), InputRole::kBatch);
      const std::vector<Value> found = gradients(graph, y, dy, std::vector<Value>{x, w});
      for (std::size_t i = 0; i < found.size(); ++i) graph.output(cat("gradient", i), found[i]);
    }
    EXPECT_EQ(names(checked_fuse(graph)),
              training ? (Names{"conv2d_winograd+pool+places", "conv2d_winograd_grad_input+pool",
                                "conv2d_winograd_grad_weight+pool"})
                       : (Names{"conv2d_winograd+pool"}));
    EXPECT_EQ(to_string(fuse(fuse(graph))), to_string(fuse(graph)));
  }
}

// A convolution of x, normalised and activated.
struct NormedConv {
  explicit NormedConv(const Activation& activation = {ActivationKind::kRelu},
                      std::int64_t out_channels = 16, bool evaluation = false)
      : norm({5, 16, 6, 7}) {
    Graph& graph = norm.graph;
    images = norm.out.y;
    if (evaluation) {
      const Value mean = graph.input("mean", {DType::kF32, {16}}, InputRole::kState),
                  variance = graph.input("variance", {DType::kF32, {16}}, InputRole::kState);
      images = batch_norm_inference(graph, norm.x, norm.gamma, norm.beta, mean, variance, 1e-3f);
    }
    if (activation.kind != ActivationKind::kNone) images = activate(graph, images, activation);
    w = graph.input("w", {DType::kF32, {out_channels, 16, 3, 3}}, InputRole::kParameter);
    y = convolve(w);
    graph.output("y", y);
  }
  Value convolve(Value by) {
    return norm.graph.add1(conv2d_winograd_op, same_padding({5, 16, 6, 7}, 3, 3, 1), {images, by});
  }
  void differentiate() {
    Graph& graph = norm.graph;
    const Value dy = graph.input("dy", graph.type(y), InputRole::kBatch);
    const std::vector<Value> wanted{norm.x, norm.gamma, norm.beta, w};
    const std::vector<Value> found = gradients(graph, y, dy, wanted);
    for (std::size_t i = 0; i < found.size(); ++i) graph.output(cat("gradient", i), found[i]);
  }
  Norm norm;
  Value images, w, y;
};

TEST(Fuse, a_winograd_convolution_makes_the_images_that_a_batch_norm_leaves_to_it) {
  for (const Activation& activation : {Activation{}, Activation{ActivationKind::kRelu},
                                       Activation{ActivationKind::kLeakyRelu, 0.1f}}) {
    const std::string kind = activation.kind == ActivationKind::kNone ? "" : "+activation";
    NormedConv c(activation);
    c.differentiate();
    EXPECT_EQ(names(checked_fuse(c.norm.graph)),
              (Names{"batch_norm" + kind + "+deferred", "conv2d_winograd+norm" + kind,
                     "conv2d_winograd_grad_input", "conv2d_winograd_grad_weight+norm" + kind,
                     "batch_norm_grad" + kind}));
    EXPECT_EQ(to_string(fuse(fuse(c.norm.graph))), to_string(fuse(c.norm.graph)));
    const NormedConv evaluation(activation, 16, true);
    EXPECT_EQ(names(checked_fuse(evaluation.norm.graph)),
              (Names{"batch_norm_inference" + kind + "+deferred", "conv2d_winograd+norm" + kind}));
  }
}

TEST(Fuse, images_that_others_read_or_that_cost_more_are_made_by_the_batch_norm) {
  NormedConv narrow({ActivationKind::kRelu}, 15);
  narrow.differentiate();
  EXPECT_EQ(names(checked_fuse(narrow.norm.graph)),
            (Names{"batch_norm+activation", "conv2d_winograd", "conv2d_winograd_grad_input",
                   "conv2d_winograd_grad_weight", "batch_norm_grad+activation"}));
  const NormedConv gelu({ActivationKind::kGelu});
  EXPECT_EQ(names(checked_fuse(gelu.norm.graph)),
            (Names{"batch_norm+activation", "conv2d_winograd"}));
  NormedConv twice;
  twice.norm.graph.output("z", twice.convolve(twice.w));
  EXPECT_EQ(names(checked_fuse(twice.norm.graph)),
            (Names{"batch_norm+activation", "conv2d_winograd", "conv2d_winograd"}));
  NormedConv read;
  read.norm.graph.output("z", scale(read.norm.graph, read.images, 2.0f));
  EXPECT_EQ(names(checked_fuse(read.norm.graph)),
            (Names{"batch_norm+activation", "conv2d_winograd", "scale"}));
  NormedConv put_out;
  put_out.norm.graph.output("images", put_out.images);
  EXPECT_EQ(names(checked_fuse(put_out.norm.graph)),
            (Names{"batch_norm+activation", "conv2d_winograd"}));
}

TEST(Fuse, what_remains_keeps_its_order_and_names) {
  Norm n;
  const Value before = scale(n.graph, n.x, 2.0f, "before");
  const Value y = relu(n.graph, n.out.y, "after");
  const Value last = mul(n.graph, y, before, "last");
  n.graph.output("y", last);
  const Graph fused = checked_fuse(n.graph);
  std::vector<std::string> order;
  for (const Node& node : fused.nodes()) {
    if (node.op != nullptr) order.push_back(node.name);
  }
  EXPECT_EQ(order, (Names{"bn", "before", "last"}));
}

TEST(Fuse, a_graph_without_patterns_stays_as_it_is) {
  Norm n;
  n.graph.output("y", relu(n.graph, scale(n.graph, n.out.y, 2.0f)));
  EXPECT_EQ(to_string(checked_fuse(n.graph)), to_string(n.graph));
}

TEST(Fuse, a_second_time_changes_nothing) {
  Norm n;
  const Value y = relu(n.graph, n.out.y);
  n.graph.output("y", y);
  n.differentiate(y);
  const Graph fused = fuse(n.graph);
  EXPECT_EQ(to_string(fuse(fused)), to_string(fused));
}

}  // namespace
}  // namespace podium
