// Batch normalisation against its plain formulas in double (bounds_test.h says how).
#include <algorithm>
#include <cmath>

#include "ops/plain_test_util.h"

namespace podium {
namespace {

// No activation is steeper than 1.13 (GELU), and no derivative's slope is above 0.8.
Bounded activated(const BatchNormAttributes& a, Bounded y) {
  if (a.activation.kind == ActivationKind::kNone) return y;
  if (a.activation.kind == ActivationKind::kRelu && y.value <= -y.error) return 0;
  return rounded(activation_of(a.activation, y.value),
                 1.13 * y.error + function_error(a.activation) * std::abs(y.value));
}

// With the operand that is added to it, where there is one.
Bounded plus(const BatchNormAttributes& a, const std::vector<Tensor>& in, std::size_t operand,
             std::size_t i, Bounded value) {
  return a.adds ? value + Bounded(in[operand].f32()[i]) : value;
}

// What a unit that is not pooled makes of a normalised value.
Bounded result_of(const BatchNormAttributes& a, const std::vector<Tensor>& in, std::size_t operand,
                  std::size_t i, Bounded value) {
  if (a.activates_sum) return activated(a, plus(a, in, operand, i, value));
  return plus(a, in, operand, i, activated(a, value));
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

// dy, led to the largest pixel of each window where the unit pools, the first of equals. Where it
// is in doubt which pixel that is, no gradient comes in.
Numbers led_to_pixels(const BatchNormAttributes& a, const Shape& x, std::span<float> dy,
                      const std::vector<Bounded>& y) {
  if (!a.pools) return {dy.begin(), dy.end()};
  Numbers led(u(x.elements()));
  std::size_t doubtful = 0;
  for_each_pool_window(x, PoolAttributes(),
                       [&](std::size_t out, const std::vector<std::size_t>& window) {
                         std::size_t most = window[0];
                         for (const std::size_t i : window)
                           if (y[i].value > y[most].value) most = i;
                         const bool in_doubt = std::ranges::any_of(window, [&](std::size_t i) {
                           const double errors = y[i].error + y[most].error;
                           return i != most && errors > 0 && y[most].value - y[i].value <= errors;
                         });
                         if (in_doubt) dy[out] = 0, ++doubtful;
                         led[most] = dy[out];
                       });
  EXPECT_LE(doubtful, dy.size() / 50) << "too many for a test of where the gradient goes";
  return led;
}

// What a unit puts out that defers its result. Exact values and bounds are of one derivation here;
// the results that are not deferred hold it against the definition.
std::vector<Bounded> joined(std::vector<Bounded> scales, const std::vector<Bounded>& shifts) {
  scales.insert(scales.end(), shifts.begin(), shifts.end());
  return scales;
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
    std::vector<Bounded> y(x.size()), means, variances, inv_stds, scales, shifts;
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
        y[i] = result_of(a, in, 3, i, {exact, fma(x[i], scale, shift).error});
      }
      means.emplace_back(mean, mean_b.error);
      variances.emplace_back(variance, variance_b.error);
      inv_stds.emplace_back(inv_std, inv_std_b.error);
      scales.push_back(scale), shifts.push_back(shift);
    }
    if (a.defers) y = joined(scales, shifts);
    if (a.pools) y = largest_of_windows(in[0].shape(), y);
    const std::vector<Tensor> out = run_reference(batch_norm_op, sample.attributes, in);
    const std::string what = name_of(batch_norm_op, sample);
    // Two values near each other make a small variance, of which little is exact.
    const double sharpness = m == 2 ? 0.02 : 1e-3;
    expect_within(out[0], y, what + " y", sharpness);
    expect_within(out[1], means, what + " mean");
    expect_within(out[2], variances, what + " variance");
    expect_within(out[3], inv_stds, what + " inv_std", sharpness);
  }
}

TEST(PlainFormula, batch_norm_grad) {
  std::uint32_t stream = 600;
  for (const OpSample& sample : batch_norm_grad_op.samples()) {
    const auto& a = sample.attributes.as<BatchNormAttributes>();
    std::vector<Tensor> in = norm_inputs(sample, stream += 10);
    const auto x = in[1].f32();
    const Planes p = planes_of(in[1].shape());
    const double m = static_cast<double>(p.images * p.pixels());
    std::vector<Bounded> dx(x.size()), ys(x.size()), activations(x.size()), scales, dgammas, dbetas;
    for (std::int64_t c = 0; c < p.channels; ++c) {
      in[3].f32()[u(c)] -= 1.5f;  // about half of the outputs above zero
      scales.push_back(Bounded(in[2].f32()[u(c)]) * Bounded(in[5].f32()[u(c)]));
      const Bounded shift = fma(-Bounded(in[4].f32()[u(c)]), scales.back(), in[3].f32()[u(c)]);
      for (const std::size_t i : channel_indices(p, c)) {
        ys[i] = fma(x[i], scales.back(), shift);
        activations[i] = activated(a, ys[i]);
        // Where the side of the corner is in doubt, no gradient comes in.
        if (!a.pools && has_corner(a.activation) && std::abs(ys[i].value) <= ys[i].error)
          in[0].f32()[i] = 0;
      }
    }
    const Numbers dy = led_to_pixels(a, in[1].shape(), in[0].f32(), activations);
    for (std::int64_t c = 0; c < p.channels; ++c) {
      const double gamma = in[2].f32()[u(c)], mean = in[4].f32()[u(c)], inv_std = in[5].f32()[u(c)];
      const Bounded scale = scales[u(c)];
      const std::vector<std::size_t> indices = channel_indices(p, c);
      double sum_dy = 0, sum_dyx = 0;
      SumBound s1, s2;
      for (const std::size_t i : indices) {
        const Bounded d = led_back(a.activation, dy[i], ys[i]);
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
        const Bounded d = led_back(a.activation, dy[i], ys[i]);
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
    std::vector<Bounded> y, scales, shifts;
    for (std::size_t c = 0; c < u(p.channels); ++c) {
      const Bounded inv_std = Bounded(1) / sqrt(Bounded(in[4].f32()[c]) + Bounded(a.epsilon));
      scales.push_back(Bounded(in[1].f32()[c]) * inv_std);
      shifts.push_back(fma(-Bounded(in[3].f32()[c]), scales[c], in[2].f32()[c]));
    }
    for (std::size_t i = 0; i < in[0].f32().size(); ++i) {
      const std::size_t c = i / u(p.pixels()) % u(p.channels);
      const double x = in[0].f32()[i], gamma = in[1].f32()[c], beta = in[2].f32()[c],
                   mean = in[3].f32()[c], variance = in[4].f32()[c];
      const double exact = gamma * (x - mean) / std::sqrt(variance + a.epsilon) + beta;
      const Bounded normal = {exact, fma(x, scales[c], shifts[c]).error};
      y.push_back(result_of(a, in, 5, i, normal));
    }
    if (a.defers) y = joined(scales, shifts);
    if (a.pools) y = largest_of_windows(in[0].shape(), y);
    expect_within(run_reference(batch_norm_inference_op, sample.attributes, in)[0], y,
                  name_of(batch_norm_inference_op, sample), 1e-5);
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
