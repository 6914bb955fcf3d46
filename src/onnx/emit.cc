#include "onnx/emit.h"

#include <cmath>
#include <cstddef>
#include <numbers>

#include "ops/ops.h"

namespace podium::onnx {
namespace {

std::string emit_conv(const Emission& e) {
  const auto& a = e.as<Conv2dAttributes>();
  return e.b.node("Conv", {e.in[0], e.in[1]},
                  {{"pads", std::vector{a.pad_top, a.pad_left, a.pad_bottom, a.pad_right}},
                   {"strides", std::vector{a.stride_h, a.stride_w}}});
}

std::string emit_matmul(const Emission& e) {
  const auto& a = e.as<MatmulAttributes>();
  return e.b.node(
      "Gemm", {e.in[0], e.in[1]},
      {{"transA", std::int64_t{a.transpose_a}}, {"transB", std::int64_t{a.transpose_b}}});
}

// [C] as [C, 1, ...], which ONNX adds to [N, C, ...].
std::string emit_bias(const Emission& e) {
  std::vector<std::int64_t> extents(static_cast<std::size_t>(e.shape(0).rank() - 1), 1);
  extents.front() = e.shape(1)[0];
  return e.b.node("Add", {e.in[0], extents.size() == 1 ? e.in[1] : e.b.reshape(e.in[1], extents)});
}

std::string emit_activation(const Emission& e) {
  const Activation& activation = e.as<ActivationAttributes>().activation;
  Builder& b = e.b;
  const std::string& x = e.in[0];
  const auto times = [&](const std::string& y, float factor) {
    return b.node("Mul", {y, b.number(factor)});
  };
  const auto with_one = [&](const std::string& y) { return b.node("Add", {y, b.number(1)}); };
  switch (activation.kind) {
    case ActivationKind::kNone: return x;
    case ActivationKind::kRelu: return b.node("Relu", {x});
    case ActivationKind::kLeakyRelu: return b.node("LeakyRelu", {x}, {{"alpha", activation.slope}});
    case ActivationKind::kSilu: return b.node("Mul", {x, b.node("Sigmoid", {x})});
    case ActivationKind::kGelu: {
      const std::string erf = b.node("Erf", {times(x, 1 / std::numbers::sqrt2_v<float>)});
      return b.node("Mul", {times(x, 0.5f), with_one(erf)});
    }
    case ActivationKind::kGeluTanh: {
      const std::string cube = b.node("Mul", {b.node("Mul", {x, x}), x});
      const std::string sum = b.node("Add", {x, times(cube, 0.044715f)});
      const float scale = std::sqrt(2 / std::numbers::pi_v<float>);
      return b.node("Mul", {times(x, 0.5f), with_one(b.node("Tanh", {times(sum, scale)}))});
    }
  }
  return x;
}

std::string emit_pool(const Emission& e, const char* op) {
  const auto& a = e.as<PoolAttributes>();
  const auto step = [](std::int64_t stride, std::int64_t window) {
    return stride == 0 ? window : stride;
  };
  return e.b.node(
      op, {e.in[0]},
      {{"kernel_shape", std::vector{a.window_h, a.window_w}},
       {"strides", std::vector{step(a.stride_h, a.window_h), step(a.stride_w, a.window_w)}},
       {"pads", std::vector{a.pad_top, a.pad_left, a.pad_bottom, a.pad_right}}});
}

std::string emit_pad(const Emission& e) {
  const auto& a = e.as<PadChannelsAttributes>();
  std::vector<std::int64_t> pads(static_cast<std::size_t>(2 * e.shape(0).rank()));
  pads[1] = a.before, pads[static_cast<std::size_t>(e.shape(0).rank()) + 1] = a.after;
  return e.b.node("Pad", {e.in[0], e.b.integers(pads)});
}

std::string emit_fill(const Emission& e) {
  Builder& b = e.b;
  const auto& a = e.as<FillAttributes>();
  if (e.extents.empty() || e.extents.front() >= 0) {
    const std::vector<float> values(static_cast<std::size_t>(a.shape.elements()), a.value);
    return b.floats(a.shape, values);
  }
  const std::string batch =
      b.node("Slice", {b.node("Shape", {e.examples}), b.integers({0}), b.integers({1})});
  const std::string first = b.node("Mul", {batch, b.integers({a.shape[0] / e.rows})});
  const std::vector<std::int64_t> rest(e.extents.begin() + 1, e.extents.end());
  const std::string shape =
      b.node("Concat", {first, b.integers(rest)}, {{"axis", std::int64_t{0}}});
  return b.node("Add", {b.node("ConstantOfShape", {shape}), b.number(a.value)});
}

std::string emit_slice(const Emission& e) {
  const auto& a = e.as<SliceChannelsAttributes>();
  return e.b.node("Slice", {e.in[0], e.b.integers({a.first}), e.b.integers({a.first + a.count}),
                            e.b.integers({1})});
}

}  // namespace

Results emit(const Emission& e) {
  Builder& b = e.b;
  switch (e.node.op->kind) {
    case OpKind::kConv2d:
    case OpKind::kConv2dWinograd: return {emit_conv(e)};
    case OpKind::kMatmul: return {emit_matmul(e)};
    case OpKind::kBiasAdd: return {emit_bias(e)};
    case OpKind::kBatchNormInference:
      return {
          b.node("BatchNormalization", e.in, {{"epsilon", e.as<BatchNormAttributes>().epsilon}})};
    case OpKind::kActivate: return {emit_activation(e)};
    case OpKind::kMaxPool: return {emit_pool(e, "MaxPool")};
    case OpKind::kAvgPool: return {emit_pool(e, "AveragePool")};
    case OpKind::kFill: return {emit_fill(e)};
    case OpKind::kReshape: return {b.reshape(e.in[0], e.extents)};
    case OpKind::kPermute: {
      const auto& a = e.as<PermuteAttributes>();
      return {b.transpose(e.in[0], {0, a.channels, a.rows, a.columns})};
    }
    case OpKind::kPadChannels: return {emit_pad(e)};
    case OpKind::kSliceChannels: return {emit_slice(e)};
    case OpKind::kAdd: return {b.node("Add", e.in)};
    case OpKind::kSub: return {b.node("Sub", e.in)};
    case OpKind::kMul: return {b.node("Mul", e.in)};
    case OpKind::kScale:
      return {b.node("Mul", {e.in[0], b.number(e.as<ScaleAttributes>().factor)})};
    case OpKind::kDivide:
      return {b.node("Div", {e.in[0], b.number(e.as<DivideAttributes>().divisor)})};
    case OpKind::kEmbedding: return {emit_embedding(e)};
    case OpKind::kLayerNorm: return {emit_layer_norm(e)};
    case OpKind::kAttention: return {emit_attention(e)};
    case OpKind::kRotary: return {emit_rotary(e)};
    case OpKind::kLstm: return emit_lstm(e);
    case OpKind::kGru: return emit_gru(e);
    default: return {};
  }
}

}  // namespace podium::onnx
