// Convolutions and products of matrices.
#include "compile/stablehlo/emitters.h"

namespace podium::stablehlo {
namespace {

constexpr std::int64_t kImageAxes[] = {2, 3};

// The images that are convolved: where the batch norm before it defers its result, made from that
// one's input here.
HloValue images_of(const EmitContext& c) {
  const auto& a = c.as<Conv2dAttributes>();
  const HloValue& x = c.in[0];
  if (!a.normalises) return x;
  Builder& b = c.b;
  const HloValue& affine = c.in.back();
  const auto row = [&](std::int64_t i) {
    return b.of_channels(b.reshape(b.slice(affine, 0, i, 1), Shape{x.shape[1]}), x.shape);
  };
  return activated(b, a.activation, b.multiply_add(x, row(0), row(1)));
}

// The gradient to the convolution's output, led back through the pooling where there is one.
HloValue gradient_to_output(const EmitContext& c, const HloValue& dy) {
  const auto& a = c.as<Conv2dAttributes>();
  if (!a.pools) return dy;
  return led_to_places(c.b, dy, c.in[2], winograd_output(a, dy.shape), {});
}

HloValue forward(const EmitContext& c, const HloValue& x, const HloValue& w, const Shape& y) {
  const auto& a = c.as<Conv2dAttributes>();
  return c.b.convolution(x, w, "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]",
                         {.stride = {a.stride_h, a.stride_w},
                          .low = {a.pad_top, a.pad_left},
                          .high = {a.pad_bottom, a.pad_right}},
                         y);
}

// dx is the convolution of dy, zeros between its pixels, with the kernel turned around.
HloValue to_input(const EmitContext& c, const HloValue& dy, const HloValue& w) {
  const auto& a = c.as<Conv2dAttributes>();
  const Shape& x = c.out();
  const std::int64_t low[] = {w.shape[2] - 1 - a.pad_top, w.shape[3] - 1 - a.pad_left};
  HloWindow window{.low = {low[0], low[1]}, .lhs_dilation = {a.stride_h, a.stride_w}};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto axis = static_cast<std::int64_t>(i) + 2;
    const std::int64_t spread = (dy.shape[axis] - 1) * window.lhs_dilation[i] + 1;
    window.high[i] = x[axis] - 1 + w.shape[axis] - spread - low[i];
  }
  return c.b.convolution(dy, c.b.reverse(w, kImageAxes), "[b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1]",
                         window, x);
}

// dw sums over images and pixels: x's channels stand for images, dy is the kernel.
HloValue to_weight(const EmitContext& c, const HloValue& x, const HloValue& dy) {
  const auto& a = c.as<Conv2dAttributes>();
  const Shape& w = c.out();
  HloWindow window{.low = {a.pad_top, a.pad_left}, .rhs_dilation = {a.stride_h, a.stride_w}};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto axis = static_cast<std::int64_t>(i) + 2;
    const std::int64_t spread = (dy.shape[axis] - 1) * window.rhs_dilation[i] + 1;
    window.high[i] = w[axis] - 1 + spread - x.shape[axis] - window.low[i];
  }
  return c.b.convolution(x, dy, "[f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1]", window, w);
}

}  // namespace

std::vector<HloValue> emit_conv2d(const EmitContext& c) {
  return {forward(c, c.in[0], c.in[1], c.out())};
}
std::vector<HloValue> emit_conv2d_grad_input(const EmitContext& c) {
  return {to_input(c, c.in[0], c.in[1])};
}
std::vector<HloValue> emit_conv2d_grad_weight(const EmitContext& c) {
  return {to_weight(c, c.in[0], c.in[1])};
}

std::vector<HloValue> emit_conv2d_winograd(const EmitContext& c) {
  const auto& a = c.as<Conv2dAttributes>();
  const HloValue y = forward(c, images_of(c), c.in[1], winograd_output(a, c.out()));
  if (!a.pools) return {y};
  const Largest largest = largest_of_windows(c.b, y, {});
  if (!a.places) return {largest.value};
  return {largest.value, largest.place};
}
std::vector<HloValue> emit_conv2d_winograd_grad_input(const EmitContext& c) {
  return {to_input(c, gradient_to_output(c, c.in[0]), c.in[1])};
}
std::vector<HloValue> emit_conv2d_winograd_grad_weight(const EmitContext& c) {
  return {to_weight(c, images_of(c), gradient_to_output(c, c.in[1]))};
}

std::vector<HloValue> emit_matmul(const EmitContext& c) {
  const auto& t = c.as<MatmulAttributes>();
  return {c.b.product(c.in[0], c.in[1], t.transpose_a ? 0 : 1, t.transpose_b ? 1 : 0)};
}

// Operands are rounded here, and products then need no more than the device's own BF16.
namespace {
std::vector<HloValue> of_bf16(const EmitContext& c, Emitter emitter) {
  const HloValue operands[] = {c.b.rounded_to_bf16(c.in[0]), c.b.rounded_to_bf16(c.in[1])};
  const DefaultPrecision products(c.b);
  return emitter({c.b, c.node, operands});
}
}  // namespace

std::vector<HloValue> emit_conv2d_bf16(const EmitContext& c) { return of_bf16(c, emit_conv2d); }
std::vector<HloValue> emit_conv2d_bf16_grad_input(const EmitContext& c) {
  return of_bf16(c, emit_conv2d_grad_input);
}
std::vector<HloValue> emit_conv2d_bf16_grad_weight(const EmitContext& c) {
  return of_bf16(c, emit_conv2d_grad_weight);
}
std::vector<HloValue> emit_matmul_bf16(const EmitContext& c) { return of_bf16(c, emit_matmul); }
std::vector<HloValue> emit_round_bf16(const EmitContext& c) {
  return {c.b.rounded_to_bf16(c.in[0])};
}

}  // namespace podium::stablehlo
