#include "backend/cpu/kernels/planes/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/kernels/kernel_test_util.h"
#include "backend/cpu/kernels/planes/channel.h"

namespace podium::cpu {
namespace {

// The element index of pixel i of channel c of image n.
template <typename F>
void for_each_value(const ActivationShape& s, F f) {
  for (std::int64_t n = 0; n < s.images; ++n) {
    for (std::int64_t c = 0; c < s.channels; ++c) {
      for (std::int64_t i = 0; i < s.pixels(); ++i) f(c, (n * s.channels + c) * s.pixels() + i);
    }
  }
}

struct Expected {
  Floats y, mean, var, inv_std;
};
Expected forward_of(const BatchNormShape& s, const Floats& x, const Floats& gamma,
                    const Floats& beta) {
  Expected out;
  out.y.resize(x.size());
  Floats scale, shift;
  const float m = static_cast<float>(s.x.images * s.x.pixels());
  for (std::int64_t c = 0; c < s.x.channels; ++c) {
    const float s1 = channel_sum_of(s.x, c, [&](float acc, auto i) { return acc + x[i]; });
    const float s2 =
        channel_sum_of(s.x, c, [&](float acc, auto i) { return std::fma(x[i], x[i], acc); });
    const float mean = s1 / m;
    const float var = std::max(std::fma(-mean, mean, s2 / m), 0.0f);
    const float inv_std = 1 / std::sqrt(var + s.epsilon);
    out.mean.push_back(mean), out.var.push_back(var), out.inv_std.push_back(inv_std);
    scale.push_back(gamma[c] * inv_std);
    shift.push_back(std::fma(-mean, scale[c], beta[c]));
  }
  for_each_value(s.x, [&](auto c, auto i) {
    const float y = std::fma(x[i], scale[c], shift[c]);
    out.y[i] = activate_f32(s.activation, y);
  });
  return out;
}

void check(const BatchNormShape& s, unsigned seed, const std::string& target) {
  const std::string what =
      cat(target, " ", name(s.x), " activation ", static_cast<int>(s.activation.kind));
  Random random(seed);
  const std::int64_t values = s.x.images * s.x.features(), channels = s.x.channels;
  const Floats x = random.numbers(values), dy = random.numbers(values),
               gamma = random.numbers(channels), beta = random.numbers(channels);
  const Floats x_lanes = to_lanes(x, s.x.images), dy_lanes = to_lanes(dy, s.x.images);

  const Expected want = forward_of(s, x, gamma, beta);
  Guarded y(s.x.floats()), mean(channels), var(channels), inv_std(channels);
  run_parts(batch_norm_parts(s), [&](int part) {
    batch_norm(s, x_lanes.data(), gamma.data(), beta.data(), nullptr, y.data(), mean.data(),
               var.data(), inv_std.data(), part);
  });
  expect_same(mean.take(what), want.mean, what + " mean");
  expect_same(var.take(what), want.var, what + " var");
  expect_same(inv_std.take(what), want.inv_std, what + " inv_std");
  expect_same(from_lanes(y.take(what), s.x.images), want.y, what + " y");

  // The gradient, the ReLU as an operation of its own.
  const float m = static_cast<float>(s.x.images * s.x.pixels());
  Floats scale, shift, dgamma, dbeta, masked = dy, dx(x.size());
  for (std::int64_t c = 0; c < channels; ++c) {
    scale.push_back(gamma[c] * want.inv_std[c]);
    shift.push_back(std::fma(-want.mean[c], scale[c], beta[c]));
  }
  for_each_value(s.x, [&](auto c, auto i) {
    masked[i] = activate_grad_f32(s.activation, dy[i], std::fma(x[i], scale[c], shift[c]));
  });
  for (std::int64_t c = 0; c < channels; ++c) {
    dbeta.push_back(channel_sum_of(s.x, c, [&](float acc, auto i) { return acc + masked[i]; }));
    dgamma.push_back(channel_sum_of(s.x, c,
                                    [&](float acc, auto i) {
                                      return std::fma(masked[i], x[i] - want.mean[c], acc);
                                    }) *
                     want.inv_std[c]);
  }
  for_each_value(s.x, [&](auto c, auto i) {
    const float a = gamma[c] * want.inv_std[c];
    const float b = -(a * want.inv_std[c]) * (dgamma[c] / m);
    const float k = std::fma(-b, want.mean[c], -(a * (dbeta[c] / m)));
    dx[i] = std::fma(a, masked[i], std::fma(b, x[i], k));
  });
  Guarded got_dx(s.x.floats()), got_dgamma(channels), got_dbeta(channels);
  const auto gradient = [&](const float* in_dy, const float* in_x) {
    run_parts(batch_norm_grad_parts(s), [&](int part) {
      batch_norm_grad(s, in_dy, in_x, gamma.data(), beta.data(), want.mean.data(),
                      want.inv_std.data(), nullptr, got_dx.data(), got_dgamma.data(),
                      got_dbeta.data(), part);
    });
    expect_same(got_dgamma.take(what), dgamma, what + " dgamma");
    expect_same(got_dbeta.take(what), dbeta, what + " dbeta");
    expect_same(from_lanes(got_dx.take(what), s.x.images), dx, what + " dx");
  };
  gradient(dy_lanes.data(), x_lanes.data());
  std::copy(dy_lanes.begin(), dy_lanes.end(), got_dx.data());
  gradient(got_dx.data(), x_lanes.data());

  // Inference, from statistics that are not this batch's.
  const Floats running_mean = random.numbers(channels);
  const Floats running_var = random.positive_numbers(channels);
  Floats inferred(x.size());
  for_each_value(s.x, [&](auto c, auto i) {
    const float inverse = 1 / std::sqrt(running_var[c] + s.epsilon);
    const float a = gamma[c] * inverse;
    const float out = std::fma(x[i], a, std::fma(-running_mean[c], a, beta[c]));
    inferred[i] = activate_f32(s.activation, out);
  });
  Guarded z(s.x.floats());
  run_parts(batch_norm_inference_parts(s), [&](int part) {
    batch_norm_inference(s, x_lanes.data(), gamma.data(), beta.data(), running_mean.data(),
                         running_var.data(), nullptr, z.data(), part);
  });
  expect_same(from_lanes(z.take(what), s.x.images), inferred, what + " inference");
}

TEST(BatchNorm, equals_the_contract_for_every_count_of_images) {
  for_each_target([](const std::string& target) {
    for (const std::int64_t images : kImageCounts) {
      for (const Activation& activation : kActivations) {
        check({{images, 3, 6, 7}, 1e-3f, activation}, 1, target);
        check({{images, 21, 1, 1}, 1e-5f, activation}, 2, target);
      }
    }
  });
}

TEST(BatchNorm, equals_the_contract_for_random_shapes) {
  for_each_target([](const std::string& target) {
    Random random(4);
    for (unsigned trial = 0; trial < 40; ++trial) {
      check({random_activation(random), 1e-3f, kActivations[trial % std::size(kActivations)]},
            trial, target);
    }
  });
}

TEST(BatchNorm, equals_the_contract_for_the_layers_of_mnist) {
  for_each_target([](const std::string& target) {
    check({{32, 6, 28, 28}, 1e-3f, {ActivationKind::kRelu}}, 1, target);
    check({{32, 12, 14, 14}, 1e-3f, {ActivationKind::kRelu}}, 2, target);
    check({{32, 24, 7, 7}, 1e-3f, {ActivationKind::kRelu}}, 3, target);
    check({{32, 200, 1, 1}, 1e-3f, {ActivationKind::kRelu}}, 4, target);
  });
}

TEST(BatchNorm, a_variance_that_rounds_below_zero_is_zero) {
  for_each_target([](const std::string& target) {
    const ActivationShape shape{7, 1, 3, 3};
    const Floats x = to_lanes(Floats(63, 1234.5677f), 7);
    const float gamma = 1, beta = 0;
    float mean, var, inv_std;
    Floats y(x.size());
    batch_norm({shape, 1e-3f, {}}, x.data(), &gamma, &beta, nullptr, y.data(), &mean, &var,
               &inv_std, 0);
    EXPECT_GE(var, 0) << target;
    EXPECT_TRUE(std::isfinite(inv_std));
  });
}

TEST(BatchNorm, running_statistics_follow_the_unbiased_variance) {
  Random random(6);
  const Floats mean = random.numbers(9), var = random.positive_numbers(9),
               old_mean = random.numbers(9), old_var = random.positive_numbers(9);
  Floats new_mean(9), new_var(9);
  batch_norm_running(9, 100, 0.99f, mean.data(), var.data(), old_mean.data(), old_var.data(),
                     new_mean.data(), new_var.data());
  for (std::size_t c = 0; c < 9; ++c) {
    EXPECT_EQ(new_mean[c], std::fma(0.99f, old_mean[c], (1 - 0.99f) * mean[c]));
    EXPECT_EQ(new_var[c],
              std::fma(0.99f, old_var[c], (1 - 0.99f) * (var[c] * (100.0f / (100.0f - 1.0f)))));
  }
}

TEST(Channel, bias_and_its_gradient_equal_the_contract) {
  for_each_target([](const std::string& target) {
    Random random(7);
    for (int trial = 0; trial < 40; ++trial) {
      const ActivationShape s = random_activation(random);
      const std::string what = cat(target, " ", name(s));
      const Floats x = random.numbers(s.images * s.features()), b = random.numbers(s.channels);
      const Floats lanes = to_lanes(x, s.images);
      Floats want(x.size()), sums;
      for_each_value(s, [&](auto c, auto i) { want[i] = x[i] + b[c]; });
      for (std::int64_t c = 0; c < s.channels; ++c) {
        sums.push_back(channel_sum_of(s, c, [&](float acc, auto i) { return acc + x[i]; }));
      }
      Guarded y(s.floats()), db(s.channels);
      run_parts(bias_add_parts(s),
                [&](int part) { bias_add(s, lanes.data(), b.data(), y.data(), part); });
      run_parts(channel_sum_parts(s),
                [&](int part) { channel_sum(s, lanes.data(), db.data(), part); });
      expect_same(from_lanes(y.take(what), s.images), want, what);
      expect_same(db.take(what), sums, what);
    }
  });
}

}  // namespace
}  // namespace podium::cpu
