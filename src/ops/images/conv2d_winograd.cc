// Convolution by Winograd's algorithm: conv2d and its gradients by another order of arithmetic, a
// contract of its own (docs/numerics.md; ops/images/winograd_reference.cc). Which convolutions go
// this way is decided by compile/choose.
//   W1 C1 to C4 of conv2d hold
//   W2 the kernel is three times the stride, in both directions
//   W3 a gradient to a pooled output is half as high and wide as the output, and so are the places
//   W4 an output is pooled where its tiles are all whole: no window has pixels of two of them
//   W5 scale and shift of images that are normalised are [2, C], the last operand
//   W6 the gradient to the weights normalises images for wide layers alone
//   W7 images that are normalised have no costly activation
#include <algorithm>
#include <cmath>

#include "base/numerics/winograd_points.h"
#include "ops/images/reference_pool.h"
#include "ops/images/winograd_reference.h"
#include "ops/ops.h"

namespace podium {
namespace {

void check_affine(const InferContext& context) {
  if (!context.as<Conv2dAttributes>().normalises) return;
  const Shape &x = context.inputs[0].shape,
              &affine = context.inputs[context.inputs.size() - 1].shape;
  context.require((affine == Shape{2, x[1]}), "W5: the images are ", to_string(x),
                  ", scale and shift ", to_string(affine));
  context.require(!is_costly(context.as<Conv2dAttributes>().activation.kind),
                  "W7: images that are normalised have a costly activation");
}

// What conv2d's gradient makes of the operands, operand `dy` as large as the output.
std::vector<TensorType> infer_from(const OpDef& op, const InferContext& context, std::size_t dy) {
  if (!context.as<Conv2dAttributes>().pools) return op.infer(context);
  const TensorType pooled = context.inputs[dy];
  context.require(pooled.shape.rank() == 4 && context.inputs[2] == pooled, "W3: dy is ",
                  to_string(pooled.shape), ", the places are ", to_string(context.inputs[2].shape));
  std::vector<TensorType> types = {context.inputs[0], context.inputs[1]};
  types[dy].shape = winograd_output(context.as<Conv2dAttributes>(), pooled.shape);
  return op.infer(InferContext(context.name, context.attributes, types));
}

// The images that are convolved.
std::vector<float> images_of(const Attributes& attributes, ConstTensors in) {
  const auto& a = attributes.as<Conv2dAttributes>();
  std::vector<float> x(in[0]->f32().begin(), in[0]->f32().end());
  if (!a.normalises) return x;
  const auto affine = in.back()->f32();
  const Planes planes = planes_of(in[0]->shape());
  for (std::int64_t c = 0; c < planes.channels; ++c)
    for (std::int64_t n = 0; n < planes.images; ++n)
      for (std::int64_t i = planes.offset(n, c); i < planes.offset(n, c) + planes.pixels(); ++i)
        x[i] = activate_f32(a.activation, std::fma(x[i], affine[c], affine[planes.channels + c]));
  return x;
}

// The gradient to the output, led back through the pooling where there is one.
std::vector<float> gradient_to_output(const Attributes& attributes, const Tensor& dy,
                                      ConstTensors in) {
  if (!attributes.as<Conv2dAttributes>().pools) return {dy.f32().begin(), dy.f32().end()};
  const Shape shape = winograd_output(attributes.as<Conv2dAttributes>(), dy.shape());
  std::vector<float> led(static_cast<std::size_t>(shape.elements()));
  lead_to_places(shape, PoolAttributes(), dy.f32(), in[2]->f32(), led);
  return led;
}

void require_kernel(const InferContext& context, std::int64_t kernel_h, std::int64_t kernel_w) {
  const auto& a = context.as<Conv2dAttributes>();
  context.require(kernel_h == 3 * a.stride_h && kernel_w == 3 * a.stride_w, "a kernel of ",
                  kernel_h, "x", kernel_w, " with strides ", a.stride_h, ", ", a.stride_w,
                  ": Winograd needs a kernel of three times the stride; use conv2d");
}

std::vector<TensorType> infer(const InferContext& context) {
  std::vector<TensorType> types = conv2d_op.infer(context);
  check_affine(context);
  require_kernel(context, context.inputs[1].shape[2], context.inputs[1].shape[3]);
  const auto& a = context.as<Conv2dAttributes>();
  if (a.pools) {
    const Shape y = types[0].shape;
    context.require(winograd_pools(a, context.inputs[0].shape, y), "W4: tiles of ", to_string(y),
                    " are not all whole");
    types[0].shape = podium::pooled(y);
  }
  if (a.places) types.push_back(types[0]);
  return types;
}

std::vector<Value> gradient(const GradientContext& context) {
  Graph& graph = context.graph;
  const Node self = context.self();
  const Value x = self.inputs[0], w = self.inputs[1], dy = context.output_gradients[0];
  Conv2dAttributes to_input = self.attributes.as<Conv2dAttributes>();
  PODIUM_CHECK(!to_input.pools && !to_input.normalises,
               "graphs are differentiated before they are fused");
  Conv2dAttributes to_weight = to_input;
  to_input.extent_h = graph.shape(x)[2], to_input.extent_w = graph.shape(x)[3];
  to_weight.extent_h = graph.shape(w)[2], to_weight.extent_w = graph.shape(w)[3];
  std::vector<Value> gradients(2);
  if (context.wanted[0])
    gradients[0] = graph.add1(conv2d_winograd_grad_input_op, to_input, {dy, w}, self.name);
  if (context.wanted[1])
    gradients[1] = graph.add1(conv2d_winograd_grad_weight_op, to_weight, {x, dy}, self.name);
  return gradients;
}

void reference(const Attributes& attributes, ConstTensors in, Tensors out) {
  const auto& a = attributes.as<Conv2dAttributes>();
  const Shape shape = winograd_output(a, out[0]->shape());
  std::vector<float> y(static_cast<std::size_t>(shape.elements()));
  winograd_reference(conv_shape(a, in[0]->shape(), in[1]->shape(), out[0]->shape()),
                     images_of(attributes, in).data(), in[1]->f32().data(), y.data());
  if (!a.pools) {
    std::ranges::copy(y, out[0]->f32().begin());
    return;
  }
  pool_largest(shape, PoolAttributes(), y, out[0]->f32());
  if (a.places) places_of_largest(shape, PoolAttributes(), y, out[1]->f32());
}

std::vector<TensorType> infer_grad_input(const InferContext& context) {
  std::vector<TensorType> types = infer_from(conv2d_grad_input_op, context, 0);
  require_kernel(context, context.inputs[1].shape[2], context.inputs[1].shape[3]);
  return types;
}

void reference_grad_input(const Attributes& attributes, ConstTensors in, Tensors out) {
  winograd_grad_input_reference(conv_shape(attributes.as<Conv2dAttributes>(), out[0]->shape(),
                                           in[1]->shape(), in[0]->shape()),
                                gradient_to_output(attributes, *in[0], in).data(),
                                in[1]->f32().data(), out[0]->f32().data());
}

std::vector<TensorType> infer_grad_weight(const InferContext& context) {
  std::vector<TensorType> types = infer_from(conv2d_grad_weight_op, context, 1);
  const auto& a = context.as<Conv2dAttributes>();
  check_affine(context);
  context.require(!a.normalises || winograd_is_wide(a, context.inputs[0].shape, types[0].shape[0]),
                  "W6: the weights are ", to_string(types[0].shape));
  require_kernel(context, a.extent_h, a.extent_w);
  return types;
}

void reference_grad_weight(const Attributes& attributes, ConstTensors in, Tensors out) {
  winograd_grad_weight_reference(conv_shape(attributes.as<Conv2dAttributes>(), in[0]->shape(),
                                            out[0]->shape(), in[1]->shape()),
                                 gradient_to_output(attributes, *in[1], in).data(),
                                 images_of(attributes, in).data(), out[0]->f32().data());
}

// The products at the points; the transforms come to little beside them. For a user's figures note
// that this is less than half the work of the direct convolution.
Cost products(const ConvShape& s, std::int64_t height, std::int64_t width,
              std::span<const TensorType> in, std::span<const TensorType> out) {
  double bytes = 0;
  for (const TensorType& type : in) bytes += static_cast<double>(type.bytes());
  for (const TensorType& type : out) bytes += static_cast<double>(type.bytes());
  const std::int64_t phased = s.in_channels * s.stride_height * s.stride_width;
  const int m = winograd::tile_outputs(height, width, phased, s.out_channels);
  const std::int64_t points =
      winograd::Tiles(height, m).points() * winograd::Tiles(width, m).points();
  return {.flops = 2.0 * static_cast<double>(s.images * points * phased * s.out_channels),
          .bytes = bytes};
}

Cost cost(const Attributes& attributes, std::span<const TensorType> in,
          std::span<const TensorType> out) {
  const ConvShape s =
      conv_shape(attributes.as<Conv2dAttributes>(), in[0].shape, in[1].shape, out[0].shape);
  return products(s, s.out_height, s.out_width, in, out);
}
Cost cost_grad_input(const Attributes& attributes, std::span<const TensorType> in,
                     std::span<const TensorType> out) {
  const ConvShape s =
      conv_shape(attributes.as<Conv2dAttributes>(), out[0].shape, in[1].shape, in[0].shape);
  // Indices of a phase that meet the image.
  const auto along = [](std::int64_t size, std::int64_t stride, std::int64_t pad) {
    return (size - 1 + pad) / stride - pad / stride + 1;
  };
  return products(s, along(s.in_height, s.stride_height, s.pad_top),
                  along(s.in_width, s.stride_width, s.pad_left), in, out);
}
Cost cost_grad_weight(const Attributes& attributes, std::span<const TensorType> in,
                      std::span<const TensorType> out) {
  const ConvShape s =
      conv_shape(attributes.as<Conv2dAttributes>(), in[0].shape, out[0].shape, in[1].shape);
  return products(s, s.out_height, s.out_width, in, out);
}

struct SampleShape {
  Shape images;
  std::int64_t out_channels, stride;
};

std::vector<OpSample> make_samples(int pass) {
  std::vector<OpSample> list;
  const std::vector<SampleShape> shapes = {
      {{2, 3, 5, 7}, 4, 1},     {{17, 6, 12, 12}, 12, 2}, {{33, 12, 14, 14}, 5, 2},
      {{3, 70, 4, 4}, 20, 1},   {{16, 1, 8, 9}, 3, 3},    {{1, 2, 3, 3}, 2, 1},
      {{35, 17, 7, 9}, 32, 1},  {{3, 25, 11, 16}, 29, 1}, {{18, 24, 6, 15}, 32, 1},
      {{2, 7, 20, 21}, 24, 2},  {{5, 5, 9, 10}, 16, 2},   {{18, 24, 10, 14}, 32, 1},
      {{35, 16, 10, 6}, 16, 1}, {{20, 24, 8, 16}, 32, 1}};
  for (const SampleShape& s : shapes) {
    const std::int64_t kernel = 3 * s.stride;
    const Shape w{s.out_channels, s.images[1], kernel, kernel};
    Conv2dAttributes a = same_padding(s.images, kernel, kernel, s.stride);
    const Shape y{s.images[0], s.out_channels, (s.images[2] + s.stride - 1) / s.stride,
                  (s.images[3] + s.stride - 1) / s.stride};
    if (pass == 1) a.extent_h = s.images[2], a.extent_w = s.images[3];
    if (pass == 2) a.extent_h = a.extent_w = kernel;
    list.push_back(
        {a, {{DType::kF32, pass == 1 ? y : s.images}, {DType::kF32, pass == 2 ? y : w}}});
    if (pass == 0 && winograd_pools(a, s.images, y)) {
      a.pools = true;
      list.push_back({a, list.back().inputs});
      a.places = true;
      list.push_back({a, list.back().inputs});
    }
    if (pass == 0 || y[2] % 2 != 0 || y[3] % 2 != 0) continue;
    a.pools = true;
    const TensorType pooled{DType::kF32, podium::pooled(y)};
    list.push_back({a, list.back().inputs});
    list.back().inputs[static_cast<std::size_t>(pass - 1)] = pooled;
    list.back().inputs.push_back(pooled);
  }
  return list;
}
// Those, and with images that are normalised.
std::vector<OpSample> with_norms(std::vector<OpSample> list) {
  const std::size_t plain = list.size();
  for (std::size_t i = 0; i < plain; ++i) {
    OpSample sample = list[i];
    auto a = sample.attributes.as<Conv2dAttributes>();
    // Of the gradient, the second operand is dy.
    const Shape &x = sample.inputs[0].shape, &second = sample.inputs[1].shape;
    if (a.extent_h > 0 && !winograd_is_wide(a, x, second[1])) continue;
    a.normalises = true;
    const Activation& activation = kActivations[i % std::size(kActivations)];
    if (!is_costly(activation.kind)) a.activation = activation;
    sample.attributes = a;
    sample.inputs.push_back({DType::kF32, Shape{2, sample.inputs[0].shape[1]}});
    list.push_back(std::move(sample));
  }
  return list;
}
std::vector<OpSample> samples() { return with_norms(make_samples(0)); }
std::vector<OpSample> samples_grad_input() { return make_samples(1); }
std::vector<OpSample> samples_grad_weight() { return with_norms(make_samples(2)); }

}  // namespace

Shape winograd_output(const Conv2dAttributes& a, const Shape& result) {
  return a.pools ? Shape{result[0], result[1], 2 * result[2], 2 * result[3]} : result;
}

ConvShape conv_shape(const Conv2dAttributes& a, const Shape& x, const Shape& w, const Shape& y) {
  const Shape whole = winograd_output(a, y);
  return {.images = x[0],
          .in_channels = x[1],
          .in_height = x[2],
          .in_width = x[3],
          .out_channels = w[0],
          .out_height = whole[2],
          .out_width = whole[3],
          .kernel_height = w[2],
          .kernel_width = w[3],
          .stride_height = a.stride_h,
          .stride_width = a.stride_w,
          .pad_top = a.pad_top,
          .pad_left = a.pad_left};
}

bool winograd_is_wide(const Conv2dAttributes& a, const Shape& x, std::int64_t out_channels) {
  return winograd::is_wide(x[1] * a.stride_h * a.stride_w, out_channels);
}

bool winograd_pools(const Conv2dAttributes& a, const Shape& x, const Shape& y) {
  const int m = winograd::tile_outputs(y[2], y[3], x[1] * a.stride_h * a.stride_w, y[1]);
  return y[2] % m == 0 && y[3] % m == 0;
}

const OpDef conv2d_winograd_op = {
    OpKind::kConv2dWinograd, "conv2d_winograd", infer, gradient, reference, cost, samples};
const OpDef conv2d_winograd_grad_input_op = {OpKind::kConv2dWinogradGradInput,
                                             "conv2d_winograd_grad_input",
                                             infer_grad_input,
                                             nullptr,
                                             reference_grad_input,
                                             cost_grad_input,
                                             samples_grad_input};
const OpDef conv2d_winograd_grad_weight_op = {OpKind::kConv2dWinogradGradWeight,
                                              "conv2d_winograd_grad_weight",
                                              infer_grad_weight,
                                              nullptr,
                                              reference_grad_weight,
                                              cost_grad_weight,
                                              samples_grad_weight};

}  // namespace podium
