// Every other backend against the reference interpreter, bit for bit, on every vector target of the
// CPU and with several threads: each operation over its samples, and over shapes, attributes and
// values drawn at random (seeded; PODIUM_CASES in the environment asks for more of them,
// PODIUM_CASE_SEED for others). With PODIUM_PJRT_CPU_PLUGIN defined, of pjrt alone, on that plugin.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <memory>

#include "backend/device.h"
#include "backend/operation_case.h"
#include "backend/pjrt/cpu_plugin_test_util.h"
#include "backend/reference/reference_device.h"
#include "backend/tested_devices_test_util.h"
#include "backend/variance_test_util.h"
#include "base/philox.h"
#include "ops/ops.h"

namespace podium {
namespace {

bool is_winograd(const OpDef& op) {
  return op.kind == OpKind::kConv2dWinograd || op.kind == OpKind::kConv2dWinogradGradInput ||
         op.kind == OpKind::kConv2dWinogradGradWeight;
}

// What a device of another kind computes for a Winograd convolution that is not fused: a plain one.
Graph with_plain_convolutions(const Graph& graph) {
  return with_changed_nodes(graph, [](std::int32_t, Node& node) {
    if (node.op == nullptr || !is_winograd(*node.op)) return;
    const auto& a = node.attributes.as<Conv2dAttributes>();
    if (a.pools || a.normalises) return;
    node.op = node.op->kind == OpKind::kConv2dWinograd            ? &conv2d_op
              : node.op->kind == OpKind::kConv2dWinogradGradInput ? &conv2d_grad_input_op
                                                                  : &conv2d_grad_weight_op;
  });
}

// Whether an operand says where maxima stand (max_pool's second result): numbers of 2x2 pixels.
bool holds_places(const OpDef& op, std::size_t operand) {
  return operand == 2 && (op.kind == OpKind::kConv2dWinogradGradInput ||
                          op.kind == OpKind::kConv2dWinogradGradWeight);
}
Tensor places_of(Tensor tensor) {
  for (float& x : tensor.f32()) x = std::floor(x + 2);
  return tensor;
}

// Whether an operand's values are above 0 where its operation is used.
bool is_positive(const OpDef& op, std::size_t operand) {
  switch (op.kind) {
    case OpKind::kAdamUpdate:
    case OpKind::kBatchNormInference:
    case OpKind::kBatchNormRunning: return operand >= 3;  // variances and second moments
    case OpKind::kGlobalNorm:
    case OpKind::kClipFactor:
    case OpKind::kLarsRate: return true;
    default: return false;
  }
}

OperationCase make_case(const OpDef& op, const OpSample& sample, std::uint32_t stream) {
  OperationCase c;
  std::vector<Value> values;
  const std::int64_t classes = classes_of(sample);
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const TensorType& type = sample.inputs[i];
    const bool batch = type.shape.rank() >= 1 && &op != &matmul_op && &op != &matmul_bf16_op &&
                       type.shape[0] == sample.inputs[0].shape[0] && i != 1;
    values.push_back(
        c.graph.input(cat("input", i), type, batch ? InputRole::kBatch : InputRole::kParameter));
    c.inputs.push_back(random_operand(type, stream * 16 + static_cast<std::uint32_t>(i), classes,
                                      is_positive(op, i)));
    if (holds_places(op, i)) c.inputs.back() = places_of(std::move(c.inputs.back()));
  }
  const std::vector<Value> outputs = c.graph.add(op, sample.attributes, values, "sample");
  for (std::size_t i = 0; i < outputs.size(); ++i) c.graph.output(cat("output", i), outputs[i]);
  c.graph.verify();
  return c;
}

// Whether an output of the graph says which of a convolution's pixels a pooling took. A rounding
// may decide between two that are almost equal.
bool are_places(const Graph& graph, std::size_t output) {
  const Value value = graph.outputs()[output].value;
  const Node& node = graph.node(value);
  return value.output == 1 && node.op != nullptr && is_winograd(*node.op);
}
std::int64_t differing(const Tensor& a, const Tensor& b) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < a.f32().size(); ++i) count += a.f32()[i] != b.f32()[i] ? 1 : 0;
  return count;
}

