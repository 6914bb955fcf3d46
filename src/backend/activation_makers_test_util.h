// The operations that make images or tokens, between others that round what they read or write to
// BF16: programs for the tests of devices that keep such activations in other forms.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/operation_case.h"
#include "ops/ops.h"

namespace podium {

// An operation, of whose results one is images of three channels, or tokens.
struct ActivationMaker {
  const OpDef* op;
  Attributes attributes;
  std::vector<Shape> operands;
  std::size_t result = 0;
};

inline std::vector<ActivationMaker> image_makers(std::int64_t n) {
  const Shape x{n, 3, 4, 6}, half{n, 3, 2, 3}, c{3};
  Conv2dAttributes convolution = same_padding(x, 3, 3, 1);
  convolution.order = Bf16Order::kHopper;
  Conv2dAttributes back = convolution;
  back.extent_h = 4, back.extent_w = 6;
  std::vector<ActivationMaker> makers{
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

// Of two sequences of tokens. What is read as integers, tokens and labels, has one axis.
inline std::vector<ActivationMaker> token_makers(std::int64_t columns) {
  constexpr std::int64_t kTokens = 7, n = 2 * kTokens;
  const Shape x{n, columns}, c{columns}, w{columns, columns}, ids{n};
  const Attributes norm = LayerNormAttributes(), rms = LayerNormAttributes{.centred = false},
                   mixes =
                       AttentionAttributes{
                           .heads = 2, .groups = 2, .tokens = kTokens, .order = Bf16Order::kHopper},
                   gelu = ActivationAttributes{{ActivationKind::kGelu}},
                   turns = RotaryAttributes{.tokens = kTokens, .features = columns / 2};
  const auto product = [](bool transpose_b) {
    return Attributes(MatmulAttributes{.transpose_b = transpose_b, .order = Bf16Order::kHopper});
  };
  std::vector<ActivationMaker> makers{
      {&add_op, {}, {x, x}},
      {&mul_op, {}, {x, x}},
      {&scale_op, ScaleAttributes{0.3f}, {x}},
      {&bias_add_op, {}, {x, c}},
      {&activate_op, gelu, {x}},
      {&activate_grad_op, gelu, {x, x}},
      {&embedding_op, EmbeddingAttributes(), {ids, w}},
      {&layer_norm_op, norm, {x, c, c}},
      {&layer_norm_op, rms, {x, c}},
      {&layer_norm_grad_op, norm, {x, x, c}},
      {&layer_norm_grad_op, rms, {x, x, c}},
      {&rotary_op, turns, {x}},
      {&attention_bf16_op, mixes, {x, x, x}},
      {&matmul_bf16_op, product(false), {x, w}},
      {&matmul_bf16_op, product(true), {x, w}},
      {&softmax_cross_entropy_grad_op, SoftmaxCrossEntropyAttributes(), {{n, 512}, ids, {n}}}};
  for (const std::size_t result : {0, 1, 2})
    makers.push_back({&attention_bf16_grad_op, mixes, {x, x, x, x}, result});
  return makers;
}

// Who rounds and reads in a case.
struct CaseReaders {
  bool operands_are_rounded, result_is_rounded;
  bool read_as_floats;  // the result is one of the program's
};
constexpr std::array<CaseReaders, 8> kCaseReaders = {{{false, false, false},
                                                      {false, false, true},
                                                      {false, true, false},
                                                      {false, true, true},
                                                      {true, false, false},
                                                      {true, false, true},
                                                      {true, true, false},
                                                      {true, true, true}}};

// The inputs of a case.
struct CaseOperands {
  OperationCase& c;
  std::vector<Value> values;
  Value add(const Shape& shape, bool is_integer = false) {
    const TensorType type{is_integer ? DType::kI32 : DType::kF32, shape};
    values.push_back(c.graph.input(cat("input", values.size()), type, InputRole::kBatch));
    if (is_integer) {
      c.inputs.emplace_back(type);
      for (std::int64_t i = 0; i < shape.elements(); ++i)
        c.inputs.back().i32()[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * 5 % 12);
    } else {
      c.inputs.push_back(random_operand(type, static_cast<std::uint32_t>(values.size()), 1, true));
    }
    return values.back();
  }
};
inline Value rounded(Graph& graph, Value x) {
  return graph.add1(round_bf16_op, {}, {x}, "rounded");
}

// The maker's result, convolved.
inline OperationCase image_case(const ActivationMaker& maker, const CaseReaders& readers) {
  OperationCase c;
  CaseOperands operands{c, {}};
  // Windows of one pixel: element-wise operations keep the layout that they find, and a network's
  // images are batched.
  const std::int64_t images = maker.operands[0][0];
  for (const Shape& shape : maker.operands)
    if (const Value x = operands.add(shape); shape.rank() == 4 && shape[0] == images) {
      Value& operand = operands.values.back();
      operand = avg_pool(c.graph, x, 1, 1);
      if (readers.operands_are_rounded) operand = rounded(c.graph, operand);
    }
  const bool holds_places =
      maker.op == &max_pool_grad_op && maker.attributes.as<PoolAttributes>().places;
  if (holds_places)
    for (float& place : c.inputs[1].f32()) place = static_cast<float>(static_cast<int>(place * 4));
  Value made = c.graph.add(*maker.op, maker.attributes, operands.values, "made")[maker.result];
  if (readers.result_is_rounded) made = rounded(c.graph, made);
  const Value weights = operands.add({5, 3, 3, 3});
  Conv2dAttributes a = same_padding(c.graph.shape(made), 3, 3, 1);
  a.order = Bf16Order::kHopper;
  c.graph.output("product", c.graph.add1(conv2d_bf16_op, a, {made, weights}));
  if (readers.read_as_floats) c.graph.output("made", made);
  c.graph.verify();
  return c;
}

// The maker's result, multiplied: its rows by weights, its columns by themselves; and summed.
inline OperationCase token_case(const ActivationMaker& maker, const CaseReaders& readers) {
  OperationCase c;
  CaseOperands operands{c, {}};
  const bool has_labels = maker.op == &softmax_cross_entropy_grad_op;
  for (std::size_t i = 0; i < maker.operands.size(); ++i) {
    const Shape& shape = maker.operands[i];
    const Value x = operands.add(shape, has_labels ? i == 1 : maker.op == &embedding_op && i == 0);
    const bool is_activation = shape.rank() == 2 && shape[0] == maker.operands[0][0] && !has_labels;
    if (readers.operands_are_rounded && is_activation) operands.values.back() = rounded(c.graph, x);
  }
  Value made = c.graph.add(*maker.op, maker.attributes, operands.values, "made")[maker.result];
  if (readers.result_is_rounded) made = rounded(c.graph, made);
  const Value weights = operands.add({c.graph.shape(made)[1], 5});
  MatmulAttributes a{.order = Bf16Order::kHopper};
  c.graph.output("product", c.graph.add1(matmul_bf16_op, a, {made, weights}));
  a.transpose_a = true;
  if (!has_labels) {
    c.graph.output("columns", c.graph.add1(matmul_bf16_op, a, {made, made}));
    c.graph.output("sums", c.graph.add1(channel_sum_op, {}, {made}));
  }
  if (readers.read_as_floats) c.graph.output("made", made);
  c.graph.verify();
  return c;
}

}  // namespace podium
