#include "nn/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "backend/reference/reference_device.h"
#include "base/scratch_test_util.h"
#include "ops/ops.h"

namespace podium {
namespace {

// A network over one input called "x".
struct Net {
  explicit Net(Shape shape, Mode mode = Mode::kTrain, std::uint64_t seed = 1)
      : x(graph.input("x", {DType::kF32, std::move(shape)}, InputRole::kBatch)),
        step(graph.input("step", {DType::kU32, {}}, InputRole::kScalar)),
        replica(graph.input("replica", {DType::kU32, {}}, InputRole::kScalar)),
        net(graph, mode, seed, step, replica) {}

  std::int64_t count(const OpDef& op) const {
    return std::ranges::count_if(graph.nodes(), [&](const Node& n) { return n.op == &op; });
  }

  Graph graph;
  Value x, step, replica;
  Network net;
};

TEST(Network, conv2d_has_a_weight_as_pytorch_names_and_lays_it_out) {
  Net n({8, 3, 9, 7});
  const Value y = n.net.conv2d("stem", n.x, {.channels = 16, .kernel = 5});
  EXPECT_EQ(n.graph.shape(y), (Shape{8, 16, 9, 7}));
  ASSERT_EQ(n.net.parameters().size(), 1U);
  const Parameter& weight = n.net.parameters()[0];
  EXPECT_EQ(weight.name, "stem.weight");
  EXPECT_EQ(weight.shape, (Shape{16, 3, 5, 5}));  // [out, in, h, w]
  EXPECT_EQ(weight.fan_in, 3 * 25);
  EXPECT_EQ(weight.fan_out, 16 * 25);
  EXPECT_EQ(weight.initialiser, Initialiser::kGlorotUniform);
  EXPECT_TRUE(weight.decays);
  EXPECT_EQ(n.graph.input("stem.weight"), weight.value);
  EXPECT_EQ(n.graph.node(weight.value).role, InputRole::kParameter);
}

TEST(Network, conv2d_pads_so_that_the_output_is_the_input_over_the_stride_rounded_up) {
  for (const std::int64_t size : {5, 6, 7, 28})
    for (const std::int64_t kernel : {1, 2, 3, 6})
      for (const std::int64_t stride : {1, 2, 3}) {
        Net n({2, 1, size, size + 1});
        const Value y = n.net.conv2d("c", n.x, {.channels = 4, .kernel = kernel, .stride = stride});
        EXPECT_EQ(n.graph.shape(y),
                  (Shape{2, 4, (size + stride - 1) / stride, (size + stride) / stride}))
            << size << ", kernel " << kernel << ", stride " << stride;
      }
}

TEST(Network, an_odd_remainder_of_padding_goes_below_and_to_the_right) {
  Net n({2, 1, 8, 8});
  const Value y = n.net.conv2d("c", n.x, {.channels = 1, .kernel = 6, .stride = 1});
  const auto& padding = n.graph.node(y).attributes.as<Conv2dAttributes>();
  EXPECT_EQ(padding.pad_top, 2);
  EXPECT_EQ(padding.pad_bottom, 3);
  EXPECT_EQ(padding.pad_left, 2);
  EXPECT_EQ(padding.pad_right, 3);
}

TEST(Network, dense_has_a_weight_of_outputs_by_inputs) {
  Net n({8, 12});
  const Value y = n.net.dense("fc", n.x, {.units = 5});
  EXPECT_EQ(n.graph.shape(y), (Shape{8, 5}));
  ASSERT_EQ(n.net.parameters().size(), 1U);
  const Parameter& weight = n.net.parameters()[0];
  EXPECT_EQ(weight.name, "fc.weight");
  EXPECT_EQ(weight.shape, (Shape{5, 12}));
  EXPECT_EQ(weight.fan_in, 12);
  EXPECT_EQ(weight.fan_out, 5);
  EXPECT_TRUE(weight.decays);
}

TEST(Network, dense_multiplies_by_the_rows_of_its_weight_and_adds_its_bias) {
  Net n({1, 2});
  n.graph.output("y", n.net.dense("fc", n.x, {.units = 3, .bias = true}));
  Tensor x(DType::kF32, {1, 2}), weight(DType::kF32, {3, 2}), bias(DType::kF32, {3});
  std::ranges::copy(std::initializer_list<float>{1, 10}, x.f32().begin());
  std::ranges::copy(std::initializer_list<float>{1, 2, 3, 4, 5, 6}, weight.f32().begin());
  std::ranges::copy(std::initializer_list<float>{100, 200, 300}, bias.f32().begin());
  const Tensor zero = Tensor::scalar(std::uint32_t{0});
  const std::vector<Tensor> y =
      interpret(n.graph, std::vector<Tensor>{x, zero, zero, weight, bias});
  EXPECT_TRUE(std::ranges::equal(y[0].f32(), std::initializer_list<float>{121, 243, 365}));
}

TEST(Network, a_bias_starts_at_zero_and_does_not_decay) {
  Net n({8, 3, 6, 6});
  const Value y = n.net.conv2d("conv", n.x, {.channels = 4, .bias = true});
  n.net.dense("fc", n.net.flatten(y), {.units = 5, .bias = true});
  ASSERT_EQ(n.net.parameters().size(), 4U);
  const Parameter &conv = n.net.parameters()[1], &dense = n.net.parameters()[3];
  EXPECT_EQ(conv.name, "conv.bias");
  EXPECT_EQ(conv.shape, Shape{4});
  EXPECT_EQ(dense.name, "fc.bias");
  EXPECT_EQ(dense.shape, Shape{5});
  for (const Parameter& bias : {conv, dense}) {
    EXPECT_EQ(bias.initialiser, Initialiser::kZeros);
    EXPECT_FALSE(bias.decays);
  }
}

TEST(Network, batch_norm_has_scale_shift_and_running_statistics) {
  Net n({8, 3, 6, 6});
  EXPECT_EQ(n.graph.shape(n.net.batch_norm("bn1", n.x)), (Shape{8, 3, 6, 6}));
  ASSERT_EQ(n.net.parameters().size(), 2U);
  EXPECT_EQ(n.net.parameters()[0].name, "bn1.weight");
  EXPECT_EQ(n.net.parameters()[0].initialiser, Initialiser::kOnes);
  EXPECT_EQ(n.net.parameters()[1].name, "bn1.bias");
  EXPECT_EQ(n.net.parameters()[1].initialiser, Initialiser::kZeros);
  for (const Parameter& parameter : n.net.parameters()) {
    EXPECT_EQ(parameter.shape, Shape{3});
    EXPECT_FALSE(parameter.decays);
  }
  ASSERT_EQ(n.net.statistics().size(), 2U);
  EXPECT_EQ(n.net.statistics()[0].name, "bn1.running_mean");
  EXPECT_EQ(n.net.statistics()[0].initial, 0);
  EXPECT_EQ(n.net.statistics()[1].name, "bn1.running_var");
  EXPECT_EQ(n.net.statistics()[1].initial, 1);
  for (const Statistic& statistic : n.net.statistics()) {
    EXPECT_EQ(statistic.shape, Shape{3});
    EXPECT_EQ(n.graph.node(statistic.old_value).role, InputRole::kState);
    EXPECT_TRUE(statistic.new_value);
  }
}

TEST(Network, batch_norm_counts_the_values_of_a_channel) {
  Net images({8, 3, 6, 5}), features({8, 3});
  images.net.batch_norm("bn", images.x, {.momentum = 0.75f});
  features.net.batch_norm("bn", features.x);
  const auto attributes = [](const Net& n) {
    return n.graph.node(n.net.statistics()[0].new_value)
        .attributes.as<BatchNormRunningAttributes>();
  };
  EXPECT_EQ(attributes(images).count, 8 * 6 * 5);
  EXPECT_EQ(attributes(images).momentum, 0.75f);
  EXPECT_EQ(attributes(features).count, 8);
}

TEST(Network, batch_norm_reads_its_running_statistics_only_in_evaluation) {
  Net train({8, 3}), evaluate({8, 3}, Mode::kEvaluate);
  train.net.batch_norm("bn", train.x);
  evaluate.net.batch_norm("bn", evaluate.x);
  EXPECT_EQ(train.count(batch_norm_op), 1);
  EXPECT_EQ(train.count(batch_norm_inference_op), 0);
  EXPECT_EQ(evaluate.count(batch_norm_op), 0);
  EXPECT_EQ(evaluate.count(batch_norm_running_op), 0);
  EXPECT_EQ(evaluate.count(batch_norm_inference_op), 1);
  EXPECT_FALSE(evaluate.net.statistics()[0].new_value);
}

TEST(Network, frozen_parameters_are_not_trained) {
  Net n({4, 2, 6, 6});
  n.net.freeze([](const std::string& name) { return name.starts_with("conv"); });
  n.net.dense("fc", n.net.flatten(n.net.conv2d("conv", n.x, {.channels = 3, .bias = true})),
              {.units = 2});
  std::vector<std::string> trained;
  for (const Parameter& parameter : n.net.parameters())
    if (parameter.trained) trained.push_back(parameter.name);
  EXPECT_EQ(trained, std::vector<std::string>{"fc.weight"});
}

TEST(Network, batch_norm_that_is_frozen_as_a_whole_runs_on_its_running_statistics) {
  struct Case {
    std::string frozen;
    bool scale, inference;
  };
  for (const Case& c : {Case{"bn.weight", true, false}, Case{"bn.bias", true, false},
                        Case{"bn.", true, true}, Case{"bn.bias", false, true}}) {
    Net n({8, 3});
    n.net.freeze([&](const std::string& name) { return name.starts_with(c.frozen); });
    n.net.batch_norm("bn", n.x, {.scale = c.scale});
    EXPECT_EQ(n.count(batch_norm_inference_op), c.inference ? 1 : 0) << c.frozen;
    EXPECT_EQ(bool(n.net.statistics()[0].new_value), !c.inference) << c.frozen;
  }
}

TEST(Network, both_modes_list_the_same_parameters_in_the_same_order) {
  const auto names = [](Mode mode) {
    Net n({4, 2, 6, 6}, mode);
    Value y = n.net.relu(n.net.batch_norm("bn", n.net.conv2d("conv", n.x, {.channels = 3})));
    y = n.net.dropout("dropout", n.net.flatten(y), 0.5f);
    n.net.dense("fc", y, {.units = 2, .bias = true});
    std::vector<std::string> list;
    for (const Parameter& parameter : n.net.parameters())
      list.push_back(parameter.name + to_string(parameter.shape));
    for (const Statistic& statistic : n.net.statistics()) list.push_back(statistic.name);
    return list;
  };
  EXPECT_EQ(names(Mode::kTrain), names(Mode::kEvaluate));
  EXPECT_EQ(names(Mode::kTrain).size(), 7U);
}

TEST(Network, flatten_and_add_keep_what_they_should) {
  Net n({4, 2, 3, 5});
  EXPECT_EQ(n.graph.shape(n.net.flatten(n.x)), (Shape{4, 30}));
  EXPECT_EQ(n.graph.shape(n.net.add(n.x, n.x)), (Shape{4, 2, 3, 5}));
}

TEST(Network, two_layers_of_one_name_are_refused) {
  Net n({4, 6});
  n.net.dense("fc", n.x, {.units = 6});
  EXPECT_EQ(user_error(ExitCode::kUsage, [&] { n.net.dense("fc", n.x, {.units = 6}); }),
            "[\"fc.weight\"] the model has two parameters of this name; give each layer a name of "
            "its own");
}

TEST(Network, layers_refuse_shapes_that_they_cannot_take_and_say_their_name) {
  Net images({4, 2, 6, 6}), features({4, 6}), list({4});
  EXPECT_EQ(
      user_error(ExitCode::kUsage, [&] { features.net.conv2d("c", features.x, {.channels = 1}); }),
      "[conv2d \"c\"] needs images [N, C, H, W], got [4, 6]");
  EXPECT_EQ(user_error(ExitCode::kUsage, [&] { images.net.dense("d", images.x, {.units = 1}); }),
            "[dense \"d\"] needs [N, F], got [4, 2, 6, 6]; flatten it first");
  EXPECT_EQ(user_error(ExitCode::kUsage, [&] { list.net.batch_norm("b", list.x); }),
            "[batch_norm \"b\"] needs [N, C, H, W] or [N, C], got [4]");
}

TEST(Network, layers_refuse_sizes_below_one) {
  Net images({4, 2, 6, 6}), features({4, 6});
  for (const ConvOptions& options :
       {ConvOptions{.channels = 0}, ConvOptions{.channels = 1, .kernel = 0},
        ConvOptions{.channels = 1, .stride = 0}}) {
    EXPECT_THROW(images.net.conv2d("c", images.x, options), UserError);
  }
  EXPECT_THROW(features.net.dense("d", features.x, {.units = 0}), UserError);
}

TEST(Network, batch_norm_of_one_value_a_channel_is_refused_with_a_remedy) {
  Net n({1, 3});
  const std::string text = user_error(ExitCode::kUsage, [&] { n.net.batch_norm("bn4", n.x); });
  EXPECT_NE(text.find("[batch_norm \"bn4\"]"), std::string::npos) << text;
  EXPECT_NE(text.find("give each replica more images"), std::string::npos) << text;
}

// --- dropout ---

// The factors of the first dropout layer for images [first, first + images) as replica `replica`.
std::vector<float> mask(std::int64_t images, std::uint32_t step, std::uint32_t replica,
                        std::uint64_t seed = 1, int layer = 0) {
  Net n({images, 50}, Mode::kTrain, seed);
  Value y = n.x;
  for (int i = 0; i <= layer; ++i) y = n.net.dropout(cat("dropout", i), y, 0.25f);
  n.graph.output("mask", n.net.dropouts().back().mask);
  const std::vector<Tensor> inputs = {Tensor(DType::kF32, {images, 50}), Tensor::scalar(step),
                                      Tensor::scalar(replica)};
  const std::vector<Tensor> results = interpret(n.graph, inputs);
  return {results[0].f32().begin(), results[0].f32().end()};
}

TEST(Dropout, drops_the_share_that_it_is_told_and_scales_the_rest) {
  const std::vector<float> factors = mask(400, 3, 0);
  const auto dropped = std::ranges::count(factors, 0.0f);
  EXPECT_EQ(dropped + std::ranges::count(factors, 1.0f / 0.75f), 20000);
  EXPECT_NEAR(static_cast<double>(dropped), 5000, 5 * 61);  // five deviations
}

TEST(Dropout, is_a_function_of_seed_step_layer_and_example) {
  const std::vector<float> factors = mask(4, 3, 0);
  EXPECT_EQ(mask(4, 3, 0), factors);
  EXPECT_NE(mask(4, 4, 0), factors);
  EXPECT_NE(mask(4, 3, 1), factors);
  EXPECT_NE(mask(4, 3, 0, 2), factors);
  EXPECT_NE(mask(4, 3, 0, 1, 1), factors);
}

TEST(Dropout, does_not_depend_on_how_many_replicas_share_the_batch) {
  const std::vector<float> whole = mask(8, 5, 0);
  std::vector<float> shares;
  for (std::uint32_t replica = 0; replica < 4; ++replica) {
    const std::vector<float> share = mask(2, 5, replica);
    shares.insert(shares.end(), share.begin(), share.end());
  }
  EXPECT_EQ(shares, whole);
}

TEST(Dropout, multiplies_in_training_and_is_nothing_in_evaluation_or_at_rate_0) {
  Net train({4, 6}), evaluate({4, 6}, Mode::kEvaluate);
  const Value y = train.net.dropout("d", train.x, 0.5f);
  EXPECT_EQ(train.graph.node(y).op, &mul_op);
  EXPECT_EQ(train.net.dropouts()[0].name, "d");
  EXPECT_EQ(train.net.dropout("none", train.x, 0), train.x);
  EXPECT_EQ(train.net.dropouts().size(), 1U);
  EXPECT_EQ(evaluate.net.dropout("d", evaluate.x, 0.5f), evaluate.x);
}

TEST(Dropout, a_rate_outside_0_to_1_is_refused) {
  Net n({4, 6});
  EXPECT_EQ(user_error(ExitCode::kUsage, [&] { n.net.dropout("d", n.x, 1.0f); }),
            "[dropout_mask \"d\"] the rate 1 is outside [0, 1)");
  EXPECT_THROW(n.net.dropout("e", n.x, -0.5f), UserError);
}

// --- what layers of one's own are made of

TEST(OwnParameter, is_listed_in_order_among_those_of_layers) {
  Net n({8, 12});
  n.net.dense("fc", n.x, {.units = 5});
  const Value gate = n.net.parameter({.name = "gate", .shape = {5}, .trained = false});
  ASSERT_EQ(n.net.parameters().size(), 2U);
  EXPECT_EQ(n.net.parameters()[1].value, gate);
  EXPECT_FALSE(n.net.parameters()[1].trained);
  EXPECT_EQ(n.graph.shape(gate), Shape{5});
  EXPECT_EQ(n.graph.node(gate).role, InputRole::kParameter);
}

TEST(OwnParameter, has_the_fans_of_its_shape_unless_they_are_given) {
  Net n({8, 12});
  n.net.parameter({.name = "a", .shape = {7, 5}, .initialiser = Initialiser::kGlorotUniform});
  n.net.parameter({.name = "b", .shape = {7, 5, 3, 2}, .initialiser = Initialiser::kFanInUnit});
  n.net.parameter(
      {.name = "c", .shape = {7}, .initialiser = Initialiser::kFanInUniform, .fan_in = 4});
  const auto& p = n.net.parameters();
  EXPECT_EQ(p[0].fan_in, 5);
  EXPECT_EQ(p[0].fan_out, 7);
  EXPECT_EQ(p[1].fan_in, 5 * 6);
  EXPECT_EQ(p[1].fan_out, 7 * 6);
  EXPECT_EQ(p[2].fan_in, 4);
  for (const Parameter& drawn : p) {
    const Tensor start = initial_value(drawn, 1, 0);
    for (const float x : start.f32()) EXPECT_LT(std::abs(x), 1.0f) << drawn.name;
  }
}

TEST(OwnParameter, an_initialiser_that_cannot_draw_the_shape_is_an_error_that_names_both) {
  Net n({8, 12});
  const auto error = [&](Shape shape, Initialiser initialiser) {
    return user_error(ExitCode::kUsage, [&] {
      n.net.parameter({.name = "p", .shape = std::move(shape), .initialiser = initialiser});
    });
  };
  EXPECT_EQ(error({7}, Initialiser::kGlorotUniform),
            "[\"p\"] of shape [7]: its initialiser needs fan_in and fan_out, which only a shape "
            "[out, in, ...] gives by itself");
  EXPECT_EQ(error({7}, Initialiser::kFanInUniform),
            "[\"p\"] of shape [7]: its initialiser needs fan_in, which only a shape [out, in, ...] "
            "gives by itself");
  EXPECT_EQ(error({7, 3}, Initialiser::kIdentity),
            "[\"p\"] of shape [7, 3]: its initialiser needs filters [out, in, height, width]");
  EXPECT_EQ(error({1, 1}, Initialiser::kUnitDeviation),
            "[\"p\"] of shape [1, 1]: its initialiser needs more than one element");
  EXPECT_EQ(error({7, 0}, Initialiser::kZeros),
            "[\"p\"] has shape [7, 0]; each extent must be at least 1");
}

TEST(OwnParameter, a_name_that_is_taken_or_empty_is_an_error) {
  Net n({8, 12});
  n.net.batch_norm("bn", n.x);
  const auto error = [&](const std::string& name) {
    return user_error(ExitCode::kUsage, [&] { n.net.parameter({.name = name, .shape = {1}}); });
  };
  EXPECT_EQ(error("bn.weight"),
            "[\"bn.weight\"] the model has two parameters of this name; give each layer a name of "
            "its own");
  EXPECT_EQ(error("bn.running_mean"),
            "[\"bn.running_mean\"] the model has a statistic of this name; give each layer a name "
            "of its own");
  EXPECT_EQ(error("x"), "[\"x\"] is the name of an input of the program; take another");
  EXPECT_EQ(error(""), "a parameter or statistic of the model has no name; checkpoints need one");
}

TEST(OwnStatistic, has_a_next_value_in_training_and_none_in_evaluation) {
  for (const Mode mode : {Mode::kTrain, Mode::kEvaluate}) {
    Net n({8, 12}, mode);
    const Value seen = n.net.statistic("seen", {3}, 0.25f);
    const Value next = scale(n.graph, seen, 2.0f);
    n.net.update(seen, next);
    ASSERT_EQ(n.net.statistics().size(), 1U);
    const Statistic& s = n.net.statistics()[0];
    EXPECT_EQ(s.name, "seen");
    EXPECT_EQ(s.initial, 0.25f);
    EXPECT_EQ(s.old_value, seen);
    EXPECT_EQ(s.new_value, mode == Mode::kTrain ? next : Value{});
  }
}

TEST(OwnStatistic, an_update_that_does_not_fit_is_an_error) {
  Net n({8, 12});
  const Value seen = n.net.statistic("seen", {3});
  EXPECT_EQ(user_error(ExitCode::kUsage, [&] { n.net.update(seen, n.x); }),
            "[\"seen\"] its next value is f32[8, 12], but it is f32[3]");
  EXPECT_EQ(user_error(ExitCode::kUsage, [&] { n.net.update(n.x, n.x); }),
            "update() of a value that statistic() did not return");
  n.net.update(seen, seen);
  EXPECT_EQ(user_error(ExitCode::kUsage, [&] { n.net.update(seen, seen); }),
            "[\"seen\"] update() gave it a next value before");
}

}  // namespace
}  // namespace podium
