#include "autodiff/gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

#include "backend/reference/reference_device.h"
#include "ops/ops.h"
#include "train/plugin/check_operation.h"

namespace podium {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

Tensor vector_of(std::initializer_list<float> values) {
  Tensor tensor(DType::kF32, Shape{static_cast<std::int64_t>(values.size())});
  std::ranges::copy(values, tensor.f32().begin());
  return tensor;
}

// A graph over vectors of three, ready to be differentiated.
struct Small {
  Graph graph;
  Value x = graph.input("x", f32({3}), InputRole::kBatch);
  Value y = graph.input("y", f32({3}), InputRole::kParameter);
  Value seed = graph.input("seed", f32({3}), InputRole::kBatch);

  std::vector<Value> with_respect_to(Value output, std::vector<Value> values) {
    return gradients(graph, output, seed, values);
  }
  std::vector<float> value_of(Value value, std::initializer_list<float> xs,
                              std::initializer_list<float> ys, std::initializer_list<float> seeds) {
    graph.output("asked", value);
    const std::vector<Tensor> inputs = {vector_of(xs), vector_of(ys), vector_of(seeds)};
    const std::vector<Tensor> results = interpret(graph, inputs);
    return {results[0].f32().begin(), results[0].f32().end()};
  }
  std::int64_t count(const OpDef& op) const {
    return std::ranges::count_if(graph.nodes(), [&](const Node& n) { return n.op == &op; });
  }
};

TEST(Gradients, of_the_output_itself_is_the_seed) {
  Small s;
  const Value out = mul(s.graph, s.x, s.y);
  EXPECT_EQ(s.with_respect_to(out, {out}), std::vector<Value>{s.seed});
}

TEST(Gradients, of_a_product_are_the_other_factor_times_the_seed) {
  Small s;
  const std::vector<Value> g = s.with_respect_to(mul(s.graph, s.x, s.y), {s.y});
  EXPECT_EQ(s.value_of(g[0], {1, 2, 3}, {7, 7, 7}, {10, 1, 0.5f}),
            (std::vector<float>{10, 2, 1.5f}));
}

TEST(Gradients, come_in_the_order_asked_for) {
  Small s;
  const Value out = sub(s.graph, s.x, s.y);
  const std::vector<Value> g = s.with_respect_to(out, {s.y, s.x});
  ASSERT_EQ(g.size(), 2U);
  EXPECT_EQ(g[1], s.seed);
  EXPECT_EQ(s.value_of(g[0], {0, 0, 0}, {0, 0, 0}, {1, 2, 3}), (std::vector<float>{-1, -2, -3}));
}

TEST(Gradients, flow_through_a_chain) {
  Small s;
  const Value out = scale(s.graph, relu(s.graph, mul(s.graph, s.x, s.y)), 3.0f);
  const std::vector<Value> g = s.with_respect_to(out, {s.x});
  EXPECT_EQ(s.value_of(g[0], {1, -1, 2}, {5, 5, -4}, {1, 1, 1}), (std::vector<float>{15, 0, 0}));
}

// The sum is ((third + second) + first): in it the small ones meet before they join the large one.
TEST(Gradients, of_a_value_read_by_several_nodes_add_up_from_the_last_reader) {
  Small s;
  const Value first = scale(s.graph, s.x, 1.0f), second = scale(s.graph, s.x, 0x1p-24f),
              third = scale(s.graph, s.x, 0x1p-24f);
  // In another order than the readers have: only the places of the readers count.
  const Value out = add(s.graph, add(s.graph, third, first), second);
  const std::vector<Value> g = s.with_respect_to(out, {s.x});
  EXPECT_EQ(s.value_of(g[0], {0, 0, 0}, {0, 0, 0}, {1, 2, 4}),
            (std::vector<float>{1 + 0x1p-23f, 2 + 0x1p-22f, 4 + 0x1p-21f}));
}

TEST(Gradients, of_a_value_read_twice_by_one_node_add_up_from_the_first_operand) {
  Small s;
  const Value difference = sub(s.graph, s.x, s.x);
  const std::vector<Value> g = s.with_respect_to(difference, {s.x});
  EXPECT_EQ(to_string(s.graph),
            "%0 = input() : f32[3]  # x\n"
            "%1 = input() : f32[3]  # y\n"
            "%2 = input() : f32[3]  # seed\n"
            "%3 = sub(%0, %0) : f32[3]\n"
            "%4 = scale(%2) {factor=-0x1p+0} : f32[3]\n"
            "%5 = add(%2, %4) : f32[3]  # x\n");
  EXPECT_EQ(g[0], (Value{5, 0}));
}

TEST(Gradients, are_not_computed_for_inputs_that_nobody_asked_about) {
  Small s;
  const Value out = mul(s.graph, s.x, s.y);
  s.with_respect_to(out, {s.y});
  EXPECT_EQ(s.count(mul_op), 2);  // the product and one gradient
}

TEST(Gradients, skip_nodes_that_do_not_lie_on_a_path) {
  Small s;
  const Value of_y = mul(s.graph, s.y, s.y);
  const Value out = add(s.graph, scale(s.graph, s.x, 2.0f), of_y);
  s.with_respect_to(out, {s.x});
  EXPECT_EQ(s.count(mul_op), 1);
}

TEST(Gradients, are_not_taken_of_nodes_after_the_output) {
  Small s;
  const Value out = mul(s.graph, s.x, s.y);
  scale(s.graph, out, 5.0f);
  const std::vector<Value> g = s.with_respect_to(out, {s.x});
  EXPECT_EQ(s.count(scale_op), 1);
  EXPECT_EQ(s.value_of(g[0], {0, 0, 0}, {1, 2, 3}, {1, 1, 1}), (std::vector<float>{1, 2, 3}));
}

TEST(Gradients, a_path_through_an_operation_without_gradient_is_refused_by_its_name) {
  Graph graph;
  const Value losses = graph.input("losses", f32({4}), InputRole::kBatch);
  const Value seed = graph.input("seed", f32({}), InputRole::kScalar);
  const Value mean = batch_mean(graph, losses, "loss");
  try {
    gradients(graph, mean, seed, std::vector<Value>{losses});
    FAIL() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "[batch_mean \"loss\"] has no gradient, but a parameter is reached only through it");
  }
}

