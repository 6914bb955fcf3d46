// Each row normalised by its own mean and variance (layer norm), or by its root mean square alone
// (RMS norm: Zhang and Sennrich, 2019).
//   C1 x is [N, C]; scale and shift are [C]
//   C2 epsilon is finite and not below 0
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "ops/geometry.h"
#include "ops/ops.h"
#include "ops/reference_sums.h"

namespace podium {
namespace {

void check(const InferContext& context, std::size_t x, std::size_t scale) {
  const TensorType &rows = context.inputs[x], &scales = context.inputs[scale];
  context.require(rows.dtype == DType::kF32 && rows.shape.rank() == 2, "needs f32 [N, C], got ",
                  to_string(rows));
  context.require(scales == TensorType{DType::kF32, Shape{rows.shape[1]}}, "the rows are ",
                  to_string(rows), ", the scale is ", to_string(scales));
  const float epsilon = context.as<LayerNormAttributes>().epsilon;
  context.require(std::isfinite(epsilon) && epsilon >= 0, "epsilon is ", epsilon);
}

std::vector<TensorType> infer(const InferContext& context) {
  check(context, 0, 1);
  if (context.as<LayerNormAttributes>().centred)
    context.require(context.inputs[2] == context.inputs[1], "the scale is ",
                    to_string(context.inputs[1]), ", the shift ", to_string(context.inputs[2]));
  return {context.inputs[0]};
}

std::vector<Value> gradient(const GradientContext& context) {
  const Node self = context.self();
  return context.graph.add(layer_norm_grad_op, self.attributes,
                           {context.output_gradients[0], self.inputs[0], self.inputs[1]},
                           self.name);
}

// The sum over a row: step(lane, column) is one link of a chain of each lane; then the tree.
template <typename Step>
float row_sum(std::int64_t columns, const Step& step) {
  std::array<float, kSumLanes> lanes{};
  for (std::int64_t c = 0; c < columns; ++c) {
    float& lane = lanes[static_cast<std::size_t>(c % kSumLanes)];
    lane = step(lane, c);
  }
  return lane_tree(lanes);
}

// Mean and 1 / standard deviation of a row.
struct RowStatistics {
  float mean = 0, scale;
  RowStatistics(const LayerNormAttributes& a, std::int64_t columns, const float* x) {
    const auto count = static_cast<float>(columns);
    if (a.centred)
      mean = row_sum(columns, [&](float lane, std::int64_t c) { return lane + x[c]; }) / count;
    const float squares = row_sum(columns, [&](float lane, std::int64_t c) {
      const float d = x[c] - mean;
      return std::fma(d, d, lane);
    });
    scale = 1.0f / std::sqrt(squares / count + a.epsilon);
  }
  float of(float x) const { return (x - mean) * scale; }
};

void reference(const Attributes& attributes, ConstTensors in, Tensors out) {
  const auto& a = attributes.as<LayerNormAttributes>();
  const std::int64_t rows = in[0]->shape()[0], columns = in[0]->shape()[1];
  for (std::int64_t n = 0; n < rows; ++n) {
    const float* x = in[0]->f32().data() + n * columns;
    const RowStatistics row(a, columns, x);
    for (std::int64_t c = 0; c < columns; ++c)
      out[0]->f32()[n * columns + c] =
          a.centred ? std::fma(row.of(x[c]), in[1]->f32()[c], in[2]->f32()[c])
                    : row.of(x[c]) * in[1]->f32()[c];
  }
}

Cost cost(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return {8.0 * static_cast<double>(in[0].shape.elements()),
          2.0 * static_cast<double>(in[0].bytes())};
}

std::vector<OpSample> make_samples(bool with_gradient) {
  std::vector<OpSample> list;
  for (const Shape& x : {Shape{1, 16}, Shape{2, 5}, Shape{17, 40}, Shape{33, 7}, Shape{270, 3}})
    for (const bool centred : {true, false}) {
      const TensorType rows{DType::kF32, x}, channels{DType::kF32, Shape{x[1]}};
      OpSample sample{LayerNormAttributes{.epsilon = 1e-5f, .centred = centred}, {rows, channels}};
      if (with_gradient)
        sample.inputs.insert(sample.inputs.begin(), rows);
      else if (centred)
        sample.inputs.push_back(channels);
      list.push_back(std::move(sample));
    }
  return list;
}
std::vector<OpSample> samples() { return make_samples(false); }

// --- gradient: (dy, x, scale) -> (dx, dscale[, dshift]) ---

std::vector<TensorType> infer_grad(const InferContext& context) {
  check(context, 1, 2);
  context.require(context.inputs[0] == context.inputs[1], "dy is ", to_string(context.inputs[0]),
                  ", x ", to_string(context.inputs[1]));
  std::vector<TensorType> types = {context.inputs[1], context.inputs[2]};
  if (context.as<LayerNormAttributes>().centred) types.push_back(context.inputs[2]);
  return types;
}

void reference_grad(const Attributes& attributes, ConstTensors in, Tensors out) {
  const auto& a = attributes.as<LayerNormAttributes>();
  const std::int64_t rows = in[1]->shape()[0], columns = in[1]->shape()[1];
  const auto count = static_cast<float>(columns);
  const float *all_dy = in[0]->f32().data(), *all_x = in[1]->f32().data(),
              *scale = in[2]->f32().data();
  std::vector<RowStatistics> statistics;
  for (std::int64_t n = 0; n < rows; ++n) {
    const float *dy = all_dy + n * columns, *x = all_x + n * columns;
    const RowStatistics& row = statistics.emplace_back(a, columns, x);
    const float along = row_sum(columns,
                                [&](float lane, std::int64_t c) {
                                  return std::fma(dy[c] * scale[c], row.of(x[c]), lane);
                                }) /
                        count;
    const float mean = !a.centred ? 0.0f : row_sum(columns, [&](float lane, std::int64_t c) {
                                             return lane + dy[c] * scale[c];
                                           }) / count;
    for (std::int64_t c = 0; c < columns; ++c)
      out[0]->f32()[n * columns + c] =
          (std::fma(-along, row.of(x[c]), dy[c] * scale[c]) - mean) * row.scale;
  }
  for (std::int64_t c = 0; c < columns; ++c) {
    // Rows in runs, each a chain, added in order.
    const auto total = [&](const auto& step) {
      float sum = 0;
      for (std::int64_t run = 0; run < rows; run += kRowRun) {
        float chain = 0;
        for (std::int64_t n = run; n < std::min(run + kRowRun, rows); ++n) chain = step(chain, n);
        sum = run == 0 ? chain : sum + chain;
      }
      return sum;
    };
    out[1]->f32()[c] = total([&](float chain, std::int64_t n) {
      return std::fma(all_dy[n * columns + c],
                      statistics[static_cast<std::size_t>(n)].of(all_x[n * columns + c]), chain);
    });
    if (a.centred)
      out[2]->f32()[c] =
          total([&](float chain, std::int64_t n) { return chain + all_dy[n * columns + c]; });
  }
}

Cost cost_grad(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return {16.0 * static_cast<double>(in[0].shape.elements()),
          5.0 * static_cast<double>(in[0].bytes())};
}
std::vector<OpSample> samples_grad() { return make_samples(true); }

}  // namespace

Value layer_norm(Graph& graph, Value x, Value scale, Value shift, float epsilon, std::string name) {
  return graph.add1(layer_norm_op, LayerNormAttributes{.epsilon = epsilon}, {x, scale, shift},
                    std::move(name));
}
Value rms_norm(Graph& graph, Value x, Value scale, float epsilon, std::string name) {
  return graph.add1(layer_norm_op, LayerNormAttributes{.epsilon = epsilon, .centred = false},
                    {x, scale}, std::move(name));
}

const OpDef layer_norm_op = {OpKind::kLayerNorm, "layer_norm", infer,  gradient,
                             reference,          cost,         samples};
const OpDef layer_norm_grad_op = {OpKind::kLayerNormGrad, "layer_norm_grad", infer_grad,  nullptr,
                                  reference_grad,         cost_grad,         samples_grad};

}  // namespace podium
