// Batch normalisation against its plain formulas in double (bounds_test.h says how).
#include "ops/plain_test_util.h"

namespace podium {
namespace {

// No activation is steeper than 1.13 (GELU), and no derivative's slope is above 0.8.
Bounded activated(const BatchNormAttributes& a, Bounded y) {
  if (a.activation.kind == ActivationKind::kNone) return y;
  return rounded(activation_of(a.activation, y.value),
                 1.13 * y.error + function_error(a.activation) * std::abs(y.value));
}

// With the operand that is added to it, where there is one.
Bounded plus(const BatchNormAttributes& a, const std::vector<Tensor>& in, std::size_t operand,
             std::size_t i, Bounded value) {
  return a.adds ? value + Bounded(in[operand].f32()[i]) : value;
}

bool has_corner(const Activation& a) {
  return a.kind == ActivationKind::kRelu || a.kind == ActivationKind::kLeakyRelu;
}

// dy led back through the activation of y.
Bounded led_back(const Activation& a, double dy, Bounded y) {
  if (a.kind == ActivationKind::kNone) return dy;
  const double slope_error =
      has_corner(a) ? 0 : 0.8 * y.error + (1 + std::abs(y.value)) * function_error(a);
  return rounded(dy * derivative_of(a, y.value), std::abs(dy) * slope_error);
}

// Statistics off zero, where the contract's E[x^2] - E[x]^2 loses digits and the bound must say so.
std::vector<Tensor> norm_inputs(const OpSample& sample, std::uint32_t stream) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i)
    inputs.push_back(random_f32(sample.inputs[i].shape, ++stream, i == 0 ? -1 : 0.5, 2));
  return inputs;
}

TEST(PlainFormula, batch_norm) {
  std::uint32_t stream = 400;
  for (const OpSample& sample : batch_norm_op.samples()) {
    const auto& a = sample.attributes.as<BatchNormAttributes>();
    const std::vector<Tensor> in = norm_inputs(sample, stream += 10);
    const auto x = in[0].f32();
    const Planes p = planes_of(in[0].shape());
    const double m = static_cast<double>(p.images * p.pixels());
    std::vector<Bounded> y(x.size()), means, variances, inv_stds;
    for (std::int64_t c = 0; c < p.channels; ++c) {
      const std::vector<std::size_t> indices = channel_indices(p, c);
      // As on paper: two passes.
      double mean = 0, variance = 0;
      for (const std::size_t i : indices) mean += x[i] / m;
      for (const std::size_t i : indices) variance += (x[i] - mean) * (x[i] - mean) / m;
      const double inv_std = 1 / std::sqrt(variance + a.epsilon);
      // As in the contract.
      SumBound s1, s2;
      for (const std::size_t i : indices) s1.add(x[i]), s2.add(double{x[i]} * x[i]);
      const Bounded mean_b = s1.bound(channel_depth(p)) / Bounded(m);
      // Cutting off below 0 brings it nearer to the exact variance.
      const Bounded variance_b = fma(-mean_b, mean_b, s2.bound(channel_depth(p)) / Bounded(m));
      const Bounded inv_std_b = Bounded(1) / sqrt(variance_b + Bounded(a.epsilon));
      const Bounded scale = Bounded(in[1].f32()[u(c)]) * inv_std_b;
      const Bounded shift = fma(-mean_b, scale, in[2].f32()[u(c)]);
      for (const std::size_t i : indices) {
        const double exact = in[1].f32()[u(c)] * ((x[i] - mean) * inv_std) + in[2].f32()[u(c)];
        y[i] = plus(a, in, 3, i, activated(a, {exact, fma(x[i], scale, shift).error}));
      }
      means.emplace_back(mean, mean_b.error);
      variances.emplace_back(variance, variance_b.error);
      inv_stds.emplace_back(inv_std, inv_std_b.error);
    }
    const std::vector<Tensor> out = run_reference(batch_norm_op, sample.attributes, in);
    const std::string what = name_of(batch_norm_op, sample);
    // Two values near each other make a small variance, of which little is exact.
    expect_within(out[0], y, what + " y", a.activation.kind == ActivationKind::kNone ? 1e-3 : 0.02);
    expect_within(out[1], means, what + " mean");
    expect_within(out[2], variances, what + " variance");
    expect_within(out[3], inv_stds, what + " inv_std");
  }
}