// What a device computes otherwise than the reference, beyond what its traits allow; empty:
// nothing.
std::string difference_from_reference(Device& device, const OperationCase& c) {
  Traits allowed = device.traits();
  for (const Node& node : c.graph.nodes())
    if (node.op != nullptr && is_bf16(*node.op) && !allowed.bf16_family.empty()) {
      allowed.exact_fp32 = false;
      allowed.tolerance = allowed.bf16_tolerance;
    }
  const Graph graph = allowed.exact_fp32 ? c.graph : with_plain_convolutions(c.graph);
  const std::vector<Tensor> expected = interpret(graph, c.inputs);
  const std::vector<std::string> targets = ways_to_run(device);
  for (const Node& node : graph.nodes())
    if (node.op != nullptr && is_winograd(*node.op))
      allowed.tolerance = std::max(allowed.tolerance, allowed.winograd_tolerance);
  allowed.tolerance += growth_of_variance(graph, expected);
  for (const std::string& target : targets) {
    choose_way(device, target);
    const std::vector<Tensor> actual = run_case(device, c, {});
    for (std::size_t o = 0; o < actual.size(); ++o) {
      if (!allowed.exact_fp32 && are_places(graph, o) &&
          differing(actual[o], expected[o]) * 1000 < actual[o].elements())
        continue;
      const std::string found = first_beyond(allowed, actual[o], expected[o]);
      if (!found.empty())
        return cat("output ", o, " on ", device.name(), " ", target, ", ", device.options().threads,
                   " threads: ", found);
    }
  }
  return "";
}

void expect_reference(std::span<const std::unique_ptr<Device>> devices, const OperationCase& c,
                      const std::string& what) {
  for (const auto& device : devices) ASSERT_EQ(difference_from_reference(*device, c), "") << what;
}

// --- random cases

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : words_(seed, RandomPurpose::kInitialise, 99) {}
  std::uint32_t word() { return words_.word(next_++); }
  std::int64_t in(std::int64_t low, std::int64_t high) {  // both included
    return low + uniform_below(word(), static_cast<std::uint32_t>(high - low + 1));
  }
  bool one_in(std::int64_t n) { return in(1, n) == 1; }
  float uniform(float low, float high) { return low + (high - low) * uniform01(word()); }
  template <typename T>
  T of(std::initializer_list<T> values) {
    return values.begin()[in(0, static_cast<std::int64_t>(values.size()) - 1)];
  }
  // Images of a replica: around the multiples of sixteen as often as anywhere.
  std::int64_t images() {
    return one_in(2) ? in(1, 50) : std::max<std::int64_t>(of({16, 32, 48}) + in(-1, 1), 1);
  }
  Shape planes() {
    if (one_in(3)) return Shape{images(), in(1, 60)};
    if (one_in(6)) return Shape{in(1, 20), in(1, 3), in(30, 200), in(1, 5)};
    return Shape{images(), in(1, 20), in(1, 10), in(1, 10)};
  }

 private:
  PhiloxStream words_;
  std::uint32_t next_ = 0;
};

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

struct ConvCase {
  Conv2dAttributes attributes;
  Shape x, w, y;
};

