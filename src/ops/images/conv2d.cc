// Convolution and its two gradients.
//   C1 images are [N, C, H, W], weights [K, C, R, S]
//   C2 both have the same C
//   C3 strides >= 1, padding >= 0 and below the kernel
//   C4 the padded image holds the kernel at least once
#include <algorithm>
#include <cmath>

#include "ops/ops.h"

namespace podium {
namespace {

struct Geometry {
  std::int64_t images, in_channels, height, width, out_channels, kernel_h, kernel_w, out_h, out_w;
};

std::int64_t out_extent(std::int64_t in, std::int64_t before, std::int64_t after,
                        std::int64_t kernel, std::int64_t stride) {
  return (in + before + after - kernel) / stride + 1;
}

void check(const InferContext& context, const Conv2dAttributes& a, const Shape& images,
           const Shape& weights) {
  context.require(images.rank() == 4 && weights.rank() == 4,
                  "needs images [N, C, H, W] and weights [K, C, R, S], got ", to_string(images),
                  " and ", to_string(weights));
  context.require(images[1] == weights[1], "input has ", images[1], " channels, weight expects ",
                  weights[1]);
  context.require(a.stride_h >= 1 && a.stride_w >= 1, "strides must be at least 1");
  context.require(std::min({a.pad_top, a.pad_bottom, a.pad_left, a.pad_right}) >= 0 &&
                      std::max(a.pad_top, a.pad_bottom) < weights[2] &&
                      std::max(a.pad_left, a.pad_right) < weights[3],
                  "padding must lie in [0, kernel)");
  context.require(images[2] + a.pad_top + a.pad_bottom >= weights[2] &&
                      images[3] + a.pad_left + a.pad_right >= weights[3],
                  "a kernel of ", weights[2], "x", weights[3], " does not fit into images of ",
                  images[2], "x", images[3],
                  " with this padding; enlarge the images or the padding");
}

Geometry geometry(const Conv2dAttributes& a, const Shape& images, const Shape& weights) {
  return {images[0],
          images[1],
          images[2],
          images[3],
          weights[0],
          weights[2],
          weights[3],
          out_extent(images[2], a.pad_top, a.pad_bottom, weights[2], a.stride_h),
          out_extent(images[3], a.pad_left, a.pad_right, weights[3], a.stride_w)};
}

Cost conv_cost(const Geometry& g) {
  const double outputs = static_cast<double>(g.images) * g.out_channels * g.out_h * g.out_w;
  const double inputs = static_cast<double>(g.images) * g.in_channels * g.height * g.width;
  const double kernel = static_cast<double>(g.in_channels) * g.kernel_h * g.kernel_w;
  return {2 * outputs * kernel, 4 * (outputs + inputs + kernel * g.out_channels)};
}

// --- forward ---

std::vector<TensorType> infer(const InferContext& context) {
  const auto& a = context.as<Conv2dAttributes>();
  check(context, a, context.inputs[0].shape, context.inputs[1].shape);
  const Geometry g = geometry(a, context.inputs[0].shape, context.inputs[1].shape);
  return {{DType::kF32, Shape{g.images, g.out_channels, g.out_h, g.out_w}}};
}

std::vector<Value> gradient(const GradientContext& context) {
  Graph& graph = context.graph;
  const Node self = context.self();
  const Value x = self.inputs[0], w = self.inputs[1], dy = context.output_gradients[0];
  Conv2dAttributes to_input = self.attributes.as<Conv2dAttributes>();
  Conv2dAttributes to_weight = to_input;
  to_input.extent_h = graph.shape(x)[2], to_input.extent_w = graph.shape(x)[3];
  to_weight.extent_h = graph.shape(w)[2], to_weight.extent_w = graph.shape(w)[3];
  std::vector<Value> gradients(2);
  if (context.wanted[0])
    gradients[0] = graph.add1(conv2d_grad_input_op, to_input, {dy, w}, self.name);
  if (context.wanted[1])
    gradients[1] = graph.add1(conv2d_grad_weight_op, to_weight, {x, dy}, self.name);
  return gradients;
}

void reference(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto& a = attributes.as<Conv2dAttributes>();
  const Geometry g = geometry(a, inputs[0]->shape(), inputs[1]->shape());
  const float *x = inputs[0]->f32().data(), *w = inputs[1]->f32().data();
  float* y = outputs[0]->f32().data();
  for (std::int64_t n = 0; n < g.images; ++n)
    for (std::int64_t k = 0; k < g.out_channels; ++k)
      for (std::int64_t p = 0; p < g.out_h; ++p)
        for (std::int64_t q = 0; q < g.out_w; ++q) {
          float acc = 0;
          for (std::int64_t block = 0; block < g.in_channels; block += 16)
            for (std::int64_t r = 0; r < g.kernel_h; ++r)
              for (std::int64_t s = 0; s < g.kernel_w; ++s) {
                const std::int64_t h = p * a.stride_h + r - a.pad_top,
                                   v = q * a.stride_w + s - a.pad_left;
                if (h < 0 || h >= g.height || v < 0 || v >= g.width) continue;
                for (std::int64_t c = block; c < std::min(block + 16, g.in_channels); ++c)
                  acc =
                      std::fma(x[((n * g.in_channels + c) * g.height + h) * g.width + v],
                               w[((k * g.in_channels + c) * g.kernel_h + r) * g.kernel_w + s], acc);
              }
          y[((n * g.out_channels + k) * g.out_h + p) * g.out_w + q] = acc;
        }
}

Cost cost(const Attributes& attributes, std::span<const TensorType> in,
          std::span<const TensorType>) {
  return conv_cost(geometry(attributes.as<Conv2dAttributes>(), in[0].shape, in[1].shape));
}

struct SampleShape {
  Shape images, weights;
  std::int64_t stride;
};

const std::vector<SampleShape>& sample_shapes() {
  static const std::vector<SampleShape> shapes = {
      {{2, 3, 5, 7}, {4, 3, 3, 3}, 1},
      {{17, 1, 8, 8}, {6, 1, 3, 3}, 1},
      {{16, 6, 8, 8}, {12, 6, 6, 6}, 2},
      {{3, 18, 4, 4}, {20, 18, 3, 3}, 1},
      {{5, 2, 6, 5}, {3, 2, 1, 1}, 1},
      {{4, 12, 7, 7}, {5, 12, 6, 6}, 2},
      {{1, 2, 9, 9}, {2, 2, 5, 3}, 3},
      {{32, 1, 6, 6}, {7, 1, 2, 2}, 2},
      // As in ResNets: wide layers of 1x1 and of 3x3 at a stride of 2, the stem, planes of bands.
      {{17, 32, 5, 5}, {48, 32, 1, 1}, 1},
      {{3, 24, 6, 6}, {16, 24, 1, 1}, 2},
      {{2, 16, 7, 6}, {32, 16, 3, 3}, 2},
      {{2, 3, 75, 9}, {4, 3, 7, 7}, 2},
      {{1, 1, 70, 3}, {1, 1, 3, 3}, 1},
  };
  return shapes;
}

std::vector<OpSample> samples() {
  std::vector<OpSample> list;
  for (const SampleShape& s : sample_shapes()) {
    list.push_back({same_padding(s.images, s.weights[2], s.weights[3], s.stride),
                    {{DType::kF32, s.images}, {DType::kF32, s.weights}}});
  }
  list.push_back({Conv2dAttributes{}, {{DType::kF32, {3, 2, 6, 6}}, {DType::kF32, {4, 2, 3, 3}}}});
  return list;
}

// --- gradient to data: (dy, weights) -> dx ---

Shape input_shape(const Conv2dAttributes& a, const Shape& dy, const Shape& weights) {
  return Shape{dy[0], weights[1], a.extent_h, a.extent_w};
}

std::vector<TensorType> infer_grad_input(const InferContext& context) {
  const auto& a = context.as<Conv2dAttributes>();
  const Shape &dy = context.inputs[0].shape, &weights = context.inputs[1].shape;
  context.require(dy.rank() == 4 && weights.rank() == 4 && dy[1] == weights[0],
                  "needs dy [N, K, P, Q] and weights [K, C, R, S]");
  const Shape x = input_shape(a, dy, weights);
  check(context, a, x, weights);
  const Geometry g = geometry(a, x, weights);
  context.require(g.out_h == dy[2] && g.out_w == dy[3], "dy ", to_string(dy),
                  " is not the output for images ", to_string(x));
  return {{DType::kF32, x}};
}

void reference_grad_input(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto& a = attributes.as<Conv2dAttributes>();
  const Geometry g = geometry(a, outputs[0]->shape(), inputs[1]->shape());
  const float *dy = inputs[0]->f32().data(), *w = inputs[1]->f32().data();
  float* dx = outputs[0]->f32().data();
  for (std::int64_t n = 0; n < g.images; ++n)
    for (std::int64_t c = 0; c < g.in_channels; ++c)
      for (std::int64_t h = 0; h < g.height; ++h)
        for (std::int64_t v = 0; v < g.width; ++v) {
          float acc = 0;
          for (std::int64_t block = 0; block < g.out_channels; block += 16)
            for (std::int64_t r = 0; r < g.kernel_h; ++r)
              for (std::int64_t s = 0; s < g.kernel_w; ++s) {
                const std::int64_t ph = h + a.pad_top - r, qw = v + a.pad_left - s;
                if (ph < 0 || ph % a.stride_h != 0 || ph / a.stride_h >= g.out_h) continue;
                if (qw < 0 || qw % a.stride_w != 0 || qw / a.stride_w >= g.out_w) continue;
                const std::int64_t p = ph / a.stride_h, q = qw / a.stride_w;
                for (std::int64_t k = block; k < std::min(block + 16, g.out_channels); ++k)
                  acc =
                      std::fma(dy[((n * g.out_channels + k) * g.out_h + p) * g.out_w + q],
                               w[((k * g.in_channels + c) * g.kernel_h + r) * g.kernel_w + s], acc);
              }
          dx[((n * g.in_channels + c) * g.height + h) * g.width + v] = acc;
        }
}

Cost cost_grad_input(const Attributes& attributes, std::span<const TensorType> in,
                     std::span<const TensorType> out) {
  return conv_cost(geometry(attributes.as<Conv2dAttributes>(), out[0].shape, in[1].shape));
}

std::vector<OpSample> samples_grad_input() {
  std::vector<OpSample> list;
  for (const SampleShape& s : sample_shapes()) {
    Conv2dAttributes a = same_padding(s.images, s.weights[2], s.weights[3], s.stride);
    const Geometry g = geometry(a, s.images, s.weights);
    a.extent_h = s.images[2], a.extent_w = s.images[3];
    list.push_back(
        {a,
         {{DType::kF32, {g.images, g.out_channels, g.out_h, g.out_w}}, {DType::kF32, s.weights}}});
  }
  return list;
}

// --- gradient to weights: (x, dy) -> dw ---

Shape weight_shape(const Conv2dAttributes& a, const Shape& x, const Shape& dy) {
  return Shape{dy[1], x[1], a.extent_h, a.extent_w};
}

std::vector<TensorType> infer_grad_weight(const InferContext& context) {
  const auto& a = context.as<Conv2dAttributes>();
  const Shape &x = context.inputs[0].shape, &dy = context.inputs[1].shape;
  context.require(x.rank() == 4 && dy.rank() == 4 && x[0] == dy[0],
                  "needs x [N, C, H, W] and dy [N, K, P, Q]");
  const Shape w = weight_shape(a, x, dy);
  check(context, a, x, w);
  const Geometry g = geometry(a, x, w);
  context.require(g.out_h == dy[2] && g.out_w == dy[3], "dy ", to_string(dy),
                  " is not the output for images ", to_string(x));
  return {{DType::kF32, w}};
}

// One weight's gradient, from term(acc, image, p, q), a link of a chain: nothing is added where the
// weight meets padding.
template <typename Term>
float sum_by_images(const Geometry& g, const Term& term) {
  return lane_sum(g.images, [&](std::int64_t n) {
    return band_sum(g.out_h, [&](std::int64_t begin, std::int64_t end) {
      float acc = 0;
      for (std::int64_t p = begin; p < end; ++p)
        for (std::int64_t q = 0; q < g.out_w; ++q) acc = term(acc, n, p, q);
      return acc;
    });
  });
}
// The same of wide layers: columns (n / 16, p, q, n mod 16) in runs of 256.
template <typename Term>
float sum_by_columns(const Geometry& g, const Term& term) {
  constexpr std::int64_t kRunPixels = 16;
  const std::int64_t pixels = g.out_h * g.out_w,
                     all = (g.images + kSumLanes - 1) / kSumLanes * pixels;
  float total = 0;
  for (std::int64_t first = 0; first < all; first += kRunPixels) {
    float acc = 0;
    for (std::int64_t i = first; i < std::min(first + kRunPixels, all); ++i) {
      const std::int64_t block = i / pixels * kSumLanes, pixel = i % pixels;
      for (std::int64_t n = block; n < std::min(block + kSumLanes, g.images); ++n)
        acc = term(acc, n, pixel / g.out_w, pixel % g.out_w);
    }
    total = first == 0 ? acc : total + acc;
  }
  return total;
}

void reference_grad_weight(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto& a = attributes.as<Conv2dAttributes>();
  const Geometry g = geometry(a, inputs[0]->shape(), outputs[0]->shape());
  const float *x = inputs[0]->f32().data(), *dy = inputs[1]->f32().data();
  float* dw = outputs[0]->f32().data();
  const bool wide = conv2d_is_wide(g.in_channels, g.out_channels);
  for (std::int64_t k = 0; k < g.out_channels; ++k)
    for (std::int64_t c = 0; c < g.in_channels; ++c)
      for (std::int64_t r = 0; r < g.kernel_h; ++r)
        for (std::int64_t s = 0; s < g.kernel_w; ++s) {
          const auto term = [&](float acc, std::int64_t n, std::int64_t p, std::int64_t q) {
            const std::int64_t h = p * a.stride_h + r - a.pad_top,
                               v = q * a.stride_w + s - a.pad_left;
            if (h < 0 || h >= g.height || v < 0 || v >= g.width) return acc;
            return std::fma(dy[((n * g.out_channels + k) * g.out_h + p) * g.out_w + q],
                            x[((n * g.in_channels + c) * g.height + h) * g.width + v], acc);
          };
          const float total = wide ? sum_by_columns(g, term) : sum_by_images(g, term);
          dw[((k * g.in_channels + c) * g.kernel_h + r) * g.kernel_w + s] = total;
        }
}

Cost cost_grad_weight(const Attributes& attributes, std::span<const TensorType> in,
                      std::span<const TensorType> out) {
  return conv_cost(geometry(attributes.as<Conv2dAttributes>(), in[0].shape, out[0].shape));
}

std::vector<OpSample> samples_grad_weight() {
  std::vector<OpSample> list;
  for (const SampleShape& s : sample_shapes()) {
    Conv2dAttributes a = same_padding(s.images, s.weights[2], s.weights[3], s.stride);
    const Geometry g = geometry(a, s.images, s.weights);
    a.extent_h = s.weights[2], a.extent_w = s.weights[3];
    list.push_back(
        {a,
         {{DType::kF32, s.images}, {DType::kF32, {g.images, g.out_channels, g.out_h, g.out_w}}}});
  }
  return list;
}

}  // namespace

Conv2dAttributes same_padding(const Shape& images, std::int64_t kernel_h, std::int64_t kernel_w,
                              std::int64_t stride) {
  const auto total = [&](std::int64_t extent, std::int64_t kernel) {
    const std::int64_t out = (extent + stride - 1) / stride;
    return std::max<std::int64_t>((out - 1) * stride + kernel - extent, 0);
  };
  const std::int64_t h = total(images[2], kernel_h), w = total(images[3], kernel_w);
  return {.stride_h = stride,
          .stride_w = stride,
          .pad_top = h / 2,
          .pad_bottom = h - h / 2,
          .pad_left = w / 2,
          .pad_right = w - w / 2};
}

Value conv2d(Graph& graph, Value images, Value weights, const Conv2dAttributes& attributes,
             std::string name) {
  return graph.add1(conv2d_op, attributes, {images, weights}, std::move(name));
}

const OpDef conv2d_op = {OpKind::kConv2d, "conv2d", infer, gradient, reference, cost, samples};
const OpDef conv2d_grad_input_op = {
    OpKind::kConv2dGradInput, "conv2d_grad_input", infer_grad_input,  nullptr,
    reference_grad_input,     cost_grad_input,     samples_grad_input};
const OpDef conv2d_grad_weight_op = {
    OpKind::kConv2dGradWeight, "conv2d_grad_weight", infer_grad_weight,  nullptr,
    reference_grad_weight,     cost_grad_weight,     samples_grad_weight};

}  // namespace podium
