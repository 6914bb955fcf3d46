// Element-wise operations: one rounding each.
//   C1 two tensors have one shape
//   C2 the factor of multiply_by is a scalar
//   C3 the divisor is finite and not 0
#include <cmath>

#include "ops/ops.h"

namespace podium {
namespace {

std::vector<TensorType> infer_two(const InferContext& context) {
  context.require(context.inputs[0] == context.inputs[1],
                  "the operands differ: ", to_string(context.inputs[0]), " and ",
                  to_string(context.inputs[1]));
  return {context.inputs[0]};
}

template <typename F>
void map_two(ConstTensors inputs, Tensors outputs, const F& f) {
  const auto a = inputs[0]->f32(), b = inputs[1]->f32();
  const auto y = outputs[0]->f32();
  for (std::size_t i = 0; i < a.size(); ++i) y[i] = f(a[i], b[i]);
}

Cost cost(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return {static_cast<double>(in[0].shape.elements()),
          static_cast<double>(in.size() + 1) * static_cast<double>(in[0].bytes())};
}

std::vector<OpSample> samples_two() {
  return {{{}, {{DType::kF32, {5, 3, 4, 4}}, {DType::kF32, {5, 3, 4, 4}}}},
          {{}, {{DType::kF32, {33, 10}}, {DType::kF32, {33, 10}}}}};
}

std::vector<Value> gradient_add(const GradientContext& context) {
  return {context.output_gradients[0], context.output_gradients[0]};
}
std::vector<Value> gradient_sub(const GradientContext& context) {
  const Value dy = context.output_gradients[0];
  return {dy, context.wanted[1] ? scale(context.graph, dy, -1.0f) : Value{}};
}
std::vector<Value> gradient_mul(const GradientContext& context) {
  const Node self = context.self();
  const Value dy = context.output_gradients[0];
  std::vector<Value> gradients(2);
  if (context.wanted[0]) gradients[0] = mul(context.graph, dy, self.inputs[1], self.name);
  if (context.wanted[1]) gradients[1] = mul(context.graph, dy, self.inputs[0], self.name);
  return gradients;
}

void reference_add(const Attributes&, ConstTensors in, Tensors out) {
  map_two(in, out, [](float a, float b) { return a + b; });
}
void reference_sub(const Attributes&, ConstTensors in, Tensors out) {
  map_two(in, out, [](float a, float b) { return a - b; });
}
void reference_mul(const Attributes&, ConstTensors in, Tensors out) {
  map_two(in, out, [](float a, float b) { return a * b; });
}

std::vector<TensorType> infer_scale(const InferContext& context) { return {context.inputs[0]}; }
std::vector<Value> gradient_scale(const GradientContext& context) {
  return {scale(context.graph, context.output_gradients[0],
                context.self().attributes.as<ScaleAttributes>().factor)};
}
void reference_scale(const Attributes& attributes, ConstTensors in, Tensors out) {
  const float factor = attributes.as<ScaleAttributes>().factor;
  for (std::int64_t i = 0; i < in[0]->elements(); ++i) out[0]->f32()[i] = in[0]->f32()[i] * factor;
}
std::vector<OpSample> samples_scale() {
  return {{ScaleAttributes{0.125f}, {{DType::kF32, {5, 3, 4, 4}}}},
          {ScaleAttributes{-0.3f}, {{DType::kF32, {33, 10}}}}};
}

// --- by a scalar that is known at run time, or in the graph

std::vector<TensorType> infer_multiply_by(const InferContext& context) {
  context.require(context.inputs[1] == TensorType{DType::kF32, Shape{}},
                  "the factor must be a scalar f32[], got ", to_string(context.inputs[1]));
  return {context.inputs[0]};
}
void reference_multiply_by(const Attributes&, ConstTensors in, Tensors out) {
  const float factor = in[1]->f32()[0];
  for (std::int64_t i = 0; i < in[0]->elements(); ++i) out[0]->f32()[i] = in[0]->f32()[i] * factor;
}
Cost cost_one(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return {static_cast<double>(in[0].shape.elements()), 2.0 * static_cast<double>(in[0].bytes())};
}
std::vector<OpSample> samples_multiply_by() {
  const TensorType scalar{DType::kF32, Shape{}};
  return {{{}, {{DType::kF32, {2, 3, 4, 4}}, scalar}},
          {{}, {{DType::kF32, {20001}}, scalar}},
          {{}, {scalar, scalar}}};
}

std::vector<TensorType> infer_divide(const InferContext& context) {
  const float divisor = context.as<DivideAttributes>().divisor;
  context.require(std::isfinite(divisor) && divisor != 0,
                  "the divisor must be finite and not 0, got ", divisor);
  return {context.inputs[0]};
}
void reference_divide(const Attributes& attributes, ConstTensors in, Tensors out) {
  const float divisor = attributes.as<DivideAttributes>().divisor;
  for (std::int64_t i = 0; i < in[0]->elements(); ++i) out[0]->f32()[i] = in[0]->f32()[i] / divisor;
}
std::vector<OpSample> samples_divide() {
  return {{DivideAttributes{3.0f}, {{DType::kF32, {17, 3, 4, 4}}}},
          {DivideAttributes{7.0f}, {{DType::kF32, {20001}}}},
          {DivideAttributes{-0.3f}, {{DType::kF32, Shape{}}}}};
}

}  // namespace

Value add(Graph& graph, Value a, Value b, std::string name) {
  return graph.add1(add_op, {}, {a, b}, std::move(name));
}
Value sub(Graph& graph, Value a, Value b, std::string name) {
  return graph.add1(sub_op, {}, {a, b}, std::move(name));
}
Value mul(Graph& graph, Value a, Value b, std::string name) {
  return graph.add1(mul_op, {}, {a, b}, std::move(name));
}
Value scale(Graph& graph, Value x, float factor, std::string name) {
  return graph.add1(scale_op, ScaleAttributes{factor}, {x}, std::move(name));
}
Value multiply_by(Graph& graph, Value x, Value factor, std::string name) {
  return graph.add1(multiply_by_op, {}, {x, factor}, std::move(name));
}
Value divide(Graph& graph, Value x, float divisor, std::string name) {
  return graph.add1(divide_op, DivideAttributes{divisor}, {x}, std::move(name));
}

const OpDef add_op = {OpKind::kAdd,  "add", infer_two,  gradient_add,
                      reference_add, cost,  samples_two};
const OpDef sub_op = {OpKind::kSub,  "sub", infer_two,  gradient_sub,
                      reference_sub, cost,  samples_two};
const OpDef mul_op = {OpKind::kMul,  "mul", infer_two,  gradient_mul,
                      reference_mul, cost,  samples_two};
const OpDef scale_op = {OpKind::kScale,  "scale", infer_scale,  gradient_scale,
                        reference_scale, cost,    samples_scale};
const OpDef multiply_by_op = {OpKind::kMultiplyBy,   "multiply_by", infer_multiply_by,  nullptr,
                              reference_multiply_by, cost_one,      samples_multiply_by};
const OpDef divide_op = {OpKind::kDivide,  "divide", infer_divide,  nullptr,
                         reference_divide, cost_one, samples_divide};

}  // namespace podium