// Any strides and paddings that the rules C1 to C4 allow, at no more work than the reference can
// do in some milliseconds.
ConvCase draw_conv(Draw& draw, bool winograd, bool whole_runs, double most_flops) {
  while (true) {
    ConvCase c;
    Conv2dAttributes& a = c.attributes;
    a.stride_h = draw.in(1, 3), a.stride_w = draw.one_in(2) ? a.stride_h : draw.in(1, 3);
    const std::int64_t r = winograd ? 3 * a.stride_h : draw.in(1, 6),
                       s = winograd ? 3 * a.stride_w : draw.in(1, 6);
    a.pad_top = draw.in(0, r - 1), a.pad_bottom = draw.in(0, r - 1);
    a.pad_left = draw.in(0, s - 1), a.pad_right = draw.in(0, s - 1);
    c.x = Shape{draw.images(), draw.one_in(4) ? draw.in(17, 70) : draw.in(1, 16), draw.in(1, 14),
                draw.in(1, 14)};
    c.w = Shape{draw.one_in(4) ? draw.in(17, 70) : draw.in(1, 16), c.x[1], r, s};
    if (!winograd && draw.one_in(3)) {  // wide, and of one pixel or three as a rule
      c.w = Shape{16 * draw.in(1, 5), draw.in(16, 70), draw.of({1, 1, 3}), draw.of({1, 1, 3})};
      c.x = Shape{c.x[0], c.w[1], c.x[2], c.x[3]};
      a.pad_top = std::min(a.pad_top, c.w[2] - 1),
      a.pad_bottom = std::min(a.pad_bottom, c.w[2] - 1);
      a.pad_left = std::min(a.pad_left, c.w[3] - 1),
      a.pad_right = std::min(a.pad_right, c.w[3] - 1);
    } else if (!winograd && draw.one_in(6)) {
      c.x = Shape{c.x[0], draw.in(1, 3), draw.in(33, 150), c.x[3]};
      c.w = Shape{draw.in(1, 4), c.x[1], r, s};
    }
    if (whole_runs) {
      c.w = Shape{32 * draw.in(1, 2), 32 * draw.in(1, 2), c.w[2], c.w[3]};
      c.x = Shape{c.x[0], c.w[1], c.x[2], c.x[3]};
    }
    try {
      const Attributes attributes = a;
      const std::vector<TensorType> inputs = {f32(c.x), f32(c.w)};
      c.y = conv2d_op.infer({"", attributes, inputs})[0].shape;
      if (conv2d_op.cost(attributes, inputs, {}).flops < most_flops) return c;
    } catch (const UserError&) {  // does not fit: another one
    }
  }
}

Activation draw_activation(Draw& draw) {
  Activation a = kActivations[static_cast<std::size_t>(draw.in(0, std::ssize(kActivations) - 1))];
  if (a.kind == ActivationKind::kLeakyRelu) a.slope = draw.uniform(-0.5f, 1);
  return a;
}
Activation draw_cheap_activation(Draw& draw) {
  const Activation a = draw_activation(draw);
  return is_costly(a.kind) ? Activation{} : a;
}

OpSample draw_conv_sample(Draw& draw, const OpDef& op) {
  const OpKind kind = op.kind;
  const bool winograd = kind == OpKind::kConv2dWinograd ||
                        kind == OpKind::kConv2dWinogradGradInput ||
                        kind == OpKind::kConv2dWinogradGradWeight;
  const bool bf16 = is_bf16(op);
  ConvCase c = draw_conv(draw, winograd, bf16 && draw.one_in(3), bf16 ? 6e5 : 3e6);
  if (kind == OpKind::kConv2dWinograd && winograd_pools(c.attributes, c.x, c.y)) {
    c.attributes.pools = draw.one_in(2);
    c.attributes.places = c.attributes.pools && draw.one_in(2);
  }
  const bool may_normalise =
      kind == OpKind::kConv2dWinograd ||
      (kind == OpKind::kConv2dWinogradGradWeight && winograd_is_wide(c.attributes, c.x, c.w[0]));
  if (may_normalise && draw.one_in(2)) {
    c.attributes.normalises = true;
    c.attributes.activation = draw_cheap_activation(draw);
  }
  const TensorType affine = f32(Shape{2, c.x[1]});
  if (kind == OpKind::kConv2d || kind == OpKind::kConv2dBf16 || kind == OpKind::kConv2dWinograd) {
    OpSample sample{c.attributes, {f32(c.x), f32(c.w)}};
    if (c.attributes.normalises) sample.inputs.push_back(affine);
    return sample;
  }
  const bool to_input = kind == OpKind::kConv2dGradInput || kind == OpKind::kConv2dBf16GradInput ||
                        kind == OpKind::kConv2dWinogradGradInput;
  c.attributes.extent_h = to_input ? c.x[2] : c.w[2];
  c.attributes.extent_w = to_input ? c.x[3] : c.w[3];
  TensorType y = f32(c.y);
  OpSample sample;
  if (winograd && c.y[2] % 2 == 0 && c.y[3] % 2 == 0) {
    c.attributes.pools = true;
    y.shape = pooled(c.y);
  }
  sample.attributes = c.attributes;
  sample.inputs = to_input ? std::vector{y, f32(c.w)} : std::vector{f32(c.x), y};
  if (c.attributes.pools) sample.inputs.push_back(y);
  if (c.attributes.normalises) sample.inputs.push_back(affine);
  return sample;
}

