// Bias of a channel, and the sum over a channel that is its gradient.
//   C1 x is [N, C, H, W] or [N, C]
//   C2 the bias is [C]
#include "ops/ops.h"

namespace podium {
namespace {

std::vector<TensorType> infer(const InferContext& context) {
  const Shape &x = context.inputs[0].shape, &bias = context.inputs[1].shape;
  context.require(x.rank() == 4 || x.rank() == 2, "needs [N, C, H, W] or [N, C], got ",
                  to_string(x));
  context.require(bias == Shape{x[1]}, "x has ", x[1], " channels, the bias is ", to_string(bias));
  return {context.inputs[0]};
}

std::vector<Value> gradient(const GradientContext& context) {
  const Value dy = context.output_gradients[0];
  return {dy, context.wanted[1] ? context.graph.add1(channel_sum_op, {}, {dy}, context.self().name)
                                : Value{}};
}

void reference(const Attributes&, ConstTensors inputs, Tensors outputs) {
  const Planes planes = planes_of(inputs[0]->shape());
  for (std::int64_t n = 0; n < planes.images; ++n)
    for (std::int64_t c = 0; c < planes.channels; ++c)
      for (std::int64_t i = 0; i < planes.pixels(); ++i)
        outputs[0]->f32()[planes.offset(n, c) + i] =
            inputs[0]->f32()[planes.offset(n, c) + i] + inputs[1]->f32()[c];
}

Cost cost(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return {static_cast<double>(in[0].shape.elements()), 2.0 * static_cast<double>(in[0].bytes())};
}

std::vector<OpSample> samples() {
  return {{{}, {{DType::kF32, {3, 5, 4, 4}}, {DType::kF32, {5}}}},
          {{}, {{DType::kF32, {33, 10}}, {DType::kF32, {10}}}}};
}

std::vector<TensorType> infer_sum(const InferContext& context) {
  const Shape& x = context.inputs[0].shape;
  context.require(x.rank() == 4 || x.rank() == 2, "needs [N, C, H, W] or [N, C], got ",
                  to_string(x));
  return {{DType::kF32, Shape{x[1]}}};
}

void reference_sum(const Attributes&, ConstTensors inputs, Tensors outputs) {
  const Planes planes = planes_of(inputs[0]->shape());
  for (std::int64_t c = 0; c < planes.channels; ++c)
    outputs[0]->f32()[c] = channel_total(
        planes, c, [&](float acc, std::int64_t i) { return acc + inputs[0]->f32()[i]; });
}

Cost cost_sum(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return {static_cast<double>(in[0].shape.elements()), static_cast<double>(in[0].bytes())};
}

std::vector<OpSample> samples_sum() {
  return {{{}, {{DType::kF32, {19, 3, 5, 6}}}},
          {{}, {{DType::kF32, {9, 3, 5, 2}}}},
          {{}, {{DType::kF32, {32, 10}}}},
          {{}, {{DType::kF32, {37, 40}}}}};
}

}  // namespace

Value bias_add(Graph& graph, Value x, Value bias, std::string name) {
  return graph.add1(bias_add_op, {}, {x, bias}, std::move(name));
}

const OpDef bias_add_op = {OpKind::kBiasAdd, "bias_add", infer, gradient, reference, cost, samples};
const OpDef channel_sum_op = {OpKind::kChannelSum, "channel_sum", infer_sum,  nullptr,
                              reference_sum,       cost_sum,      samples_sum};

}  // namespace podium
