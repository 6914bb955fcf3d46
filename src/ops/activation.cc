// Activations and their gradients, each from its own output where that says enough.
#include "ops/ops.h"

namespace podium {
namespace {

std::vector<TensorType> infer(const InferContext& context) { return {context.inputs[0]}; }

std::vector<Value> gradient(const GradientContext& context) {
  return {context.graph.add1(relu_grad_op, {}, {context.output_gradients[0], context.output(0)},
                             context.self().name)};
}

void reference(const Attributes&, ConstTensors inputs, Tensors outputs) {
  const auto x = inputs[0]->f32();
  const auto y = outputs[0]->f32();
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] > 0 || x[i] != x[i] ? x[i] : 0.0f;
}

Cost cost(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return {static_cast<double>(in[0].shape.elements()),
          static_cast<double>(in.size() + 1) * static_cast<double>(in[0].bytes())};
}

std::vector<OpSample> samples() {
  return {{{}, {{DType::kF32, {5, 3, 4, 4}}}}, {{}, {{DType::kF32, {33, 10}}}}};
}

std::vector<TensorType> infer_grad(const InferContext& context) {
  context.require(context.inputs[0] == context.inputs[1], "dy is ", to_string(context.inputs[0]),
                  ", y is ", to_string(context.inputs[1]));
  return {context.inputs[0]};
}

void reference_grad(const Attributes&, ConstTensors inputs, Tensors outputs) {
  const auto dy = inputs[0]->f32(), y = inputs[1]->f32();
  const auto dx = outputs[0]->f32();
  for (std::size_t i = 0; i < dy.size(); ++i) dx[i] = y[i] > 0 ? dy[i] : 0.0f;
}

std::vector<OpSample> samples_grad() {
  return {{{}, {{DType::kF32, {5, 3, 4, 4}}, {DType::kF32, {5, 3, 4, 4}}}},
          {{}, {{DType::kF32, {33, 10}}, {DType::kF32, {33, 10}}}}};
}

}  // namespace

Value relu(Graph& graph, Value x, std::string name) {
  return graph.add1(relu_op, {}, {x}, std::move(name));
}

const OpDef relu_op = {OpKind::kRelu, "relu", infer, gradient, reference, cost, samples};
const OpDef relu_grad_op = {OpKind::kReluGrad, "relu_grad", infer_grad,  nullptr,
                            reference_grad,    cost,        samples_grad};

}  // namespace podium