OpSample draw_planes(Draw& draw, Attributes attributes, int tensors, int vectors) {
  Shape shape = draw.planes();
  while (shape.elements() / shape[1] < 2) shape = draw.planes();  // C3 of batch_norm
  OpSample sample{std::move(attributes), {}};
  for (int i = 0; i < tensors; ++i) sample.inputs.push_back(f32(shape));
  for (int i = 0; i < vectors; ++i) sample.inputs.push_back(f32(Shape{shape[1]}));
  return sample;
}

// A batch norm of one of the kinds, with `tensors` that are shaped as x or as its result, dy first.
OpSample draw_norm(Draw& draw, int tensors, int vectors) {
  BatchNormAttributes a{.epsilon = draw.of({1e-3f, 1e-5f, 0.1f}),
                        .activation = draw_activation(draw)};
  OpSample sample = draw_planes(draw, a, tensors, vectors);
  if (tensors == 1 && draw.one_in(5)) {
    a.defers = true;
    sample.attributes = a;
  }
  if (a.defers || !draw.one_in(4)) return sample;
  a.pools = true;
  sample.attributes = a;
  const Shape x{draw.images(), sample.inputs.back().shape[0], 2 * draw.in(1, 8), 2 * draw.in(1, 8)};
  for (int i = 0; i < tensors; ++i) sample.inputs[static_cast<std::size_t>(i)] = f32(x);
  if (tensors == 2) sample.inputs[0] = f32(pooled(x));
  return sample;
}

OpSample draw_loss(Draw& draw, bool with_gradient) {
  const std::int64_t images = draw.images(), classes = draw.in(1, 70);
  OpSample sample{SoftmaxCrossEntropyAttributes{draw.one_in(2) ? 0.0f : draw.uniform(0, 0.9f)},
                  {f32(Shape{images, classes}), {DType::kI32, Shape{images}}}};
  if (with_gradient) sample.inputs.push_back(f32(Shape{images}));
  return sample;
}

OpSample draw_element_wise(Draw& draw, Attributes attributes, std::size_t inputs) {
  Shape shape = draw.planes();
  if (draw.one_in(5)) shape = Shape{draw.in(1, 5000)};
  return {std::move(attributes), std::vector<TensorType>(inputs, f32(shape))};
}

OpSample draw_update(Draw& draw, Attributes attributes, std::size_t tensors, std::size_t scalars) {
  OpSample sample{std::move(attributes), {}};
  const Shape shape{draw.one_in(3) ? draw.in(1, 40) : draw.in(1, 20000)};
  sample.inputs.assign(tensors, f32(shape));
  sample.inputs.resize(tensors + scalars, f32(Shape{}));
  return sample;
}

// A legal call of the operation; every operation of the list has a line here.
OpSample draw_pool(Draw& draw, OpKind kind) {
  const Shape x{draw.images(), draw.in(1, 20), draw.in(1, 12), draw.in(1, 12)};
  PoolAttributes a{draw.in(1, draw.one_in(3) ? x[2] : std::min<std::int64_t>(3, x[2])),
                   draw.in(1, draw.one_in(3) ? x[3] : std::min<std::int64_t>(3, x[3]))};
  const bool max = kind == OpKind::kMaxPool || kind == OpKind::kMaxPoolGrad;
  if (max && draw.one_in(2)) {
    a.stride_h = draw.in(1, 4), a.stride_w = draw.in(1, 4);
    a.pad_top = draw.in(0, a.window_h - 1), a.pad_bottom = draw.in(0, a.window_h - 1);
    a.pad_left = draw.in(0, a.window_w - 1), a.pad_right = draw.in(0, a.window_w - 1);
  }
  a.places = kind == OpKind::kMaxPool && a.tiles() && draw.one_in(2);
  const TensorType in = f32(x), out = f32(pooled(x, a));
  if (kind == OpKind::kMaxPoolGrad) return {a, {out, in}};
  if (kind != OpKind::kAvgPoolGrad) return {a, {in}};
  a.height = x[2], a.width = x[3];
  return {a, {out}};
}

