// Optimizer updates, element by element. C1: parameter, gradient and state have one shape; C2: step
// values are scalars.
#include <array>
#include <cmath>

#include "ops/ops.h"

namespace podium {
namespace {

Cost update_cost(std::span<const TensorType> in, std::span<const TensorType> out, double flops) {
  return {flops * static_cast<double>(in[0].shape.elements()),
          static_cast<double>(in.size() - 1 + out.size()) * static_cast<double>(in[0].bytes())};
}

float decayed(float weight_decay, float parameter, float gradient) {
  return weight_decay == 0 ? gradient : std::fma(weight_decay, parameter, gradient);
}

std::vector<TensorType> infer_sgd(const InferContext& context) {
  require_update_operands(context, 3);
  return {context.inputs[0], context.inputs[0]};
}
void reference_sgd(const Attributes& attributes, ConstTensors in, Tensors out) {
  const auto& a = attributes.as<SgdAttributes>();
  const float rate = in[3]->f32()[0];
  for (std::int64_t i = 0; i < in[0]->elements(); ++i) {
    const float p = in[0]->f32()[i];
    const float g = decayed(a.weight_decay, p, in[1]->f32()[i]);
    const float v = std::fma(a.momentum, in[2]->f32()[i], g);
    const float direction = a.nesterov ? std::fma(a.momentum, v, g) : v;
    out[0]->f32()[i] = std::fma(-rate, direction, p);
    out[1]->f32()[i] = v;
  }
}
Cost cost_sgd(const Attributes&, std::span<const TensorType> in, std::span<const TensorType> out) {
  return update_cost(in, out, 8);
}
std::vector<OpSample> samples_sgd() {
  const TensorType flat{DType::kF32, {1000}}, scalar{DType::kF32, Shape{}};
  return {{SgdAttributes{0.9f, 5e-4f, true}, {flat, flat, flat, scalar}},
          {SgdAttributes{0.9f, 0, false}, {flat, flat, flat, scalar}}};
}

std::vector<TensorType> infer_adam(const InferContext& context) {
  const std::size_t operands = context.as<AdamAttributes>().decoupled ? 7 : 6;
  context.require(context.inputs.size() == operands, "takes ", operands, " operands, got ",
                  context.inputs.size());
  require_update_operands(context, 4);
  return {context.inputs[0], context.inputs[0], context.inputs[0]};
}
void reference_adam(const Attributes& attributes, ConstTensors in, Tensors out) {
  const auto& a = attributes.as<AdamAttributes>();
  const float fresh1 = 1.0f - a.beta1, fresh2 = 1.0f - a.beta2;
  const float step_size = in[4]->f32()[0], correction = in[5]->f32()[0];
  const float shrink = a.decoupled ? in[6]->f32()[0] * a.weight_decay : 0.0f;
  for (std::int64_t i = 0; i < in[0]->elements(); ++i) {
    const float old = in[0]->f32()[i];
    const float g = a.decoupled ? in[1]->f32()[i] : decayed(a.weight_decay, old, in[1]->f32()[i]);
    const float p = shrink == 0 ? old : std::fma(-shrink, old, old);
    const float m = std::fma(a.beta1, in[2]->f32()[i], fresh1 * g);
    const float v = std::fma(a.beta2, in[3]->f32()[i], (fresh2 * g) * g);
    out[0]->f32()[i] = std::fma(-step_size, m / std::fma(std::sqrt(v), correction, a.epsilon), p);
    out[1]->f32()[i] = m;
    out[2]->f32()[i] = v;
  }
}
Cost cost_adam(const Attributes&, std::span<const TensorType> in, std::span<const TensorType> out) {
  return update_cost(in, out, 14);
}
std::vector<OpSample> samples_adam() {
  const TensorType flat{DType::kF32, {1000}}, scalar{DType::kF32, Shape{}};
  const AdamAttributes decayed{.weight_decay = 0.01f};
  const AdamAttributes decoupled{.weight_decay = 0.01f, .decoupled = true};
  return {{AdamAttributes{}, {flat, flat, flat, flat, scalar, scalar}},
          {decayed, {flat, flat, flat, flat, scalar, scalar}},
          {decoupled, {flat, flat, flat, flat, scalar, scalar, scalar}}};
}

}  // namespace

void require_update_operands(const InferContext& context, std::size_t tensors) {
  for (std::size_t i = 0; i < context.inputs.size(); ++i) {
    const TensorType expected = i < tensors ? context.inputs[0] : TensorType{DType::kF32, Shape{}};
    context.require(context.inputs[i] == expected, "input ", i, " is ",
                    to_string(context.inputs[i]), ", not ", to_string(expected));
  }
}

std::array<Value, 2> sgd_update(Graph& graph, Value parameter, Value gradient, Value velocity,
                                Value learning_rate, const SgdAttributes& attributes,
                                std::string name) {
  const auto out = graph.add(sgd_update_op, attributes,
                             {parameter, gradient, velocity, learning_rate}, std::move(name));
  return {out[0], out[1]};
}
std::array<Value, 3> adam_update(Graph& graph, Value parameter, Value gradient, Value m, Value v,
                                 std::span<const Value> scalars, const AdamAttributes& attributes,
                                 std::string name) {
  std::vector<Value> operands = {parameter, gradient, m, v};
  operands.insert(operands.end(), scalars.begin(), scalars.end());
  const auto out = graph.add(adam_update_op, attributes, std::move(operands), std::move(name));
  return {out[0], out[1], out[2]};
}

const OpDef sgd_update_op = {OpKind::kSgdUpdate, "sgd_update", infer_sgd,  nullptr,
                             reference_sgd,      cost_sgd,     samples_sgd};
const OpDef adam_update_op = {OpKind::kAdamUpdate, "adam_update", infer_adam,  nullptr,
                              reference_adam,      cost_adam,     samples_adam};

}  // namespace podium
