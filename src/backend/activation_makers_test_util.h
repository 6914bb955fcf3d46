// The operations that make images, between others that round what they read or write to BF16:
// programs for the tests of devices that keep such images in other forms.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backend/operation_case.h"
#include "ops/ops.h"

namespace podium {

// An operation whose first result is images of three channels.
struct ImageMaker {
  const OpDef* op;
  Attributes attributes;
  std::vector<Shape> operands;
};

inline std::vector<ImageMaker> image_makers(std::int64_t n) {
  const Shape x{n, 3, 4, 6}, half{n, 3, 2, 3}, c{3};
  Conv2dAttributes convolution = same_padding(x, 3, 3, 1);
  convolution.order = Bf16Order::kHopper;
  Conv2dAttributes back = convolution;
  back.extent_h = 4, back.extent_w = 6;
  std::vector<ImageMaker> makers{
      {&add_op, {}, {x, x}},
      {&sub_op, {}, {x, x}},
      {&mul_op, {}, {x, x}},
      {&scale_op, Attributes(ScaleAttributes{0.3f}), {x}},
      {&multiply_by_op, {}, {x, {}}},
      {&bias_add_op, {}, {x, c}},
      {&conv2d_bf16_op, convolution, {x, {3, 3, 3, 3}}},
      {&conv2d_bf16_grad_input_op, back, {x, {3, 3, 3, 3}}},
      {&avg_pool_op, PoolAttributes(), {x}},
      {&avg_pool_grad_op, PoolAttributes{.height = 4, .width = 6}, {half}}};
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

// Who rounds and reads in a case.
struct ImageReaders {
  bool operands_are_rounded, result_is_rounded;
  bool read_as_floats;  // the result is one of the program's
};
constexpr std::array<ImageReaders, 8> kImageReaders = {{{false, false, false},
                                                        {false, false, true},
                                                        {false, true, false},
                                                        {false, true, true},
                                                        {true, false, false},
                                                        {true, false, true},
                                                        {true, true, false},
                                                        {true, true, true}}};

// The maker's result, convolved.
inline OperationCase image_case(const ImageMaker& maker, const ImageReaders& readers) {
  OperationCase c;
  std::vector<Value> operands;
  const auto operand = [&](const Shape& shape) {
    const TensorType type{DType::kF32, shape};
    operands.push_back(c.graph.input(cat("input", operands.size()), type, InputRole::kBatch));
    c.inputs.push_back(random_operand(type, static_cast<std::uint32_t>(operands.size()), 1, true));
    return operands.back();
  };
  const auto rounded = [&](Value x) { return c.graph.add1(round_bf16_op, {}, {x}, "rounded"); };
  // Windows of one pixel: element-wise operations keep the layout that they find, and a network's
  // images are batched.
  const std::int64_t images = maker.operands[0][0];
  for (const Shape& shape : maker.operands)
    if (const Value x = operand(shape); shape.rank() == 4 && shape[0] == images) {
      operands.back() = avg_pool(c.graph, x, 1, 1);
      if (readers.operands_are_rounded) operands.back() = rounded(operands.back());
    }
  const bool holds_places =
      maker.op == &max_pool_grad_op && maker.attributes.as<PoolAttributes>().places;
  if (holds_places)
    for (float& place : c.inputs[1].f32()) place = static_cast<float>(static_cast<int>(place * 4));
  Value made = c.graph.add(*maker.op, maker.attributes, operands, "made")[0];
  if (readers.result_is_rounded) made = rounded(made);
  const Value weights = operand({5, 3, 3, 3});
  Conv2dAttributes a = same_padding(c.graph.shape(made), 3, 3, 1);
  a.order = Bf16Order::kHopper;
  c.graph.output("product", c.graph.add1(conv2d_bf16_op, a, {made, weights}));
  if (readers.read_as_floats) c.graph.output("made", made);
  c.graph.verify();
  return c;
}

}  // namespace podium