TEST(Gradients, an_operation_without_gradient_beside_the_path_does_no_harm) {
  Graph graph;
  const Value x = graph.input("x", f32({2, 3}), InputRole::kBatch);
  const Value step = graph.input("step", {DType::kU32, {}}, InputRole::kScalar);
  const Value seed = graph.input("seed", f32({2, 3}), InputRole::kBatch);
  const Value mask = dropout_mask(graph, step, step, {.rate = 0.5f, .shape = {2, 3}});
  const Value out = mul(graph, x, mask);
  EXPECT_EQ(gradients(graph, out, seed, std::vector<Value>{x}).size(), 1U);
  // Nor does it where its own value is asked about: the path ends there.
  const Value to_mask = gradients(graph, out, seed, std::vector<Value>{mask})[0];
  EXPECT_EQ(graph.node(to_mask).inputs, (std::vector<Value>{seed, x}));
}

TEST(Gradients, a_value_that_the_output_does_not_depend_on_is_an_internal_error) {
  Small s;
  const Value out = scale(s.graph, s.x, 2.0f);
  EXPECT_THROW(s.with_respect_to(out, {s.y}), InternalError);
  EXPECT_THROW(s.with_respect_to(s.x, {out}), InternalError);  // it comes later
}

TEST(Gradients, a_seed_of_another_type_is_an_internal_error) {
  Small s;
  const Value wide = s.graph.input("wide", f32({4}), InputRole::kBatch);
  EXPECT_THROW(gradients(s.graph, wide, s.seed, std::vector<Value>{wide}), InternalError);
}

