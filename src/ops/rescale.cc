// What Muon needs beside matrix products (K. Jordan, Muon, 2024): a tensor rescaled to a norm, a
// weighted sum, a step along a direction.
//   C1 operands have one shape
//   C2 a rate is a scalar
#include <algorithm>
#include <array>
#include <cmath>

#include "ops/ops.h"

namespace podium {
namespace {

Cost flat_cost(std::span<const TensorType> in, double flops, double passes) {
  return {flops * static_cast<double>(in[0].shape.elements()),
          passes * static_cast<double>(in[0].bytes())};
}

// --- x -> x * (norm / (|x| + epsilon))

std::vector<TensorType> infer_rescale(const InferContext& context) { return {context.inputs[0]}; }
void reference_rescale(const Attributes& attributes, ConstTensors in, Tensors out) {
  const auto& a = attributes.as<RescaleAttributes>();
  const auto x = in[0]->f32();
  const float factor = a.norm / (std::sqrt(sum_of_squares(x)) + a.epsilon);
  for (std::size_t i = 0; i < x.size(); ++i) out[0]->f32()[i] = x[i] * factor;
}
Cost cost_rescale(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return flat_cost(in, 3, 3);
}
std::vector<OpSample> samples_rescale() {
  return {{RescaleAttributes{1.0f, 1e-7f}, {{DType::kF32, {24, 90}}}},
          {RescaleAttributes{8.0f, 0.0f}, {{DType::kF32, {9001}}}},
          {RescaleAttributes{2.0f, 0.5f}, {{DType::kF32, {5}}}}};
}

// --- a x + b y

std::vector<TensorType> infer_combine(const InferContext& context) {
  require_update_operands(context, 2);
  return {context.inputs[0]};
}
void reference_combine(const Attributes& attributes, ConstTensors in, Tensors out) {
  const auto& a = attributes.as<CombineAttributes>();
  for (std::int64_t i = 0; i < in[0]->elements(); ++i)
    out[0]->f32()[i] = std::fma(a.a, in[0]->f32()[i], a.b * in[1]->f32()[i]);
}
Cost cost_combine(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return flat_cost(in, 3, 3);
}
std::vector<OpSample> samples_combine() {
  const TensorType flat{DType::kF32, {1000}};
  return {{CombineAttributes{3.4445f, 1.0f}, {flat, flat}},
          {CombineAttributes{-4.775f, 2.0315f}, {flat, flat}}};
}

// --- (parameter, direction, rate []) -> parameter - rate * direction

std::vector<TensorType> infer_descend(const InferContext& context) {
  require_update_operands(context, 2);
  return {context.inputs[0]};
}
void reference_descend(const Attributes&, ConstTensors in, Tensors out) {
  const float rate = in[2]->f32()[0];
  for (std::int64_t i = 0; i < in[0]->elements(); ++i)
    out[0]->f32()[i] = std::fma(-rate, in[1]->f32()[i], in[0]->f32()[i]);
}
Cost cost_descend(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return flat_cost(in, 2, 3);
}
std::vector<OpSample> samples_descend() {
  const TensorType flat{DType::kF32, {1000}};
  return {{{}, {flat, flat, {DType::kF32, Shape{}}}}};
}

}  // namespace

float sum_of_squares(std::span<const float> x) {
  const auto count = static_cast<std::int64_t>(x.size());
  const std::int64_t runs = std::max<std::int64_t>(1, (count + kSquareRun - 1) / kSquareRun);
  return tree_sum(0, runs, [&](std::int64_t run) {
    std::array<float, kSumLanes> lanes{};
    for (std::int64_t i = run * kSquareRun; i < std::min(count, (run + 1) * kSquareRun); ++i) {
      const float value = x[static_cast<std::size_t>(i)];
      float& lane = lanes[static_cast<std::size_t>(i % kSumLanes)];
      lane = std::fma(value, value, lane);
    }
    return lane_tree(lanes);
  });
}

Value rescale(Graph& graph, Value x, float norm, float epsilon, std::string name) {
  return graph.add1(rescale_op, RescaleAttributes{norm, epsilon}, {x}, std::move(name));
}
Value combine(Graph& graph, float a, Value x, float b, Value y, std::string name) {
  return graph.add1(combine_op, CombineAttributes{a, b}, {x, y}, std::move(name));
}
Value descend(Graph& graph, Value parameter, Value direction, Value rate, std::string name) {
  return graph.add1(descend_op, {}, {parameter, direction, rate}, std::move(name));
}

const OpDef rescale_op = {OpKind::kRescale,  "rescale",    infer_rescale,  nullptr,
                          reference_rescale, cost_rescale, samples_rescale};
const OpDef combine_op = {OpKind::kCombine,  "combine",    infer_combine,  nullptr,
                          reference_combine, cost_combine, samples_combine};
const OpDef descend_op = {OpKind::kDescend,  "descend",    infer_descend,  nullptr,
                          reference_descend, cost_descend, samples_descend};

}  // namespace podium
