// Element by element, and shapes.
#include <array>

#include "compile/stablehlo/emitters.h"

namespace podium::stablehlo {
namespace {

HloValue logistic(Builder& b, const HloValue& x) {
  const HloValue one = b.constant(1, x.shape);
  return b.div(one, b.add(one, b.unary("exponential", b.unary("negate", x))));
}

// The normal distribution at x, and exp(-x^2 / 2), by base/numerics/activation.h's formula.
struct Normal {
  HloValue below, bell;
};
Normal normal(Builder& b, const HloValue& x) {
  const HloValue one = b.constant(1, x.shape);
  const HloValue a = b.unary("abs", x);
  const HloValue bell = b.unary("exponential", b.mul(b.mul(a, a), -0.5f));
  const HloValue t = b.div(one, b.add(b.mul(a, internal::kTailScale), 1));
  HloValue p = b.constant(internal::kTail.c[5], x.shape);
  for (int i = 4; i >= 0; --i) p = b.add(b.mul(p, t), internal::kTail.c[i]);
  const HloValue tail = b.mul(b.mul(p, t), bell);
  return {b.select(b.compare("GT", x, 0), b.sub(one, tail), tail), bell};
}

HloValue tanh_argument(Builder& b, const HloValue& x) {
  return b.mul(x, b.add(b.mul(b.mul(x, x), internal::kTanhCubic), internal::kTanhLinear));
}

}  // namespace

HloValue activated(Builder& b, const Activation& a, const HloValue& x) {
  switch (a.kind) {
    case ActivationKind::kNone: return x;
    case ActivationKind::kRelu: return b.select(b.compare("LE", x, 0), b.constant(0, x.shape), x);
    case ActivationKind::kLeakyRelu: return b.select(b.compare("GT", x, 0), x, b.mul(x, a.slope));
    case ActivationKind::kGelu: return b.mul(x, normal(b, x).below);
    case ActivationKind::kSilu: return b.mul(x, logistic(b, x));
    case ActivationKind::kGeluTanh: return b.mul(x, logistic(b, tanh_argument(b, x)));
  }
  return x;
}

HloValue activated_grad(Builder& b, const Activation& a, const HloValue& dy, const HloValue& x) {
  switch (a.kind) {
    case ActivationKind::kNone: return dy;
    case ActivationKind::kRelu: return b.select(b.compare("GT", x, 0), dy, b.constant(0, x.shape));
    case ActivationKind::kLeakyRelu: return b.select(b.compare("GT", x, 0), dy, b.mul(dy, a.slope));
    case ActivationKind::kGelu: {
      const Normal n = normal(b, x);
      return b.mul(dy, b.add(b.mul(b.mul(x, n.bell), internal::kInvSqrtTwoPi), n.below));
    }
    case ActivationKind::kSilu: {
      const HloValue s = logistic(b, x);
      const HloValue rest = b.sub(b.constant(1, x.shape), s);
      return b.mul(dy, b.mul(s, b.add(b.mul(x, rest), 1)));
    }
    case ActivationKind::kGeluTanh: {
      const HloValue s = logistic(b, tanh_argument(b, x));
      const HloValue slope = b.add(b.mul(b.mul(x, x), internal::kTanhSlope), internal::kTanhLinear);
      const HloValue bend = b.mul(x, b.mul(s, b.sub(b.constant(1, x.shape), s)));
      return b.mul(dy, b.add(b.mul(bend, slope), s));
    }
  }
  return dy;
}

std::vector<HloValue> emit_activate(const EmitContext& c) {
  return {activated(c.b, c.as<ActivationAttributes>().activation, c.in[0])};
}
std::vector<HloValue> emit_activate_grad(const EmitContext& c) {
  const auto& a = c.as<ActivationAttributes>();
  const HloValue dy = a.adds ? c.b.add(c.in[0], c.in[2]) : c.in[0];
  return {activated_grad(c.b, a.activation, dy, c.in[1])};
}

std::vector<HloValue> emit_add(const EmitContext& c) { return {c.b.add(c.in[0], c.in[1])}; }
std::vector<HloValue> emit_sub(const EmitContext& c) { return {c.b.sub(c.in[0], c.in[1])}; }
std::vector<HloValue> emit_mul(const EmitContext& c) { return {c.b.mul(c.in[0], c.in[1])}; }
std::vector<HloValue> emit_scale(const EmitContext& c) {
  return {c.b.mul(c.in[0], c.as<ScaleAttributes>().factor)};
}
std::vector<HloValue> emit_divide(const EmitContext& c) {
  return {c.b.div(c.in[0], c.as<DivideAttributes>().divisor)};
}
std::vector<HloValue> emit_multiply_by(const EmitContext& c) {
  return {c.b.mul(c.in[0], c.b.broadcast(c.in[1], c.out()))};
}

std::vector<HloValue> emit_fill(const EmitContext& c) {
  return {c.b.constant(c.as<FillAttributes>().value, c.out())};
}
std::vector<HloValue> emit_reshape(const EmitContext& c) { return {c.b.reshape(c.in[0], c.out())}; }
std::vector<HloValue> emit_permute(const EmitContext& c) {
  const auto& a = c.as<PermuteAttributes>();
  return {c.b.transpose(c.in[0], std::array<std::int64_t, 4>{0, a.channels, a.rows, a.columns})};
}
std::vector<HloValue> emit_pad_channels(const EmitContext& c) {
  const auto& a = c.as<PadChannelsAttributes>();
  std::vector<std::int64_t> low(static_cast<std::size_t>(c.out().rank()), 0), high = low;
  low[1] = a.before, high[1] = a.after;
  return {c.b.pad(c.in[0], low, high)};
}
std::vector<HloValue> emit_slice_channels(const EmitContext& c) {
  const auto& a = c.as<SliceChannelsAttributes>();
  return {c.b.slice(c.in[0], 1, a.first, a.count)};
}

}  // namespace podium::stablehlo