OpSample draw_sample(const OpDef& op, Draw& draw) {
  switch (op.kind) {
    case OpKind::kConv2d:
    case OpKind::kConv2dGradInput:
    case OpKind::kConv2dGradWeight:
    case OpKind::kConv2dBf16:
    case OpKind::kConv2dBf16GradInput:
    case OpKind::kConv2dBf16GradWeight:
    case OpKind::kConv2dWinograd:
    case OpKind::kConv2dWinogradGradInput:
    case OpKind::kConv2dWinogradGradWeight: return draw_conv_sample(draw, op);
    case OpKind::kMatmul:
    case OpKind::kMatmulBf16: {
      const std::int64_t m = draw.images(), n = draw.in(1, 70),
                         k = draw.one_in(3) ? draw.in(250, 600) : draw.in(1, 80);
      const bool ta = draw.one_in(2), tb = draw.one_in(2);
      return {MatmulAttributes{ta, tb},
              {f32(ta ? Shape{k, m} : Shape{m, k}), f32(tb ? Shape{n, k} : Shape{k, n})}};
    }
    case OpKind::kBiasAdd: return draw_planes(draw, {}, 1, 1);
    case OpKind::kChannelSum: return draw_planes(draw, {}, 1, 0);
    case OpKind::kBatchNorm: return draw_norm(draw, 1, 2);
    case OpKind::kBatchNormGrad: return draw_norm(draw, 2, 4);
    case OpKind::kBatchNormInference: return draw_norm(draw, 1, 4);
    case OpKind::kBatchNormRunning: {
      const Attributes a = BatchNormRunningAttributes{
          .momentum = draw.of({0.0f, 1.0f, 0.9f, draw.uniform(0, 1)}), .count = draw.in(2, 10000)};
      return {a, std::vector<TensorType>(4, f32(Shape{draw.in(1, 100)}))};
    }
    case OpKind::kMaxPool:
    case OpKind::kMaxPoolGrad:
    case OpKind::kAvgPool:
    case OpKind::kAvgPoolGrad: return draw_pool(draw, op.kind);
    case OpKind::kActivate:
      return draw_element_wise(draw, ActivationAttributes{draw_activation(draw)}, 1);
    case OpKind::kActivateGrad:
      return draw_element_wise(draw, ActivationAttributes{draw_activation(draw)}, 2);
    case OpKind::kDropoutMask: {
      const DropoutMaskAttributes a{.rate = draw.one_in(8) ? 0.0f : draw.uniform(0, 0.99f),
                                    .seed = (std::uint64_t{draw.word()} << 32) + draw.word(),
                                    .layer = static_cast<std::uint32_t>(draw.in(0, 5)),
                                    .shape = draw.planes()};
      return {a, {{DType::kU32, Shape{}}, {DType::kU32, Shape{}}}};
    }
    case OpKind::kSoftmaxCrossEntropy: return draw_loss(draw, false);
    case OpKind::kSoftmaxCrossEntropyGrad: return draw_loss(draw, true);
    case OpKind::kCorrect: return draw_loss(draw, false);
    case OpKind::kBatchMean: return {{}, {f32(Shape{draw.in(1, 600)})}};
    case OpKind::kFill:
      return {FillAttributes{.value = draw.uniform(-9, 9), .shape = draw.planes()}, {}};
    case OpKind::kReshape: {
      const Shape x = draw.planes();
      const Shape flat{x[0], x.elements_from(1)};
      return {ReshapeAttributes{x.rank() == 4 ? flat : Shape{x[0], 1, x[1], 1}}, {f32(x)}};
    }
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kMul: return draw_element_wise(draw, {}, 2);
    case OpKind::kPadChannels:
      return {PadChannelsAttributes{draw.in(0, 20), draw.in(0, 20)}, {f32(draw.planes())}};
    case OpKind::kSliceChannels: {
      const Shape x = draw.planes();
      const std::int64_t count = draw.in(1, x[1]);
      return {SliceChannelsAttributes{draw.in(0, x[1] - count), count}, {f32(x)}};
    }
    case OpKind::kScale: return draw_element_wise(draw, ScaleAttributes{draw.uniform(-3, 3)}, 1);
    case OpKind::kSgdUpdate:
      return draw_update(draw,
                         SgdAttributes{.momentum = draw.of({0.0f, 0.9f, draw.uniform(0, 1)}),
                                       .weight_decay = draw.of({0.0f, 5e-4f}),
                                       .nesterov = draw.one_in(2)},
                         3, 1);
    case OpKind::kRescale:
      return draw_update(draw, RescaleAttributes{draw.uniform(0, 20), draw.of({0.0f, 1e-7f})}, 1,
                         0);
    case OpKind::kCombine:
      return draw_update(draw, CombineAttributes{draw.uniform(-4, 4), draw.of({1.0f, 2.03f})}, 2,
                         0);
    case OpKind::kDescend: return draw_update(draw, {}, 2, 1);
    case OpKind::kAdamUpdate: {
      const AdamAttributes a{.beta1 = draw.uniform(0, 1),
                             .beta2 = draw.uniform(0, 1),
                             .epsilon = draw.of({1e-8f, 1e-3f}),
                             .weight_decay = draw.of({0.0f, 5e-4f}),
                             .decoupled = draw.one_in(2)};
      return draw_update(draw, a, 4, a.decoupled ? 3 : 2);
    }
    case OpKind::kDivide:
      return draw_element_wise(
          draw, DivideAttributes{static_cast<float>(draw.in(1, 20)) * draw.of({1.0f, -0.3f})}, 1);
    case OpKind::kMultiplyBy: {
      OpSample sample = draw_element_wise(draw, {}, 1);
      sample.inputs.push_back(f32(Shape{}));
      return sample;
    }
    case OpKind::kSquareSums: return draw_update(draw, {}, 1, 0);
    case OpKind::kGlobalNorm: {
      GlobalNormAttributes a{{0}};
      for (std::int64_t i = draw.in(1, 20); i > 0; --i)
        a.first_runs.push_back(a.first_runs.back() + (draw.one_in(2) ? 1 : draw.in(1, 40)));
      return {a, {f32(Shape{a.first_runs.back()})}};
    }
    case OpKind::kClipFactor: return {ClipFactorAttributes{draw.uniform(0.1f, 2)}, {f32(Shape{})}};
    case OpKind::kLarsRate:
      return {LarsRateAttributes{draw.uniform(0.001f, 2), draw.of({0.0f, 2e-4f})},
              std::vector<TensorType>(3, f32(Shape{}))};
    case OpKind::kHashSum: {
      const HashSumAttributes a{2 * ((std::uint64_t{draw.word()} << 16) + draw.word())};
      return {a, {f32(Shape{draw.one_in(3) ? draw.in(1, 40) : draw.in(1, 200000)})}};
    }
    case OpKind::kArgmax: return {{}, {f32(Shape{draw.images(), draw.in(1, 70)})}};
    case OpKind::kView: {
      const std::int64_t views = draw.of({1, 2, 6, 6}), least = views == 6 ? 2 : 1;
      const Shape x{draw.images(), draw.in(1, 4), draw.in(least, 20), draw.in(least, 20)};
      return {ViewAttributes{views, draw.in(0, views - 1)}, {f32(x)}};
    }
    case OpKind::kEmbedding:
    case OpKind::kEmbeddingGrad: {
      const Shape tokens{draw.in(1, 6), draw.in(1, 60)};
      const std::int64_t columns = draw.in(1, 70), rows = tokens[1] + draw.in(0, 30);
      const bool gradient = op.kind == OpKind::kEmbeddingGrad;
      return {EmbeddingAttributes{.positions = draw.one_in(4), .rows = gradient ? rows : 0},
              {{DType::kI32, tokens},
               f32(gradient ? Shape{tokens.elements(), columns} : Shape{rows, columns})}};
    }
    case OpKind::kLayerNorm:
    case OpKind::kLayerNormGrad: {
      const TensorType x = f32(Shape{draw.one_in(5) ? draw.in(200, 600) : draw.images(),
                                     draw.in(1, 70)}),
                       channels = f32(Shape{x.shape[1]});
      const LayerNormAttributes a{.epsilon = draw.of({0.0f, 1e-5f, 0.5f}),
                                  .centred = draw.one_in(2)};
      if (op.kind == OpKind::kLayerNormGrad) return {a, {x, x, channels}};
      OpSample sample{a, std::vector<TensorType>(a.centred ? 3 : 2, channels)};
      sample.inputs[0] = x;
      return sample;
    }
    case OpKind::kAttention:
    case OpKind::kAttentionGrad: {
      AttentionAttributes a{
          .groups = draw.in(1, 3), .tokens = draw.in(1, 40), .causal = !draw.one_in(3)};
      a.heads = a.groups * draw.in(1, 3);
      const std::int64_t rows = a.tokens * draw.in(1, 3), features = draw.in(1, 40);
      const TensorType q = f32(Shape{rows, a.heads * features}),
                       k = f32(Shape{rows, a.groups * features});
      if (op.kind == OpKind::kAttentionGrad) return {a, {q, q, k, k}};
      return {a, {q, k, k}};
    }
  }
  PODIUM_CHECK(false, "draw_sample in conformance_test.cc knows no ", op.name);
}

