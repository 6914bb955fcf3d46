// Operations over shapes and attributes drawn at random, for the tests of backends against the
// reference.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "base/numerics/activation.h"
#include "base/numerics/philox.h"
#include "base/numerics/view.h"
#include "ops/bf16.h"
#include "ops/op_list.h"
#include "ops/ops.h"

namespace podium {

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

inline TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

struct ConvCase {
  Conv2dAttributes attributes;
  Shape x, w, y;
};

// Any strides and paddings that the rules C1 to C4 allow, at no more work than the reference can
// do in some milliseconds.
inline ConvCase draw_conv(Draw& draw, bool winograd, bool whole_runs, double most_flops) {
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

inline Activation draw_activation(Draw& draw) {
  Activation a = kActivations[static_cast<std::size_t>(draw.in(0, std::ssize(kActivations) - 1))];
  if (a.kind == ActivationKind::kLeakyRelu) a.slope = draw.uniform(-0.5f, 1);
  return a;
}
inline Activation draw_cheap_activation(Draw& draw) {
  const Activation a = draw_activation(draw);
  return is_costly(a.kind) ? Activation{} : a;
}

// How the products of a BF16 operation are added.
inline Bf16Order draw_order(Draw& draw) {
  return kBf16Orders[static_cast<std::size_t>(draw.in(0, std::ssize(kBf16Orders) - 1))];
}

inline OpSample draw_conv_sample(Draw& draw, const OpDef& op) {
  const OpKind kind = op.kind;
  const bool winograd = kind == OpKind::kConv2dWinograd ||
                        kind == OpKind::kConv2dWinogradGradInput ||
                        kind == OpKind::kConv2dWinogradGradWeight;
  const bool bf16 = is_bf16(op);
  ConvCase c = draw_conv(draw, winograd, bf16 && draw.one_in(3), bf16 ? 6e5 : 3e6);
  if (bf16) c.attributes.order = draw_order(draw);
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

inline OpSample draw_planes(Draw& draw, Attributes attributes, int tensors, int vectors) {
  Shape shape = draw.planes();
  while (shape.elements() / shape[1] < 2) shape = draw.planes();  // C3 of batch_norm
  OpSample sample{std::move(attributes), {}};
  for (int i = 0; i < tensors; ++i) sample.inputs.push_back(f32(shape));
  for (int i = 0; i < vectors; ++i) sample.inputs.push_back(f32(Shape{shape[1]}));
  return sample;
}

// A batch norm of one of the kinds, with `tensors` that are shaped as x or as its result, dy first.
inline OpSample draw_norm(Draw& draw, int tensors, int vectors) {
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

inline OpSample draw_loss(Draw& draw, bool with_gradient) {
  const std::int64_t images = draw.images(),
                     classes = draw.one_in(10) ? draw.in(500, 2500) : draw.in(1, 70);
  OpSample sample{SoftmaxCrossEntropyAttributes{draw.one_in(2) ? 0.0f : draw.uniform(0, 0.9f)},
                  {f32(Shape{images, classes}), {DType::kI32, Shape{images}}}};
  if (with_gradient) sample.inputs.push_back(f32(Shape{images}));
  return sample;
}

// At times more rows than a backend takes at once.
inline OpSample draw_linear_loss(Draw& draw, const OpDef& op) {
  const bool bf16 = is_bf16(op);
  SoftmaxCrossEntropyAttributes a{draw.one_in(2) ? 0.0f : draw.uniform(0, 0.9f)};
  if (bf16) a.order = draw_order(draw);
  std::int64_t rows = draw.images(), classes = draw.in(1, 50), depth = draw.in(1, 12);
  if (draw.one_in(4) && !bf16) rows = draw.in(250, 300);
  if (draw.one_in(16) && bf16) rows = draw.in(1020, 1060), classes = draw.in(1, 20), depth = 1;
  OpSample sample{
      a, {f32(Shape{rows, depth}), f32(Shape{classes, depth}), {DType::kI32, Shape{rows}}}};
  const bool with_gradient =
      op.kind == OpKind::kLinearCrossEntropyGrad || op.kind == OpKind::kLinearCrossEntropyBf16Grad;
  if (with_gradient) sample.inputs.push_back(f32(Shape{rows}));
  return sample;
}

inline OpSample draw_element_wise(Draw& draw, Attributes attributes, std::size_t inputs) {
  Shape shape = draw.planes();
  if (draw.one_in(5)) shape = Shape{draw.in(1, 5000)};
  return {std::move(attributes), std::vector<TensorType>(inputs, f32(shape))};
}

inline OpSample draw_update(Draw& draw, Attributes attributes, std::size_t tensors,
                            std::size_t scalars) {
  OpSample sample{std::move(attributes), {}};
  const Shape shape{draw.one_in(3) ? draw.in(1, 40) : draw.in(1, 20000)};
  sample.inputs.assign(tensors, f32(shape));
  sample.inputs.resize(tensors + scalars, f32(Shape{}));
  return sample;
}

// A legal call of the operation; every operation of the list has a line here.
inline OpSample draw_pool(Draw& draw, OpKind kind) {
  const Shape x{draw.images(), draw.in(1, 20), draw.in(1, 12), draw.in(1, 12)};
  PoolAttributes a{draw.in(1, draw.one_in(3) ? x[2] : std::min<std::int64_t>(3, x[2])),
                   draw.in(1, draw.one_in(3) ? x[3] : std::min<std::int64_t>(3, x[3]))};
  const bool max = kind == OpKind::kMaxPool || kind == OpKind::kMaxPoolGrad;
  if (max && draw.one_in(2)) {
    a.stride_h = draw.in(1, 4), a.stride_w = draw.in(1, 4);
    a.pad_top = draw.in(0, a.window_h - 1), a.pad_bottom = draw.in(0, a.window_h - 1);
    a.pad_left = draw.in(0, a.window_w - 1), a.pad_right = draw.in(0, a.window_w - 1);
  }
  a.places = max && draw.one_in(2);
  const TensorType in = f32(x), out = f32(pooled(x, a));
  if (kind == OpKind::kMaxPool || kind == OpKind::kAvgPool) return {a, {in}};
  if (max && !a.places) return {a, {out, in}};
  a.height = x[2], a.width = x[3];
  return {a, max ? std::vector{out, out} : std::vector{out}};
}

inline OpSample draw_sample(const OpDef& op, Draw& draw) {
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
      return {MatmulAttributes{ta, tb,
                               op.kind == OpKind::kMatmulBf16 ? draw_order(draw) : Bf16Order::kAmx},
              {f32(ta ? Shape{k, m} : Shape{m, k}), f32(tb ? Shape{n, k} : Shape{k, n})}};
    }
    case OpKind::kRoundBf16: return draw_element_wise(draw, {}, 1);
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
    case OpKind::kActivateGrad: {
      const ActivationAttributes a{draw_activation(draw), draw.one_in(2)};
      return draw_element_wise(draw, a, a.adds ? 3 : 2);
    }
    case OpKind::kDropoutMask: {
      const DropoutMaskAttributes a{.rate = draw.one_in(8) ? 0.0f : draw.uniform(0, 0.99f),
                                    .seed = (std::uint64_t{draw.word()} << 32) + draw.word(),
                                    .layer = static_cast<std::uint32_t>(draw.in(0, 5)),
                                    .shape = draw.planes()};
      return {a, {{DType::kU32, Shape{}}, {DType::kU32, Shape{}}}};
    }
    case OpKind::kSoftmaxCrossEntropy: return draw_loss(draw, false);
    case OpKind::kSoftmaxCrossEntropyGrad: return draw_loss(draw, true);
    case OpKind::kLinearCrossEntropy:
    case OpKind::kLinearCrossEntropyGrad:
    case OpKind::kLinearCrossEntropyBf16:
    case OpKind::kLinearCrossEntropyBf16Grad: return draw_linear_loss(draw, op);
    case OpKind::kCorrect: return draw_loss(draw, false);
    case OpKind::kWeigh: {
      const Shape items{draw.in(1, 600)};
      return {{}, {f32(items), {DType::kI32, items}}};
    }
    case OpKind::kWeightedCount:
      return {{}, std::vector<TensorType>(3, {DType::kI32, Shape{draw.in(1, 600)}})};
    case OpKind::kBatchMean: return {{}, {f32(Shape{draw.in(1, 600)})}};
    case OpKind::kFill:
      return {FillAttributes{.value = draw.uniform(-9, 9), .shape = draw.planes()}, {}};
    case OpKind::kReshape: {
      const Shape x = draw.planes();
      const Shape flat{x[0], x.elements_from(1)};
      if (draw.one_in(3)) return {ReshapeAttributes{Shape{x.elements()}}, {f32(x)}};
      return {ReshapeAttributes{x.rank() == 4 ? flat : Shape{x[0], 1, x[1], 1}}, {f32(x)}};
    }
    case OpKind::kAdd:
    case OpKind::kSub:
    case OpKind::kMul: return draw_element_wise(draw, {}, 2);
    case OpKind::kPermute: {
      constexpr std::array<PermuteAttributes, 6> kOrders = {
          {{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}}};
      const Shape x = draw.planes();
      return {kOrders[static_cast<std::size_t>(draw.in(0, 5))],
              {f32(x.rank() == 4 ? x : Shape{x[0], x[1], 1, 1})}};
    }
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
    case OpKind::kCacheRow: {  // positions and origins are below 10
      const std::int64_t sequences = draw.in(10, 20), features = draw.in(1, 70);
      const TensorType numbers{DType::kI32, Shape{sequences}};
      return {{},
              {numbers, numbers, f32(Shape{sequences, features}),
               f32(Shape{sequences * draw.in(10, 40), features})}};
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
    case OpKind::kRotary: {
      RotaryAttributes a{.tokens = draw.in(1, 40),
                         .features = 2 * draw.in(1, 40),
                         .base = draw.of({10000.0f, 500000.0f}),
                         .inverse = draw.one_in(2)};
      const Shape x{a.tokens * draw.in(1, 3), a.features * draw.in(1, 4)};
      if (!draw.one_in(3)) return {a, {f32(x)}};
      a.tokens = x[1] + draw.in(0, 9);  // positions are below the columns
      return {a, {f32(x), {DType::kI32, Shape{x[0]}}}};
    }
    case OpKind::kLstm:
    case OpKind::kLstmGrad:
    case OpKind::kGru:
    case OpKind::kGruGrad: {
      // Of so many units as have two runs there are few sequences: the reference takes long.
      const bool many = draw.one_in(8);
      const RecurrentAttributes a{.tokens = draw.in(1, many ? 2 : 9), .reverse = draw.one_in(2)};
      const std::int64_t sequences = draw.in(1, many ? 3 : 30),
                         units = many ? draw.in(250, 270) : draw.in(1, 34);
      const TensorType hidden = f32(Shape{sequences * a.tokens, units}),
                       gates = f32(Shape{sequences * a.tokens, 4 * units}),
                       w = f32(Shape{4 * units, units}), state = f32(Shape{sequences, units}),
                       sums = f32(Shape{sequences * a.tokens, 3 * units}),
                       gru_w = f32(Shape{3 * units, units});
      if (op.kind == OpKind::kGru) return {a, {sums, gru_w, f32(Shape{3 * units}), state}};
      if (op.kind == OpKind::kGruGrad) return {a, {hidden, state, gru_w, gates, hidden}};
      if (op.kind == OpKind::kLstm) return {a, {gates, w, state, state}};
      return {a, {hidden, state, state, w, state, gates, hidden}};
    }
    case OpKind::kAttention:
    case OpKind::kAttentionGrad:
    case OpKind::kAttentionBf16:
    case OpKind::kAttentionBf16Grad: {
      AttentionAttributes a{
          .groups = draw.in(1, 3), .tokens = draw.in(1, 40), .causal = !draw.one_in(3)};
      a.heads = a.groups * draw.in(1, 3);
      if (is_bf16(op)) a.order = draw_order(draw);
      const bool gradient =
          op.kind == OpKind::kAttentionGrad || op.kind == OpKind::kAttentionBf16Grad;
      if (!a.causal && draw.one_in(2)) a.keys = draw.in(1, 40);
      const std::int64_t sequences = draw.in(1, 3), features = draw.in(1, 40),
                         keys = a.keys > 0 ? a.keys : a.tokens;
      const TensorType q = f32(Shape{sequences * a.tokens, a.heads * features}),
                       k = f32(Shape{sequences * keys, a.groups * features});
      OpSample sample{a, {q, k, k}};
      if (gradient) sample.inputs.insert(sample.inputs.begin(), q);
      if (!a.causal && draw.one_in(2)) sample.inputs.push_back({DType::kI32, Shape{sequences}});
      return sample;
    }
  }
  PODIUM_CHECK(false, "draw_sample in drawn_sample_test_util.h knows no ", op.name);
}

}  // namespace podium
