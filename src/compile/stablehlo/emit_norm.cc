// Bias and batch normalisation.
#include "compile/stablehlo/emitters.h"

namespace podium::stablehlo {
namespace {

struct Affine {
  HloValue scale, shift;  // [C]
};

Affine affine_of(Builder& b, const HloValue& gamma, const HloValue& beta, const HloValue& mean,
                 const HloValue& inv_std) {
  const HloValue scale = b.mul(gamma, inv_std);
  return {scale, b.sub(beta, b.mul(mean, scale))};
}

HloValue inverse_deviation(Builder& b, const HloValue& variance, float epsilon) {
  const HloValue root = b.unary("sqrt", b.add(variance, epsilon));
  return b.div(b.constant(1, variance.shape), root);
}

// x scale + shift of each channel.
HloValue normalised(Builder& b, const HloValue& x, const Affine& affine) {
  return b.multiply_add(x, b.of_channels(affine.scale, x.shape),
                        b.of_channels(affine.shift, x.shape));
}

// What a unit puts out: activated, and added to or pooled; or scale and shift.
HloValue result_of(const EmitContext& c, const HloValue& x, const Affine& affine,
                   std::size_t added) {
  const auto& a = c.as<BatchNormAttributes>();
  Builder& b = c.b;
  if (a.defers) {
    const Shape row{1, affine.scale.shape[0]};
    const HloValue rows[] = {b.reshape(affine.scale, row), b.reshape(affine.shift, row)};
    return b.concatenate(rows, 0);
  }
  HloValue y = normalised(b, x, affine);
  if (!a.activates_sum) y = activated(b, a.activation, y);
  if (a.adds) y = b.add(y, c.in[added]);
  if (a.activates_sum) y = activated(b, a.activation, y);
  return a.pools ? largest_of_windows(b, y, {}).value : y;
}

float values_of_a_channel(const Shape& planes) {
  const std::int64_t count = planes.elements() / planes[1];
  return static_cast<float>(count);
}

}  // namespace

std::vector<HloValue> emit_bias_add(const EmitContext& c) {
  return {c.b.add(c.in[0], c.b.of_channels(c.in[1], c.out()))};
}
std::vector<HloValue> emit_channel_sum(const EmitContext& c) { return {c.b.channel_sum(c.in[0])}; }

std::vector<HloValue> emit_batch_norm(const EmitContext& c) {
  Builder& b = c.b;
  const HloValue& x = c.in[0];
  const float m = values_of_a_channel(x.shape);
  const HloValue mean = b.div(b.channel_sum(x), m);
  const HloValue square = b.div(b.channel_sum(b.mul(x, x)), m);
  const HloValue raw = b.sub(square, b.mul(mean, mean));
  const HloValue zero = b.constant(0, raw.shape);
  const HloValue variance = b.select(b.compare("LT", raw, zero), zero, raw);
  const HloValue inv_std = inverse_deviation(b, variance, c.as<BatchNormAttributes>().epsilon);
  const Affine affine = affine_of(b, c.in[1], c.in[2], mean, inv_std);
  return {result_of(c, x, affine, 3), mean, variance, inv_std};
}

std::vector<HloValue> emit_batch_norm_inference(const EmitContext& c) {
  const HloValue inv_std = inverse_deviation(c.b, c.in[4], c.as<BatchNormAttributes>().epsilon);
  return {result_of(c, c.in[0], affine_of(c.b, c.in[1], c.in[2], c.in[3], inv_std), 5)};
}

// (dy, x, gamma, beta, mean, inv_std) -> (dx, dgamma, dbeta)
std::vector<HloValue> emit_batch_norm_grad(const EmitContext& c) {
  const auto& a = c.as<BatchNormAttributes>();
  Builder& b = c.b;
  const HloValue &x = c.in[1], &mean = c.in[4], &inv_std = c.in[5];
  const Affine affine = affine_of(b, c.in[2], c.in[3], mean, inv_std);
  HloValue dy = c.in[0];
  if (a.activation.kind != ActivationKind::kNone || a.pools) {
    const HloValue z = normalised(b, x, affine);
    if (a.pools) {
      const Largest largest = largest_of_windows(b, activated(b, a.activation, z), {});
      dy = led_to_places(b, dy, largest.place, x.shape, {});
    }
    dy = activated_grad(b, a.activation, dy, z);
  }
  const float m = values_of_a_channel(x.shape);
  const HloValue centred = b.sub(x, b.of_channels(mean, x.shape));
  const HloValue dbeta = b.channel_sum(dy);
  const HloValue dgamma = b.mul(b.channel_sum(b.mul(dy, centred)), inv_std);
  const HloValue to_x = b.unary("negate", b.mul(b.mul(affine.scale, inv_std), b.div(dgamma, m)));
  const HloValue constant =
      b.sub(b.unary("negate", b.mul(to_x, mean)), b.mul(affine.scale, b.div(dbeta, m)));
  HloValue dx =
      b.add(b.mul(b.of_channels(affine.scale, x.shape), dy),
            b.multiply_add(b.of_channels(to_x, x.shape), x, b.of_channels(constant, x.shape)));
  if (a.adds) dx = b.add(dx, c.in[6]);
  return {dx, dgamma, dbeta};
}

// (old mean, old variance, mean, variance) -> (mean, variance)
std::vector<HloValue> emit_batch_norm_running(const EmitContext& c) {
  const auto& a = c.as<BatchNormRunningAttributes>();
  Builder& b = c.b;
  const float fresh = 1.0f - a.momentum;
  const float unbiased = static_cast<float>(a.count) / (static_cast<float>(a.count) - 1.0f);
  const auto moved = [&](const HloValue& old, const HloValue& value) {
    return b.add(b.mul(old, a.momentum), b.mul(value, fresh));
  };
  return {moved(c.in[0], c.in[2]), moved(c.in[1], b.mul(c.in[3], unbiased))};
}

}  // namespace podium::stablehlo