// What the values of a case are like: around zero; half of them zeros of both signs; of very
// different sizes; with infinities, NaN and denormals among them.
enum class Values : std::uint8_t { kPlain, kSparse, kWide, kSpecial };

void draw_values(Draw& draw, Values values, bool positive, Tensor& tensor) {
  if (tensor.dtype() != DType::kF32 || values == Values::kPlain) return;
  for (float& x : tensor.f32()) {
    if (values == Values::kSparse && draw.one_in(2)) x = std::copysign(0.0f, x);
    if (values == Values::kWide) x = std::ldexp(x, static_cast<int>(draw.in(-30, 30)));
    if (values == Values::kSpecial && draw.one_in(40)) {
      x = draw.of({std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                   std::numeric_limits<float>::quiet_NaN(), 1e-40f, -3e-39f,
                   std::numeric_limits<float>::max(), -0.0f});
    }
    if (positive) x = std::abs(x);
  }
}

// The case of a sample, with its values; images and matrices are half of the time what an operation
// before them made, as in a network, where a backend may hold them in another layout.
OperationCase draw_case(const OpDef& op, const OpSample& sample, Draw& draw, Values kind) {
  OperationCase c;
  std::vector<Value> values;
  const std::int64_t classes = classes_of(sample);
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const TensorType& type = sample.inputs[i];
    const bool positive = is_positive(op, i);
    Value value = c.graph.input(cat("input", i), type, InputRole::kBatch);
    c.inputs.push_back(random_operand(type, draw.word() & 0xffffff, classes, positive));
    if (holds_places(op, i)) {
      c.inputs.back() = places_of(std::move(c.inputs.back()));
      values.push_back(value);
      continue;
    }
    draw_values(draw, kind, positive, c.inputs.back());
    const bool images = type.shape.rank() == 2 || type.shape.rank() == 4;
    if (type.dtype == DType::kF32 && images && draw.one_in(2)) {
      const TensorType bias = f32(Shape{type.shape[1]});
      value = bias_add(c.graph, value, c.graph.input(cat("bias", i), bias, InputRole::kParameter));
      c.inputs.push_back(random_operand(bias, draw.word() & 0xffffff, classes, false));
      // -0 changes no value; anything else leaves values in the lanes beyond the last image.
      if (draw.one_in(2)) std::ranges::fill(c.inputs.back().f32(), -0.0f);
    }
    values.push_back(value);
  }
  const std::vector<Value> outputs = c.graph.add(op, sample.attributes, values, "drawn");
  for (std::size_t i = 0; i < outputs.size(); ++i) c.graph.output(cat("output", i), outputs[i]);
  c.graph.verify();
  return c;
}

