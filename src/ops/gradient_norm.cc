// The norm of the gradients of all parameters together, and the factor that brings it down to a
// limit.
//   C1 x is f32 [n], the sums are f32 [runs]
//   C2 first_runs begins with 0, rises, and ends with the number of runs
//   C3 a norm is a scalar
//   C4 the limit is above 0
// Also the learning rate that LARS derives from the norms of a parameter and of its gradient.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/numerics/tree.h"
#include "ops/ops.h"

namespace podium {
namespace {

void require_vector(const InferContext& context) {
  const TensorType& x = context.inputs[0];
  context.require(x.dtype == DType::kF32 && x.shape.rank() == 1, "needs f32 [n], got ",
                  to_string(x));
}

// --- the sum of squares of each run

std::vector<TensorType> infer_squares(const InferContext& context) {
  require_vector(context);
  const std::int64_t count = context.inputs[0].shape[0];
  return {{DType::kF32, Shape{(count + kSquareRun - 1) / kSquareRun}}};
}
void reference_squares(const Attributes&, ConstTensors in, Tensors out) {
  const auto x = in[0]->f32();
  const auto sums = out[0]->f32();
  for (std::size_t run = 0; run < sums.size(); ++run) {
    const auto begin = run * static_cast<std::size_t>(kSquareRun);
    sums[run] = sum_of_squares(
        x.subspan(begin, std::min(static_cast<std::size_t>(kSquareRun), x.size() - begin)));
  }
}
Cost cost_squares(const Attributes&, std::span<const TensorType> in,
                  std::span<const TensorType> out) {
  return {2.0 * static_cast<double>(in[0].shape.elements()),
          static_cast<double>(in[0].bytes() + out[0].bytes())};
}
std::vector<OpSample> samples_squares() {
  return {{{}, {{DType::kF32, {5}}}},
          {{}, {{DType::kF32, {kSquareRun}}}},
          {{}, {{DType::kF32, {3 * kSquareRun + 17}}}}};
}

// --- their root, over all parameters

std::vector<TensorType> infer_norm(const InferContext& context) {
  require_vector(context);
  const auto& first = context.as<GlobalNormAttributes>().first_runs;
  const std::int64_t runs = context.inputs[0].shape[0];
  context.require(first.size() >= 2 && first.front() == 0 && first.back() == runs,
                  "first_runs must begin with 0 and end with the number of sums, ", runs);
  context.require(std::ranges::adjacent_find(first, std::ranges::greater_equal{}) == first.end(),
                  "first_runs must rise: each parameter has a run");
  return {{DType::kF32, Shape{}}};
}
void reference_norm(const Attributes& attributes, ConstTensors in, Tensors out) {
  out[0]->f32()[0] = global_norm(in[0]->f32(), attributes.as<GlobalNormAttributes>().first_runs);
}
Cost cost_norm(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return {static_cast<double>(in[0].shape.elements()), static_cast<double>(in[0].bytes())};
}
std::vector<OpSample> samples_norm() {
  return {{GlobalNormAttributes{{0, 1}}, {{DType::kF32, {1}}}},
          {GlobalNormAttributes{{0, 3, 4, 11}}, {{DType::kF32, {11}}}}};
}

// --- the factor

std::vector<TensorType> infer_factor(const InferContext& context) {
  const float limit = context.as<ClipFactorAttributes>().limit;
  context.require(limit > 0, "the limit must be above 0, got ", limit);
  context.require(context.inputs[0] == TensorType{DType::kF32, Shape{}},
                  "the norm must be a scalar f32[], got ", to_string(context.inputs[0]));
  return {context.inputs[0]};
}
void reference_factor(const Attributes& attributes, ConstTensors in, Tensors out) {
  out[0]->f32()[0] = clip_factor(in[0]->f32()[0], attributes.as<ClipFactorAttributes>().limit);
}
Cost cost_factor(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) {
  return {1, 8};
}
std::vector<OpSample> samples_factor() {
  return {{ClipFactorAttributes{0.3f}, {{DType::kF32, Shape{}}}},
          {ClipFactorAttributes{100.0f}, {{DType::kF32, Shape{}}}}};
}

// --- the rate of LARS

std::vector<TensorType> infer_lars_rate(const InferContext& context) {
  for (const TensorType& type : context.inputs)
    context.require(type == TensorType{DType::kF32, Shape{}},
                    "norms and rate must be scalars f32[], got ", to_string(type));
  return {context.inputs[0]};
}
void reference_lars_rate(const Attributes& attributes, ConstTensors in, Tensors out) {
  out[0]->f32()[0] = lars_rate(in[0]->f32()[0], in[1]->f32()[0], in[2]->f32()[0],
                               attributes.as<LarsRateAttributes>());
}
Cost cost_lars_rate(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) {
  return {5, 16};
}
std::vector<OpSample> samples_lars_rate() {
  return {{LarsRateAttributes{}, std::vector<TensorType>(3, {DType::kF32, Shape{}})},
          {LarsRateAttributes{0.01f, 0.5f}, std::vector<TensorType>(3, {DType::kF32, Shape{}})}};
}

}  // namespace

float global_norm(std::span<const float> sums, std::span<const std::int64_t> first_runs) {
  const auto of_run = [&](std::int64_t i) { return sums[static_cast<std::size_t>(i)]; };
  const auto of_parameter = [&](std::int64_t i) {
    const auto p = static_cast<std::size_t>(i);
    return tree_sum(first_runs[p], first_runs[p + 1], of_run);
  };
  return std::sqrt(tree_sum(0, std::ssize(first_runs) - 1, of_parameter));
}
float clip_factor(float norm, float limit) { return norm <= limit ? 1.0f : limit / norm; }
float lars_rate(float parameter_norm, float gradient_norm, float rate,
                const LarsRateAttributes& a) {
  if (!(parameter_norm > 0) || !(gradient_norm > 0)) return rate;
  const float ratio =
      a.trust * parameter_norm / std::fma(a.weight_decay, parameter_norm, gradient_norm);
  return rate * ratio;
}

Value square_sums(Graph& graph, Value x, std::string name) {
  return graph.add1(square_sums_op, {}, {x}, std::move(name));
}
Value global_norm(Graph& graph, Value sums, std::vector<std::int64_t> first_runs,
                  std::string name) {
  return graph.add1(global_norm_op, GlobalNormAttributes{std::move(first_runs)}, {sums},
                    std::move(name));
}
Value clip_factor(Graph& graph, Value norm, float limit, std::string name) {
  return graph.add1(clip_factor_op, ClipFactorAttributes{limit}, {norm}, std::move(name));
}

Value lars_rate(Graph& graph, Value parameter_norm, Value gradient_norm, Value rate,
                const LarsRateAttributes& attributes, std::string name) {
  return graph.add1(lars_rate_op, attributes, {parameter_norm, gradient_norm, rate},
                    std::move(name));
}

const OpDef square_sums_op = {OpKind::kSquareSums, "square_sums", infer_squares,  nullptr,
                              reference_squares,   cost_squares,  samples_squares};
const OpDef global_norm_op = {OpKind::kGlobalNorm, "global_norm", infer_norm,  nullptr,
                              reference_norm,      cost_norm,     samples_norm};
const OpDef clip_factor_op = {OpKind::kClipFactor, "clip_factor", infer_factor,  nullptr,
                              reference_factor,    cost_factor,   samples_factor};
const OpDef lars_rate_op = {OpKind::kLarsRate,   "lars_rate",    infer_lars_rate,  nullptr,
                            reference_lars_rate, cost_lars_rate, samples_lars_rate};

}  // namespace podium
