// Activations and their gradients, element by element (base/numerics/activation.h).
//   C1 the slope of a leaky ReLU is finite
//   C2 a gradient's operands have one shape
//   C3 only a gradient adds
#include <cmath>
#include <utility>
#include <vector>

#include "ops/ops.h"

namespace podium {
namespace {

std::vector<TensorType> infer(const InferContext& context) {
  const Activation& a = context.as<ActivationAttributes>().activation;
  context.require(std::isfinite(a.slope), "the slope is ", a.slope);
  context.require(!context.as<ActivationAttributes>().adds, "C3: an activation has one operand");
  return {context.inputs[0]};
}

std::vector<Value> gradient(const GradientContext& context) {
  return {context.graph.add1(activate_grad_op, context.self().attributes,
                             {context.output_gradients[0], context.input(0)}, context.self().name)};
}

void reference(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const Activation a = attributes.as<ActivationAttributes>().activation;
  const auto x = inputs[0]->f32();
  const auto y = outputs[0]->f32();
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = activate_f32(a, x[i]);
}

Cost cost(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return {static_cast<double>(in[0].shape.elements()),
          static_cast<double>(in.size() + 1) * static_cast<double>(in[0].bytes())};
}

std::vector<OpSample> samples_of(std::size_t inputs) {
  std::vector<OpSample> list;
  for (const Activation& a : kActivations) {
    list.push_back(
        {ActivationAttributes{a}, std::vector<TensorType>(inputs, {DType::kF32, {5, 3, 4, 4}})});
    list.push_back(
        {ActivationAttributes{a}, std::vector<TensorType>(inputs, {DType::kF32, {33, 10}})});
  }
  return list;
}
std::vector<OpSample> samples() { return samples_of(1); }

std::vector<TensorType> infer_grad(const InferContext& context) {
  context.require(context.inputs[0] == context.inputs[1], "dy is ", to_string(context.inputs[0]),
                  ", x is ", to_string(context.inputs[1]));
  context.require(
      !context.as<ActivationAttributes>().adds || context.inputs[2] == context.inputs[0],
      "C2: the terms of dy are of two shapes");
  return {context.inputs[0]};
}

void reference_grad(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto& a = attributes.as<ActivationAttributes>();
  const auto dy = inputs[0]->f32(), x = inputs[1]->f32();
  const auto dx = outputs[0]->f32();
  for (std::size_t i = 0; i < dy.size(); ++i)
    dx[i] = activate_grad_f32(a.activation, a.adds ? dy[i] + inputs[2]->f32()[i] : dy[i], x[i]);
}

std::vector<OpSample> samples_grad() {
  std::vector<OpSample> list = samples_of(2);
  for (OpSample sample : samples_of(3)) {
    auto a = sample.attributes.as<ActivationAttributes>();
    a.adds = true;
    sample.attributes = a;
    list.push_back(std::move(sample));
  }
  return list;
}

}  // namespace

Value activate(Graph& graph, Value x, const Activation& activation, std::string name) {
  return graph.add1(activate_op, ActivationAttributes{activation}, {x}, std::move(name));
}
Value relu(Graph& graph, Value x, std::string name) {
  return activate(graph, x, {ActivationKind::kRelu}, std::move(name));
}

const OpDef activate_op = {OpKind::kActivate, "activate", infer,  gradient,
                           reference,         cost,       samples};
const OpDef activate_grad_op = {
    OpKind::kActivateGrad, "activate_grad", infer_grad, nullptr, reference_grad, cost,
    samples_grad};

}  // namespace podium
