// Pooling over windows, and its gradients. Windows tile the image from its upper left corner, or,
// of max_pool, lie a stride apart and may reach into padding. Rows and columns that fill no window,
// below and to the right, are left out.
//
// Rules: P1 images are [N, C, H, W]; P2 a window has at least one pixel and fits into the padded
// image; P3 a gradient's operands have the shapes of the pooling that it belongs to; P4 strides are
// at least 1, and padding lies in [0, window); P5 only max_pool and its gradient have strides or
// padding.
#include <algorithm>
#include <iterator>

#include "ops/images/reference_pool.h"
#include "ops/ops.h"

namespace podium {
namespace {

void require_window(const InferContext& context, const Shape& x) {
  const auto& a = context.as<PoolAttributes>();
  context.require(x.rank() == 4, "P1: images are [N, C, H, W], not ", to_string(x));
  context.require(a.stride_h >= 0 && a.stride_w >= 0, "P4: strides must be at least 1");
  context.require(std::min({a.pad_top, a.pad_bottom, a.pad_left, a.pad_right}) >= 0 &&
                      std::max(a.pad_top, a.pad_bottom) < std::max<std::int64_t>(a.window_h, 1) &&
                      std::max(a.pad_left, a.pad_right) < std::max<std::int64_t>(a.window_w, 1),
                  "P4: padding must lie in [0, window)");
  context.require(
      a.window_h >= 1 && a.window_w >= 1 && a.window_h <= x[2] + a.pad_top + a.pad_bottom &&
          a.window_w <= x[3] + a.pad_left + a.pad_right,
      "P2: a window of ", a.window_h, " x ", a.window_w, " does not fit into ", to_string(x));
}

void require_tiles(const InferContext& context) {
  context.require(context.as<PoolAttributes>().tiles(),
                  "P5: only max_pool and its gradient have strides and padding");
}

std::vector<TensorType> infer(const InferContext& context) {
  const Shape& x = context.inputs[0].shape;
  require_window(context, x);
  return {{DType::kF32, pooled(x, context.as<PoolAttributes>())}};
}

std::vector<TensorType> infer_avg(const InferContext& context) {
  require_tiles(context);
  return infer(context);
}

std::vector<TensorType> infer_max(const InferContext& context) {
  std::vector<TensorType> types = infer(context);
  if (context.as<PoolAttributes>().places) types.push_back(types[0]);
  return types;
}

// The images of which dy has the gradients, from the size among the attributes.
std::vector<TensorType> images_of_size(const InferContext& context) {
  const auto& a = context.as<PoolAttributes>();
  const Shape& dy = context.inputs[0].shape;
  context.require(dy.rank() == 4, "P1: dy is [N, C, P, Q], not ", to_string(dy));
  const Shape x{dy[0], dy[1], a.height, a.width};
  require_window(context, x);
  context.require(dy == pooled(x, a), "P3: dy is ", to_string(dy), ", x is ", to_string(x));
  return {{DType::kF32, x}};
}

std::vector<TensorType> infer_max_grad(const InferContext& context) {
  const Shape &dy = context.inputs[0].shape, &second = context.inputs[1].shape;
  if (context.as<PoolAttributes>().places) {
    context.require(dy == second, "P3: dy is ", to_string(dy), ", places are ", to_string(second));
    return images_of_size(context);
  }
  require_window(context, second);
  context.require(dy == pooled(second, context.as<PoolAttributes>()), "P3: dy is ", to_string(dy),
                  ", x is ", to_string(second));
  return {context.inputs[1]};
}

std::vector<TensorType> infer_avg_grad(const InferContext& context) {
  require_tiles(context);
  return images_of_size(context);
}

void reference_max(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  pool_largest(inputs[0]->shape(), attributes.as<PoolAttributes>(), inputs[0]->f32(),
               outputs[0]->f32());
  if (attributes.as<PoolAttributes>().places) {
    places_of_largest(inputs[0]->shape(), attributes.as<PoolAttributes>(), inputs[0]->f32(),
                      outputs[1]->f32());
  }
}

void reference_max_grad(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto& a = attributes.as<PoolAttributes>();
  const auto lead = a.places ? lead_to_places : lead_to_largest;
  lead(outputs[0]->shape(), a, inputs[0]->f32(), inputs[1]->f32(), outputs[0]->f32());
}

void reference_avg(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto& a = attributes.as<PoolAttributes>();
  const auto x = inputs[0]->f32();
  const auto y = outputs[0]->f32();
  const float share = pool_share(a);
  for_each_window(inputs[0]->shape(), a, [&](std::int64_t out, const PoolWindow& window) {
    float sum = 0;
    for (std::int64_t k = 0; k < window.pixels(); ++k) sum = sum + x[window.at(k)];
    y[static_cast<std::size_t>(out)] = sum * share;
  });
}

void reference_avg_grad(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto& a = attributes.as<PoolAttributes>();
  const auto dy = inputs[0]->f32();
  const auto dx = outputs[0]->f32();
  const float share = pool_share(a);
  std::ranges::fill(dx, 0.0f);
  for_each_window(outputs[0]->shape(), a, [&](std::int64_t out, const PoolWindow& window) {
    for (std::int64_t k = 0; k < window.pixels(); ++k)
      dx[window.at(k)] = dy[static_cast<std::size_t>(out)] * share;
  });
}

std::vector<Value> gradient_max(const GradientContext& context) {
  PoolAttributes a = context.self().attributes.as<PoolAttributes>();
  a.places = false;
  return {context.graph.add1(max_pool_grad_op, a, {context.output_gradients[0], context.input(0)},
                             context.self().name)};
}

std::vector<Value> gradient_avg(const GradientContext& context) {
  PoolAttributes a = context.self().attributes.as<PoolAttributes>();
  const Shape& x = context.graph.shape(context.input(0));
  a.height = x[2];
  a.width = x[3];
  return {
      context.graph.add1(avg_pool_grad_op, a, {context.output_gradients[0]}, context.self().name)};
}

// One comparison, addition or product a pixel.
Cost cost(const Attributes&, std::span<const TensorType> in, std::span<const TensorType> out) {
  Cost total;
  for (const TensorType& type : in) {
    total.flops = std::max(total.flops, static_cast<double>(type.shape.elements()));
    total.bytes += static_cast<double>(type.bytes());
  }
  total.flops = std::max(total.flops, static_cast<double>(out[0].shape.elements()));
  for (const TensorType& type : out) total.bytes += static_cast<double>(type.bytes());
  return total;
}

// Windows that tile the image, that leave rows and columns over, and one of the whole image.
struct PoolCase {
  Shape x;
  PoolAttributes a;
};
std::vector<PoolCase> cases() {
  return {{{5, 3, 8, 6}, {2, 2}}, {{17, 2, 7, 9}, {2, 2}}, {{33, 1, 3, 3}, {3, 3}},
          {{2, 4, 5, 7}, {1, 3}}, {{1, 2, 6, 4}, {6, 4}},  {{16, 5, 31, 31}, {2, 2}}};
}

std::vector<OpSample> samples() {
  std::vector<OpSample> list;
  for (const PoolCase& c : cases()) list.push_back({c.a, {{DType::kF32, c.x}}});
  return list;
}

// Windows that overlap and reach into padding, as in the stem of a ResNet; that leave gaps; that
// overlap along one axis alone.
std::vector<PoolCase> strided_cases() {
  const auto strided = [](std::int64_t window, std::int64_t stride, std::int64_t pad) {
    return PoolAttributes{.window_h = window,
                          .window_w = window,
                          .stride_h = stride,
                          .stride_w = stride,
                          .pad_top = pad,
                          .pad_bottom = pad,
                          .pad_left = pad,
                          .pad_right = pad};
  };
  return {
      {{3, 2, 12, 12}, strided(3, 2, 1)},
      {{17, 1, 7, 9}, strided(3, 2, 1)},
      {{2, 3, 7, 7}, strided(2, 3, 0)},
      {{1, 2, 5, 6}, {.window_h = 3, .window_w = 2, .stride_h = 1, .pad_top = 2, .pad_right = 1}}};
}

std::vector<PoolCase> all_cases() {
  std::vector<PoolCase> all = cases();
  std::ranges::copy(strided_cases(), std::back_inserter(all));
  return all;
}

std::vector<OpSample> samples_max() {
  std::vector<OpSample> list;
  for (const bool places : {false, true})
    for (PoolCase c : all_cases()) {
      c.a.places = places;
      list.push_back({c.a, {{DType::kF32, c.x}}});
    }
  return list;
}

std::vector<OpSample> samples_max_grad() {
  std::vector<OpSample> list;
  for (PoolCase c : all_cases()) {
    const TensorType x{DType::kF32, c.x}, y{DType::kF32, pooled(c.x, c.a)};
    list.push_back({c.a, {y, x}});
    c.a.places = true;
    c.a.height = c.x[2];
    c.a.width = c.x[3];
    list.push_back({c.a, {y, y}});
  }
  return list;
}

std::vector<OpSample> samples_avg_grad() {
  std::vector<OpSample> list;
  for (PoolCase c : cases()) {
    c.a.height = c.x[2];
    c.a.width = c.x[3];
    list.push_back({c.a, {{DType::kF32, pooled(c.x, c.a)}}});
  }
  return list;
}

}  // namespace

Shape pooled(const Shape& x, const PoolAttributes& a) {
  const auto windows = [](std::int64_t extent, std::int64_t window, std::int64_t stride) {
    return (extent - window) / (stride == 0 ? window : stride) + 1;
  };
  return {x[0], x[1], windows(x[2] + a.pad_top + a.pad_bottom, a.window_h, a.stride_h),
          windows(x[3] + a.pad_left + a.pad_right, a.window_w, a.stride_w)};
}

float pool_share(const PoolAttributes& a) {
  return static_cast<float>(1.0 / static_cast<double>(a.window_h * a.window_w));
}

Value max_pool(Graph& graph, Value x, std::int64_t window_h, std::int64_t window_w,
               std::string name) {
  return max_pool(graph, x, PoolAttributes{window_h, window_w}, std::move(name));
}

Value max_pool(Graph& graph, Value x, const PoolAttributes& attributes, std::string name) {
  return graph.add1(max_pool_op, attributes, {x}, std::move(name));
}

Value avg_pool(Graph& graph, Value x, std::int64_t window_h, std::int64_t window_w,
               std::string name) {
  return graph.add1(avg_pool_op, PoolAttributes{window_h, window_w}, {x}, std::move(name));
}

const OpDef max_pool_op = {OpKind::kMaxPool, "max_pool", infer_max,  gradient_max,
                           reference_max,    cost,       samples_max};
const OpDef max_pool_grad_op = {
    OpKind::kMaxPoolGrad, "max_pool_grad", infer_max_grad, nullptr, reference_max_grad, cost,
    samples_max_grad};
const OpDef avg_pool_op = {OpKind::kAvgPool, "avg_pool", infer_avg, gradient_avg,
                           reference_avg,    cost,       samples};
const OpDef avg_pool_grad_op = {
    OpKind::kAvgPoolGrad, "avg_pool_grad", infer_avg_grad, nullptr, reference_avg_grad, cost,
    samples_avg_grad};

}  // namespace podium