// Rules of operations that a program defines for itself may be wrong.
TEST(Gradients, a_rule_that_gives_another_type_or_too_many_values_is_refused_by_its_operation) {
  static constexpr auto kAdded = [](const OpDef& op) {
    Small s;
    const Value out = s.graph.add1(op, {}, {s.x, s.y}, "mine");
    try {
      s.with_respect_to(out, {s.y});
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  OpDef op = mul_op;
  op.name = "own";
  op.gradient = [](const GradientContext& c) {
    return std::vector<Value>{{}, fill(c.graph, {2}, 1.0f)};
  };
  EXPECT_EQ(kAdded(op),
            "[own \"mine\"] its gradient rule gives f32[2] for input 1, which is f32[3]");
  op.gradient = [](const GradientContext& c) {
    return std::vector<Value>(3, c.output_gradients[0]);
  };
  EXPECT_EQ(
      kAdded(op),
      "[own \"mine\"] has 2 inputs, and its gradient rule gives 3 gradients; it gives one for "
      "each input, in order");
  op.gradient = [](const GradientContext& c) {
    return std::vector<Value>{c.output_gradients[0], {}};
  };
  EXPECT_EQ(kAdded(op),
            "[\"y\"] has no gradient: an operation between it and the output gives none for the "
            "input that leads to it");
}

// --- rules against finite differences: each operation over its samples ---

class GradientRule : public testing::TestWithParam<const OpDef*> {};

TEST_P(GradientRule, agrees_with_finite_differences) {
  const OpDef& op = *GetParam();
  std::uint32_t stream = 0;
  for (const OpSample& sample : op.samples()) {
    // A fused activation has corners that no choice of inputs avoids, or is steep where two values
    // are near each other; fuse_test covers it. A result is deferred after differentiation.
    if (&op == &batch_norm_op) {
      const auto& a = sample.attributes.as<BatchNormAttributes>();
      if (a.activation.kind != ActivationKind::kNone || a.defers) continue;
    }
    // Its parameters and statistics are not trained: the gradient is that of x.
    const bool of_x_alone = &op == &batch_norm_inference_op;
    if (of_x_alone) {
      const auto& a = sample.attributes.as<BatchNormAttributes>();
      if (a.activation.kind != ActivationKind::kNone || a.defers || a.pools || a.adds) continue;
    }
    // So is a convolution made that pools or normalises.
    if (&op == &conv2d_winograd_op) {
      const auto& a = sample.attributes.as<Conv2dAttributes>();
      if (a.pools || a.normalises) continue;
    }
    OperationCheckOptions options;
    if (of_x_alone) options.constant_inputs = {1, 2, 3, 4};
    const bool recurrent = &op == &lstm_op || &op == &gru_op;
    if (recurrent) {
      options.outputs = &op == &lstm_op ? 3 : 2;  // and the states after the last token
      options.step = 0x1p-8f;                     // it bends
    }
    // The largest of a window stays the largest: its values are further apart than the steps.
    const bool pools = &op == &max_pool_op ||
                       (&op == &batch_norm_op && sample.attributes.as<BatchNormAttributes>().pools);
    options.prepare = [&](const OpSample&, std::vector<Tensor>& at) {
      for (std::size_t i = 0; pools && i < at[0].f32().size(); ++i)
        at[0].f32()[i] = 0.2f * static_cast<float>(i * 37 % 61) - 6;
      // Gates that are all open or shut have no slope.
      if (recurrent)
        for (float& weight : at[1].f32()) weight *= 0.125f;
      if (of_x_alone)
        for (float& variance : at[4].f32()) variance = std::abs(variance);
    };
    // A convolution is linear in either operand: any step will do, and a large one keeps the
    // roundings of Winograd's tiles small beside the difference.
    if (&op == &conv2d_winograd_op) options.step = 0.5f;
    for (const std::string& finding : check_gradient(op, sample, ++stream, options))
      ADD_FAILURE() << finding;
  }
}

std::vector<const OpDef*> with_gradient() {
  std::vector<const OpDef*> ops;
  for (const OpDef* op : all_ops()) {
    if (op->gradient != nullptr) ops.push_back(op);
  }
  return ops;
}

INSTANTIATE_TEST_SUITE_P(AllOps, GradientRule, testing::ValuesIn(with_gradient()),
                         [](const auto& tested) { return std::string(tested.param->name); });

}  // namespace
}  // namespace podium