TEST(PlainFormula, batch_norm_grad) {
  std::uint32_t stream = 600;
  for (const OpSample& sample : batch_norm_grad_op.samples()) {
    const auto& a = sample.attributes.as<BatchNormAttributes>();
    std::vector<Tensor> in = norm_inputs(sample, stream += 10);
    const auto dy = in[0].f32(), x = in[1].f32();
    const Planes p = planes_of(in[0].shape());
    const double m = static_cast<double>(p.images * p.pixels());
    std::vector<Bounded> dx(x.size()), dgammas, dbetas;
    for (std::int64_t c = 0; c < p.channels; ++c) {
      const double gamma = in[2].f32()[u(c)], beta = in[3].f32()[u(c)] - 1.5,
                   mean = in[4].f32()[u(c)], inv_std = in[5].f32()[u(c)];
      in[3].f32()[u(c)] = static_cast<float>(beta);  // about half of the outputs above zero
      const Bounded scale = Bounded(gamma) * Bounded(inv_std);
      const Bounded shift = fma(-Bounded(mean), scale, in[3].f32()[u(c)]);
      const std::vector<std::size_t> indices = channel_indices(p, c);
      double sum_dy = 0, sum_dyx = 0;
      SumBound s1, s2;
      for (const std::size_t i : indices) {
        const Bounded y = fma(x[i], scale, shift);
        // Where the side of the corner is in doubt, no gradient comes in.
        if (has_corner(a.activation) && std::abs(y.value) <= y.error) dy[i] = 0;
        const Bounded d = led_back(a.activation, dy[i], y);
        const Bounded centred = Bounded(x[i]) + Bounded(-mean);
        sum_dy += d.value, sum_dyx += d.value * (x[i] - mean);
        s1.add(d.value, d.error);
        s2.add(d.value * centred.value, product_error(d, centred));
      }
      const Bounded dbeta = s1.bound(channel_depth(p));
      const Bounded dgamma = s2.bound(channel_depth(p)) * Bounded(inv_std);
      const Bounded to_x = -((scale * Bounded(inv_std)) * (dgamma / Bounded(m)));
      const Bounded constant = fma(-to_x, mean, -(scale * (dbeta / Bounded(m))));
      for (const std::size_t i : indices) {
        const Bounded d = led_back(a.activation, dy[i], fma(x[i], scale, shift));
        const double normal = (x[i] - mean) * inv_std;
        const double exact =
            gamma * inv_std * (d.value - sum_dy / m - normal * (sum_dyx * inv_std) / m);
        dx[i] = plus(a, in, 6, i, {exact, fma(scale, d, fma(to_x, x[i], constant)).error});
      }
      dgammas.emplace_back(sum_dyx * inv_std, dgamma.error);
      dbetas.emplace_back(sum_dy, dbeta.error);
    }
    const std::vector<Tensor> out = run_reference(batch_norm_grad_op, sample.attributes, in);
    const std::string what = name_of(batch_norm_grad_op, sample);
    expect_within(out[0], dx, what + " dx");
    expect_within(out[1], dgammas, what + " dgamma");
    expect_within(out[2], dbetas, what + " dbeta");
  }
}

TEST(PlainFormula, batch_norm_inference) {
  std::uint32_t stream = 800;
  for (const OpSample& sample : batch_norm_inference_op.samples()) {
    const auto& a = sample.attributes.as<BatchNormAttributes>();
    const std::vector<Tensor> in = norm_inputs(sample, stream += 10);
    const Planes p = planes_of(in[0].shape());
    check_elements(
        batch_norm_inference_op, sample, in,
        [&](std::size_t i) {
          const std::size_t c = i / u(p.pixels()) % u(p.channels);
          const double x = in[0].f32()[i], gamma = in[1].f32()[c], beta = in[2].f32()[c],
                       mean = in[3].f32()[c], variance = in[4].f32()[c];
          const Bounded inv_std = Bounded(1) / sqrt(Bounded(variance) + Bounded(a.epsilon));
          const Bounded scale = Bounded(gamma) * inv_std;
          const double exact = gamma * (x - mean) / std::sqrt(variance + a.epsilon) + beta;
          return plus(a, in, 5, i,
                      activated(a, {exact, fma(x, scale, fma(-Bounded(mean), scale, beta)).error}));
        },
        1e-5);
  }
}

TEST(PlainFormula, batch_norm_running) {
  std::uint32_t stream = 900;
  for (const OpSample& sample : batch_norm_running_op.samples()) {
    const auto& a = sample.attributes.as<BatchNormRunningAttributes>();
    const std::vector<Tensor> in = norm_inputs(sample, stream += 10);
    const double momentum = a.momentum, count = static_cast<double>(a.count);
    const Bounded fresh = Bounded(1) - Bounded(momentum);
    const Bounded unbiased = Bounded(count) / (Bounded(count) - Bounded(1));
    std::vector<Bounded> means, variances;
    for (std::size_t c = 0; c < in[0].f32().size(); ++c) {
      const double mean = in[0].f32()[c], variance = in[1].f32()[c], new_mean = in[2].f32()[c],
                   new_variance = in[3].f32()[c];
      means.emplace_back(momentum * mean + (1 - momentum) * new_mean,
                         fma(momentum, mean, fresh * Bounded(new_mean)).error);
      variances.emplace_back(
          momentum * variance + (1 - momentum) * new_variance * count / (count - 1),
          fma(momentum, variance, fresh * (Bounded(new_variance) * unbiased)).error);
    }
    const std::vector<Tensor> out = run_reference(batch_norm_running_op, sample.attributes, in);
    expect_within(out[0], means, name_of(batch_norm_running_op, sample) + " mean");
    expect_within(out[1], variances, name_of(batch_norm_running_op, sample) + " variance");
  }
}

}  // namespace
}  // namespace podium
