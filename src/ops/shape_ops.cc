// Operations that compute nothing: a constant, another shape or another order of the same elements.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ops/geometry.h"
#include "ops/ops.h"

namespace podium {
namespace {

std::vector<TensorType> infer_fill(const InferContext& context) {
  return {{DType::kF32, context.as<FillAttributes>().shape}};
}
void reference_fill(const Attributes& attributes, ConstTensors, Tensors outputs) {
  std::ranges::fill(outputs[0]->f32(), attributes.as<FillAttributes>().value);
}
Cost cost_fill(const Attributes&, std::span<const TensorType>, std::span<const TensorType> out) {
  return {0, static_cast<double>(out[0].bytes())};
}
std::vector<OpSample> samples_fill() {
  return {{FillAttributes{0.25f, {32}}, {}},
          {FillAttributes{-3.0f, {4, 5}}, {}},
          {FillAttributes{1.0f, Shape{}}, {}}};
}

// Rows of sequences as rows of tokens, or the other way.
bool is_split(std::int64_t a, std::int64_t b) {
  return a == b || (a > 0 && b > 0 && (a % b == 0 || b % a == 0));
}

std::vector<TensorType> infer_reshape(const InferContext& context) {
  const Shape& shape = context.as<ReshapeAttributes>().shape;
  const Shape& x = context.inputs[0].shape;
  context.require(x.elements() == shape.elements(), to_string(x), " has ", x.elements(),
                  " elements, ", to_string(shape), " has ", shape.elements());
  context.require(x.rank() > 0 && shape.rank() > 0 && is_split(x[0], shape[0]),
                  "the first axis must stay, or be split or merged with the next: ", to_string(x),
                  " to ", to_string(shape));
  return {{context.inputs[0].dtype, shape}};
}
std::vector<Value> gradient_reshape(const GradientContext& context) {
  return {reshape(context.graph, context.output_gradients[0], context.graph.shape(context.input(0)),
                  context.self().name)};
}
void reference_reshape(const Attributes&, ConstTensors inputs, Tensors outputs) {
  std::memcpy(outputs[0]->data(), inputs[0]->data(),
              static_cast<std::size_t>(inputs[0]->type().bytes()));
}
Cost cost_reshape(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) {
  return {};
}
std::vector<OpSample> samples_reshape() {
  return {{ReshapeAttributes{{3, 8}}, {{DType::kF32, {3, 2, 2, 2}}}},
          {ReshapeAttributes{{17, 2, 5}}, {{DType::kF32, {17, 10}}}},
          {ReshapeAttributes{{15, 4}}, {{DType::kF32, {3, 5, 4}}}},
          {ReshapeAttributes{{3, 20}}, {{DType::kF32, {15, 4}}}},
          {ReshapeAttributes{{35}}, {{DType::kI32, {5, 7}}}}};
}

std::array<std::int64_t, 3> axes_of(const PermuteAttributes& a) {
  return {a.channels, a.rows, a.columns};
}
std::vector<TensorType> infer_permute(const InferContext& context) {
  const Shape& x = context.inputs[0].shape;
  std::array<std::int64_t, 3> axes = axes_of(context.as<PermuteAttributes>());
  context.require(x.rank() == 4, "needs [N, C, H, W], got ", to_string(x));
  const Shape y{x[0], x[axes[0]], x[axes[1]], x[axes[2]]};
  std::ranges::sort(axes);
  context.require(axes == std::array<std::int64_t, 3>{1, 2, 3},
                  "each of the axes 1, 2 and 3 must be named once");
  return {{DType::kF32, y}};
}
std::vector<Value> gradient_permute(const GradientContext& context) {
  const std::array<std::int64_t, 3> axes =
      axes_of(context.self().attributes.as<PermuteAttributes>());
  const auto place = [&](std::int64_t axis) {
    return 1 + (std::ranges::find(axes, axis) - axes.begin());
  };
  return {permute(context.graph, context.output_gradients[0], {place(1), place(2), place(3)},
                  context.self().name)};
}
void reference_permute(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const PermuteShape s = permute_shape(attributes.as<PermuteAttributes>(), inputs[0]->shape());
  const float* x = inputs[0]->f32().data();
  float* y = outputs[0]->f32().data();
  for (std::int64_t n = 0; n < s.images; ++n, x += s.values())
    for (std::int64_t i = 0; i < s.extents[0]; ++i)
      for (std::int64_t j = 0; j < s.extents[1]; ++j)
        for (std::int64_t k = 0; k < s.extents[2]; ++k)
          *y++ = x[i * s.steps[0] + j * s.steps[1] + k * s.steps[2]];
}
Cost cost_permute(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return {0, 2.0 * static_cast<double>(in[0].bytes())};
}
std::vector<OpSample> samples_permute() {
  return {{PermuteAttributes{3, 1, 2}, {{DType::kF32, {5, 1, 7, 6}}}},
          {PermuteAttributes{2, 3, 1}, {{DType::kF32, {17, 6, 1, 9}}}},
          {PermuteAttributes{1, 3, 2}, {{DType::kF32, {33, 3, 4, 5}}}},
          {PermuteAttributes{3, 2, 1}, {{DType::kF32, {2, 20, 3, 18}}}}};
}

}  // namespace

PermuteShape permute_shape(const PermuteAttributes& a, const Shape& x) {
  return {.images = x[0],
          .extents = {x[a.channels], x[a.rows], x[a.columns]},
          .steps = {x.elements_from(a.channels + 1), x.elements_from(a.rows + 1),
                    x.elements_from(a.columns + 1)}};
}
Value permute(Graph& graph, Value x, const PermuteAttributes& axes, std::string name) {
  return graph.add1(permute_op, axes, {x}, std::move(name));
}
Value fill(Graph& graph, const Shape& shape, float value, std::string name) {
  return graph.add1(fill_op, FillAttributes{value, shape}, {}, std::move(name));
}
Value reshape(Graph& graph, Value x, const Shape& shape, std::string name) {
  return graph.add1(reshape_op, ReshapeAttributes{shape}, {x}, std::move(name));
}
Value flatten(Graph& graph, Value x, std::string name) {
  const Shape& shape = graph.shape(x);
  return reshape(graph, x, Shape{shape[0], shape.elements_from(1)}, std::move(name));
}

const OpDef fill_op = {OpKind::kFill,  "fill",    infer_fill,  nullptr,
                       reference_fill, cost_fill, samples_fill};
const OpDef permute_op = {OpKind::kPermute,  "permute",    infer_permute,  gradient_permute,
                          reference_permute, cost_permute, samples_permute};
const OpDef reshape_op = {OpKind::kReshape,  "reshape",    infer_reshape,  gradient_reshape,
                          reference_reshape, cost_reshape, samples_reshape};

}  // namespace podium