#ifdef PODIUM_PJRT_CPU_PLUGIN
constexpr int kCases = 0;  // each is compiled, which takes long
#else
constexpr int kCases = 64;
#endif

int number_from(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

class Conformance : public testing::TestWithParam<const OpDef*> {
#ifdef PODIUM_PJRT_CPU_PLUGIN
  void SetUp() override {
    if (!pjrt::use_cpu_plugin()) GTEST_SKIP() << pjrt::kNoCpuPlugin;
  }
#endif
  void TearDown() override { cpu::set_vector_target(cpu::vector_targets().front()); }
};

TEST_P(Conformance, backends_return_the_bits_of_the_reference) {
  const OpDef& op = *GetParam();
  const auto backends = tested_devices();
  const std::vector<OpSample> samples = op.samples();
  ASSERT_FALSE(samples.empty());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    ASSERT_NO_FATAL_FAILURE(
        expect_reference(backends, make_case(op, samples[i], static_cast<std::uint32_t>(i)),
                         cat(op.name, " sample ", i, " {", samples[i].attributes.text(), "}")));
  }
}

TEST_P(Conformance, backends_return_the_bits_of_the_reference_for_random_shapes_and_values) {
  const OpDef& op = *GetParam();
  const auto backends = tested_devices();
  const int cases = number_from("PODIUM_CASES", kCases);
  const auto seed = static_cast<std::uint64_t>(number_from("PODIUM_CASE_SEED", 1));
  for (int i = 0; i < cases; ++i) {
    Draw draw((seed << 32) + static_cast<std::uint64_t>(i) * 256 +
              static_cast<std::uint64_t>(op.kind));
    const auto values = i % 2 == 0 ? Values::kPlain : static_cast<Values>(1 + i / 2 % 3);
    const OpSample sample = draw_sample(op, draw);
    std::string shapes;
    for (const TensorType& type : sample.inputs) shapes += to_string(type) + " ";
    ASSERT_NO_FATAL_FAILURE(
        expect_reference(backends, draw_case(op, sample, draw, values),
                         cat(op.name, " case ", i, " {", sample.attributes.text(), "} of ", shapes,
                             "values ", static_cast<int>(values))));
  }
}

