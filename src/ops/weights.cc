// Items that do not all count alike, and sums of their weights.
//   C1 values are f32 [N], weights i32 [N]
//   C2 what is compared is i32 [N]
#include <cstdint>
#include <limits>
#include <vector>

#include "ops/ops.h"

namespace podium {
namespace {

std::vector<TensorType> infer_weigh(const InferContext& context) {
  const TensorType &x = context.inputs[0], &weights = context.inputs[1];
  context.require(x.dtype == DType::kF32 && x.shape.rank() == 1, "needs values f32 [N], got ",
                  to_string(x));
  context.require(weights == TensorType{DType::kI32, x.shape}, "needs weights i32 ",
                  to_string(x.shape), ", got ", to_string(weights));
  return {x};
}

void reference_weigh(const Attributes&, ConstTensors inputs, Tensors outputs) {
  for (std::int64_t i = 0; i < inputs[0]->elements(); ++i) {
    const std::int32_t weight = inputs[1]->i32()[i];
    outputs[0]->f32()[i] = weight == 0 ? 0.0f : inputs[0]->f32()[i] * static_cast<float>(weight);
  }
}

Cost cost_weigh(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return {static_cast<double>(in[0].shape.elements()), 3.0 * static_cast<double>(in[0].bytes())};
}

std::vector<OpSample> samples_weigh() {
  std::vector<OpSample> list;
  for (const std::int64_t n : {1, 2, 17, 33, 300})
    list.push_back({{}, {{DType::kF32, {n}}, {DType::kI32, {n}}}});
  return list;
}

std::vector<TensorType> infer_count(const InferContext& context) {
  for (const TensorType& input : context.inputs)
    context.require(
        input.dtype == DType::kI32 && input.shape.rank() == 1 && input == context.inputs[0],
        "needs three i32 [N], got ", to_string(input));
  return {{DType::kI32, Shape{}}};
}

void reference_count(const Attributes&, ConstTensors inputs, Tensors outputs) {
  std::int64_t sum = 0;
  bool negative = false;
  for (std::int64_t i = 0; i < inputs[0]->elements(); ++i) {
    const std::int32_t weight = inputs[0]->i32()[i];
    negative = negative || weight < 0;
    if (inputs[1]->i32()[i] == inputs[2]->i32()[i]) sum += weight;
  }
  const bool good = !negative && sum <= std::numeric_limits<std::int32_t>::max();
  outputs[0]->i32()[0] = good ? static_cast<std::int32_t>(sum) : -1;
}

Cost cost_count(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return {0, 3.0 * static_cast<double>(in[0].bytes())};
}

std::vector<OpSample> samples_count() {
  std::vector<OpSample> list;
  for (const std::int64_t n : {1, 2, 17, 33, 700})
    list.push_back({{}, std::vector<TensorType>(3, {DType::kI32, {n}})});
  return list;
}

}  // namespace

Value weigh(Graph& graph, Value x, Value weights, std::string name) {
  return graph.add1(weigh_op, {}, {x, weights}, std::move(name));
}
Value weighted_count(Graph& graph, Value weights, Value a, Value b, std::string name) {
  return graph.add1(weighted_count_op, {}, {weights, a, b}, std::move(name));
}

const OpDef weigh_op = {OpKind::kWeigh,  "weigh",    infer_weigh,  nullptr,
                        reference_weigh, cost_weigh, samples_weigh};
const OpDef weighted_count_op = {OpKind::kWeightedCount, "weighted_count", infer_count,  nullptr,
                                 reference_count,        cost_count,       samples_count};

}  // namespace podium
