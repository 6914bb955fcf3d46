// Values that products of BF16 operands read are rounded by the kernels that make them, where
// images fill octets: bits of the reference, for every operation that can.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/emulated.h"
#include "backend/cuda/lowering.h"
#include "backend/operation_case.h"
#include "backend/reference/reference_device.h"
#include "ops/ops.h"

namespace podium::cuda_emulated {
namespace {

// An operation whose first result is images of three channels.
struct Maker {
  const OpDef* op;
  Attributes attributes;
  std::vector<Shape> operands;
};

std::vector<Maker> makers_of(std::int64_t n) {
  const Shape x{n, 3, 4, 6}, half{n, 3, 2, 3}, c{3};
  std::vector<Maker> makers{
      {&add_op, {}, {x, x}},          {&sub_op, {}, {x, x}},
      {&mul_op, {}, {x, x}},          {&scale_op, Attributes(ScaleAttributes{0.3f}), {x}},
      {&multiply_by_op, {}, {x, {}}}, {&bias_add_op, {}, {x, c}}};
  for (const ActivationKind kind : {ActivationKind::kRelu, ActivationKind::kGelu}) {
    const Activation activation{kind};
    makers.push_back({&activate_op, Attributes(ActivationAttributes{activation}), {x}});
    makers.push_back({&activate_grad_op, Attributes(ActivationAttributes{activation}), {x, x}});
    makers.push_back(
        {&activate_grad_op, Attributes(ActivationAttributes{activation, true}), {x, x, x}});
    const Attributes plain = BatchNormAttributes{.activation = activation},
                     pools = BatchNormAttributes{.activation = activation, .pools = true},
                     adds = BatchNormAttributes{.activation = activation, .adds = true};
    makers.push_back({&batch_norm_op, plain, {x, c, c}});
    makers.push_back({&batch_norm_op, pools, {x, c, c}});
    makers.push_back({&batch_norm_op, adds, {x, c, c, x}});
    makers.push_back(
        {&batch_norm_op,
         BatchNormAttributes{.activation = activation, .adds = true, .activates_sum = true},
         {x, c, c, x}});
    makers.push_back({&batch_norm_inference_op, plain, {x, c, c, c, c}});
    makers.push_back({&batch_norm_grad_op, plain, {x, x, c, c, c, c}});
    makers.push_back({&batch_norm_grad_op, pools, {half, x, c, c, c, c}});
    makers.push_back({&batch_norm_grad_op, adds, {x, x, c, c, c, c, x}});
  }
  const PoolAttributes strided{
      .window_h = 3, .window_w = 3, .stride_h = 2, .stride_w = 2, .pad_top = 1, .pad_left = 1};
  for (PoolAttributes a : {PoolAttributes(), strided}) {
    makers.push_back({&max_pool_op, a, {x}});
    makers.push_back({&max_pool_grad_op, a, {half, x}});
    a.places = true;
    makers.push_back({&max_pool_op, a, {x}});
    a.height = 4, a.width = 6;
    makers.push_back({&max_pool_grad_op, a, {half, half}});
  }
  return makers;
}

// The maker's result, convolved; also a result of the program by itself where it is `read`.
OperationCase case_of(const Maker& maker, bool read) {
  OperationCase c;
  std::vector<Value> operands;
  const auto operand = [&](const Shape& shape) {
    const TensorType type{DType::kF32, shape};
    operands.push_back(c.graph.input(cat("input", operands.size()), type, InputRole::kBatch));
    c.inputs.push_back(random_operand(type, static_cast<std::uint32_t>(operands.size()), 1, true));
    return operands.back();
  };
  // Windows of one pixel: element-wise operations keep the layout that they find, and a network's
  // images are batch last.
  for (const Shape& shape : maker.operands)
    if (const Value x = operand(shape); shape.rank() == 4)
      operands.back() = avg_pool(c.graph, x, 1, 1);
  const bool holds_places =
      maker.op == &max_pool_grad_op && maker.attributes.as<PoolAttributes>().places;
  if (holds_places)
    for (float& place : c.inputs[1].f32()) place = static_cast<float>(static_cast<int>(place * 4));
  const Value made = c.graph.add(*maker.op, maker.attributes, operands, "made")[0];
  const Value weights = operand({5, 3, 3, 3});
  Conv2dAttributes a = same_padding(c.graph.shape(made), 3, 3, 1);
  a.order = Bf16Order::kHopper;
  c.graph.output("product", c.graph.add1(conv2d_bf16_op, a, {made, weights}));
  if (read) c.graph.output("made", made);
  c.graph.verify();
  return c;
}

TEST(RoundedResult, has_the_bits_of_a_rounding_of_its_own) {
  register_cuda_emulated_backend();
  const auto device = make_device("cuda-emulated");
  for (const std::int64_t images : {8, 24, 3})
    for (const Maker& maker : makers_of(images))
      for (const bool read : {false, true}) {
        const OperationCase c = case_of(maker, read);
        const std::string what =
            cat(maker.op->name, " ", maker.attributes.text(), ", ", images, read ? ", read" : "");
        const std::vector<Tensor> actual = run_case(*device, c, {}),
                                  expected = interpret(c.graph, c.inputs);
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_EQ(first_difference(actual[i], expected[i]), "") << what;
        const Program program = Lowering(c.graph).run();
        EXPECT_EQ(
            std::ranges::count_if(program.steps,
                                  [](const Step& step) { return step.name.starts_with("round"); }),
            images % 8 == 0 ? 0 : 1)
            << what;
      }
}

}  // namespace
}  // namespace podium::cuda_emulated