// Whether any sample of the operation tells the device from the reference.
[[maybe_unused]] bool tells_apart(const OpDef& op, Device& device) {
  const std::vector<OpSample> samples = op.samples();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const OperationCase c = make_case(op, samples[i], static_cast<std::uint32_t>(i));
    if (!difference_from_reference(device, c).empty()) return true;
  }
  return false;
}

#ifdef PODIUM_PJRT_CPU_PLUGIN
INSTANTIATE_TEST_SUITE_P(Pjrt, Conformance, testing::ValuesIn(all_ops().begin(), all_ops().end()),
                         [](const auto& tested) { return std::string(tested.param->name); });
#else
// The controls: what these tests are for, they find.
TEST_P(Conformance, finds_one_bit_that_a_device_changed) {
  const auto device = make_detached_device({}, {.fault = Fault::kBit, .period = 1});
  EXPECT_TRUE(tells_apart(*GetParam(), *device));
}

TEST(ConformanceControl, finds_a_sum_in_another_order) {
  const auto device = make_detached_device({}, {.fault = Fault::kOrder, .period = 1});
  EXPECT_TRUE(tells_apart(matmul_op, *device));
}

TEST(ConformanceControl, allows_a_device_that_is_no_exact_one_its_tolerance_and_no_more) {
  const auto reorders = [](float tolerance) {
    return make_detached_device({}, {.fault = Fault::kOrder,
                                     .period = 1,
                                     .traits = {.exact_fp32 = false, .tolerance = tolerance}});
  };
  EXPECT_FALSE(tells_apart(matmul_op, *reorders(1e-5f)));
  EXPECT_TRUE(tells_apart(matmul_op, *reorders(0)));
}

INSTANTIATE_TEST_SUITE_P(AllOps, Conformance, testing::ValuesIn(all_ops().begin(), all_ops().end()),
                         [](const auto& tested) { return std::string(tested.param->name); });
#endif

}  // namespace
}  // namespace podium
