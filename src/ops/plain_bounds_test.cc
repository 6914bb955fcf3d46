// Sums, pooling, losses, updates and element-wise operations against their plain formulas in
// double. Convolutions and matrix products: conv_bounds_test.cc; batch norm: norm_bounds_test.cc.
//
// The value is always that of the formula as one would write it on paper; the bound follows the
// steps of the contract (docs/numerics.md), an error carried from each to the next.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/numerics/functions.h"
#include "ops/plain_test_util.h"

namespace podium {
namespace {

TEST(PlainFormula, add_sub_mul_and_scale_are_rounded_once) {
  for (const OpSample& sample : add_op.samples()) {
    const std::vector<Tensor> in = random_inputs(sample, 300);
    const auto a = [&](std::size_t i) { return double{in[0].f32()[i]}; };
    const auto b = [&](std::size_t i) { return double{in[1].f32()[i]}; };
    check_elements(add_op, sample, in, [&](std::size_t i) { return rounded(a(i) + b(i), 0); });
    check_elements(sub_op, sample, in, [&](std::size_t i) { return rounded(a(i) - b(i), 0); });
    check_elements(mul_op, sample, in, [&](std::size_t i) { return rounded(a(i) * b(i), 0); });
  }
  for (const OpSample& sample : scale_op.samples()) {
    const std::vector<Tensor> in = random_inputs(sample, 310);
    const double factor = sample.attributes.as<ScaleAttributes>().factor;
    check_elements(scale_op, sample, in,
                   [&](std::size_t i) { return rounded(factor * in[0].f32()[i], 0); });
  }
}

TEST(PlainFormula, pooling_takes_the_largest_or_the_mean_of_each_window) {
  for (const OpSample& sample : max_pool_op.samples()) {
    const std::vector<Tensor> in = random_inputs(sample, 350);
    const auto x = in[0].f32();
    const auto& a = sample.attributes.as<PoolAttributes>();
    const Shape &images = in[0].shape(), y = pooled(images, a);
    const std::int64_t down = a.stride_h > 0 ? a.stride_h : a.window_h,
                       right = a.stride_w > 0 ? a.stride_w : a.window_w;
    std::vector<Bounded> expected, places;
    for_each_pool_window(images, a, [&](std::size_t out, const std::vector<std::size_t>& pixels) {
      std::size_t most = pixels[0];
      for (const std::size_t i : pixels)
        if (x[i] > x[most]) most = i;
      expected.emplace_back(x[most]);
      const auto window = static_cast<std::int64_t>(out), at = static_cast<std::int64_t>(most);
      const std::int64_t top = window / y[3] % y[2] * down - a.pad_top,
                         left = window % y[3] * right - a.pad_left;
      places.emplace_back(static_cast<double>((at / images[3] % images[2] - top) * a.window_w +
                                              at % images[3] - left));
    });
    const std::vector<Tensor> out = run_reference(max_pool_op, sample.attributes, in);
    ASSERT_EQ(out.size(), a.places ? 2u : 1u);
    expect_within(out[0], expected, name_of(max_pool_op, sample), 0);
    if (a.places) expect_within(out[1], places, name_of(max_pool_op, sample) + " places", 0);
  }
  for (const OpSample& sample : avg_pool_op.samples()) {
    const std::vector<Tensor> in = random_inputs(sample, 360);
    std::vector<Bounded> expected;
    for_each_pool_window(in[0].shape(), sample.attributes.as<PoolAttributes>(),
                         [&](std::size_t, const std::vector<std::size_t>& pixels) {
                           const auto n = static_cast<double>(pixels.size());
                           SumBound sum;
                           for (const std::size_t i : pixels) sum.add(in[0].f32()[i]);
                           expected.push_back(sum.bound(n - 1) * rounded(1 / n, 0));
                         });
    expect_within(run_reference(avg_pool_op, sample.attributes, in)[0], expected,
                  name_of(avg_pool_op, sample), 1e-5);
  }
}

TEST(PlainFormula, gradients_of_pooling_go_to_the_largest_or_to_all_alike) {
  for (const OpSample& sample : max_pool_grad_op.samples()) {
    std::vector<Tensor> in = random_inputs(sample, 370);
    const auto& a = sample.attributes.as<PoolAttributes>();
    Tensor image = in[1];
    if (a.places) {
      // From where the maxima of some images are.
      PoolAttributes forward = a;
      forward.height = forward.width = 0;
      const OpSample pooling{
          forward, {{DType::kF32, {in[0].shape()[0], in[0].shape()[1], a.height, a.width}}}};
      image = random_inputs(pooling, 375)[0];
      in[1] = run_reference(max_pool_op, pooling.attributes, {image})[1];
    }
    const auto dy = in[0].f32(), x = image.f32();
    std::vector<Bounded> expected(x.size());
    for_each_pool_window(image.shape(), a,
                         [&](std::size_t out, const std::vector<std::size_t>& pixels) {
                           std::size_t most = pixels[0];
                           for (const std::size_t i : pixels)
                             if (x[i] > x[most]) most = i;
                           const Bounded gradient = double{dy[out]};
                           expected[most] = a.tiles() ? gradient : expected[most] + gradient;
                         });
    expect_within(run_reference(max_pool_grad_op, sample.attributes, in)[0], expected,
                  name_of(max_pool_grad_op, sample), a.tiles() ? 0 : 1e-6);
  }
  for (const OpSample& sample : avg_pool_grad_op.samples()) {
    const std::vector<Tensor> in = random_inputs(sample, 380);
    const auto& a = sample.attributes.as<PoolAttributes>();
    const Shape& dy = in[0].shape();
    const Shape x{dy[0], dy[1], a.height, a.width};
    std::vector<Bounded> expected(u(x.elements()));
    for_each_pool_window(x, a, [&](std::size_t out, const std::vector<std::size_t>& pixels) {
      const Bounded share = rounded(1 / static_cast<double>(pixels.size()), 0);
      for (const std::size_t i : pixels) expected[i] = Bounded(double{in[0].f32()[out]}) * share;
    });
    expect_within(run_reference(avg_pool_grad_op, sample.attributes, in)[0], expected,
                  name_of(avg_pool_grad_op, sample), 1e-6);
  }
}

TEST(PlainFormula, activations_and_their_derivatives) {
  for (const OpSample& sample : activate_op.samples()) {
    const Activation a = sample.attributes.as<ActivationAttributes>().activation;
    const std::vector<Tensor> in = random_inputs(sample, 320);
    check_elements(
        activate_op, sample, in,
        [&](std::size_t i) {
          const double x = in[0].f32()[i];
          return rounded(activation_of(a, x), function_error(a) * std::abs(x));
        },
        1e-5);
  }
  for (const OpSample& sample : activate_grad_op.samples()) {
    const auto& attributes = sample.attributes.as<ActivationAttributes>();
    const Activation a = attributes.activation;
    const std::vector<Tensor> in = random_inputs(sample, 330);
    check_elements(
        activate_grad_op, sample, in,
        [&](std::size_t i) {
          const double dy = attributes.adds ? in[0].f32()[i] + in[2].f32()[i] : in[0].f32()[i],
                       x = in[1].f32()[i];
          return rounded(dy * derivative_of(a, x),
                         std::abs(dy) * (1 + std::abs(x)) * function_error(a));
        },
        1e-5);
  }
}

TEST(PlainFormula, activations_far_from_zero_keep_their_limits) {
  for (const float x : {5.0f, 9.0f, 13.5f, 40.0f, 1e20f}) {
    for (const ActivationKind kind : {ActivationKind::kGelu, ActivationKind::kSilu}) {
      const Activation a{kind};
      EXPECT_NEAR(activate_f32(a, x), activation_of(a, x), 4e-7 * x) << x;
      EXPECT_NEAR(activate_f32(a, -x), activation_of(a, -x), 1e-7) << x;
      EXPECT_NEAR(activate_grad_f32(a, 1, x), derivative_of(a, x), 1e-6) << x;
      EXPECT_NEAR(activate_grad_f32(a, 1, -x), derivative_of(a, -x), 1e-6) << x;
    }
  }
}

TEST(PlainFormula, axes_are_put_into_another_order) {
  for (const OpSample& sample : permute_op.samples()) {
    const std::vector<Tensor> in = random_inputs(sample, 323);
    const auto& a = sample.attributes.as<PermuteAttributes>();
    const Tensor turned = run_reference(permute_op, sample.attributes, in)[0];
    const Shape &x = in[0].shape(), &y = turned.shape();
    std::int64_t at[4] = {};
    std::size_t i = 0;
    for (at[0] = 0; at[0] < x[0]; ++at[0])
      for (at[1] = 0; at[1] < x[1]; ++at[1])
        for (at[2] = 0; at[2] < x[2]; ++at[2])
          for (at[3] = 0; at[3] < x[3]; ++at[3]) {
            const std::int64_t to =
                ((at[0] * y[1] + at[a.channels]) * y[2] + at[a.rows]) * y[3] + at[a.columns];
            EXPECT_EQ(turned.f32()[u(to)], in[0].f32()[i++]);
          }
  }
}

TEST(PlainFormula, channels_are_copied_and_what_is_added_is_zero) {
  for (const OpSample& sample : pad_channels_op.samples()) {
    const std::vector<Tensor> in = random_inputs(sample, 322);
    const auto& a = sample.attributes.as<PadChannelsAttributes>();
    const Tensor wide = run_reference(pad_channels_op, sample.attributes, in)[0];
    const Planes p = planes_of(in[0].shape()), q = planes_of(wide.shape());
    for (std::int64_t n = 0; n < q.images; ++n)
      for (std::int64_t c = 0; c < q.channels; ++c)
        for (std::int64_t i = 0; i < q.pixels(); ++i) {
          const std::int64_t from = c - a.before;
          const bool inside = from >= 0 && from < p.channels;
          EXPECT_EQ(wide.f32()[u(q.offset(n, c) + i)],
                    inside ? in[0].f32()[u(p.offset(n, from) + i)] : 0.0f);
        }
    // And back.
    const Tensor back =
        run_reference(slice_channels_op, SliceChannelsAttributes{a.before, p.channels}, {wide})[0];
    EXPECT_TRUE(std::ranges::equal(back.f32(), in[0].f32()));
  }
}

TEST(PlainFormula, rescale_combine_and_descend) {
  for (const OpSample& sample : rescale_op.samples()) {
    const auto& a = sample.attributes.as<RescaleAttributes>();
    const std::vector<Tensor> in = random_inputs(sample, 324);
    SumBound squares;
    for (const float x : in[0].f32()) squares.add(double{x} * x);
    const Bounded factor =
        Bounded(a.norm) / (sqrt(squares.bound(kSquareRun / 16 + 4 + 2)) + Bounded(a.epsilon));
    check_elements(
        rescale_op, sample, in, [&](std::size_t i) { return Bounded(in[0].f32()[i]) * factor; },
        1e-4);
  }
  for (const OpSample& sample : combine_op.samples()) {
    const auto& a = sample.attributes.as<CombineAttributes>();
    const std::vector<Tensor> in = random_inputs(sample, 326);
    check_elements(combine_op, sample, in, [&](std::size_t i) {
      return fma(Bounded(a.a), Bounded(in[0].f32()[i]), Bounded(a.b) * Bounded(in[1].f32()[i]));
    });
  }
  for (const OpSample& sample : descend_op.samples()) {
    const std::vector<Tensor> in = random_inputs(sample, 328);
    check_elements(descend_op, sample, in, [&](std::size_t i) {
      return fma(-Bounded(in[2].f32()[0]), Bounded(in[1].f32()[i]), Bounded(in[0].f32()[i]));
    });
  }
}

TEST(PlainFormula, fill_and_reshape_are_exact) {
  for (const OpSample& sample : reshape_op.samples()) {
    if (sample.inputs[0].dtype == DType::kI32) {
      Tensor in(sample.inputs[0]);
      std::iota(in.i32().begin(), in.i32().end(), -7);
      const Tensor out = run_reference(reshape_op, sample.attributes, {in})[0];
      EXPECT_TRUE(std::ranges::equal(out.i32(), in.i32()));
      continue;
    }
    const std::vector<Tensor> in = random_inputs(sample, 340);
    check_elements(reshape_op, sample, in,
                   [&](std::size_t i) { return Bounded(in[0].f32()[i], 0); });
  }
  for (const OpSample& sample : fill_op.samples()) {
    const Tensor filled = run_reference(fill_op, sample.attributes, {})[0];
    for (const float x : filled.f32()) EXPECT_EQ(x, sample.attributes.as<FillAttributes>().value);
  }
}

TEST(PlainFormula, bias_add) {
  for (const OpSample& sample : bias_add_op.samples()) {
    const std::vector<Tensor> in = random_inputs(sample, 350);
    const Planes p = planes_of(in[0].shape());
    check_elements(bias_add_op, sample, in, [&](std::size_t i) {
      const std::size_t channel = i / u(p.pixels()) % u(p.channels);
      return rounded(double{in[0].f32()[i]} + in[1].f32()[channel], 0);
    });
  }
}

TEST(PlainFormula, channel_sum) {
  for (const OpSample& sample : channel_sum_op.samples()) {
    const std::vector<Tensor> in = random_inputs(sample, 360);
    const Planes p = planes_of(in[0].shape());
    std::vector<Bounded> expected;
    for (std::int64_t c = 0; c < p.channels; ++c) {
      SumBound sum;
      for (const std::size_t i : channel_indices(p, c)) sum.add(in[0].f32()[i]);
      expected.push_back(sum.bound(channel_depth(p)));
    }
    expect_within(run_reference(channel_sum_op, {}, in)[0], expected,
                  name_of(channel_sum_op, sample));
  }
}

TEST(PlainFormula, batch_mean) {
  for (const std::int64_t n : {1, 2, 15, 16, 17, 32, 37, 1000}) {
    const Tensor x = random_f32(Shape{n}, static_cast<std::uint32_t>(370 + n), 0, 3);
    SumBound sum;
    for (const float value : x.f32()) sum.add(value);
    expect_within(run_reference(batch_mean_op, {}, {x})[0],
                  {sum.bound(lane_depth(n)) / Bounded(static_cast<double>(n))},
                  cat("batch_mean of ", n));
  }
}

// --- losses

// log of base/numerics/functions.h: as exp_of.
Bounded log_of(Bounded x) {
  EXPECT_GT(x.value, x.error);
  const double value = std::log(x.value), carried = -std::log1p(-x.error / x.value);
  return {value, carried + 4 * kUnit * (std::abs(value) + carried)};
}

// d = z - max z, e = exp(d), and the sum of e, of one example.
struct Softmax {
  std::vector<Bounded> d, e;
  Bounded sum;
  double log_sum = 0;  // of exp z, by the formula

  explicit Softmax(std::span<const float> z) {
    double largest = z[0], plain = 0;
    for (const float logit : z) largest = std::max(largest, double{logit});
    SumBound total;
    for (const float logit : z) {
      d.push_back(Bounded(logit) - Bounded(largest));
      e.push_back(exp_of(d.back()));
      total.add(e.back().value, e.back().error);
      plain += std::exp(logit - largest);
    }
    sum = total.bound(lane_depth(static_cast<std::int64_t>(z.size())));
    log_sum = largest + std::log(plain);
  }
};

std::vector<Tensor> loss_inputs(const OpSample& sample, std::uint32_t stream, double size) {
  std::vector<Tensor> in = random_inputs(sample, stream);
  for (float& z : in[0].f32()) z = static_cast<float>(z * size);
  return in;
}

TEST(PlainFormula, softmax_cross_entropy) {
  std::uint32_t stream = 1000;
  for (const OpSample& sample : softmax_cross_entropy_op.samples()) {
    for (const double size : {0.01, 1.0, 20.0}) {
      const double a = sample.attributes.as<SoftmaxCrossEntropyAttributes>().label_smoothing;
      const std::vector<Tensor> in = loss_inputs(sample, stream += 10, size);
      const std::int64_t images = in[0].shape()[0], classes = in[0].shape()[1];
      std::vector<Bounded> expected;
      for (std::int64_t n = 0; n < images; ++n) {
        const auto z = in[0].f32().subspan(u(n * classes), u(classes));
        const auto label = u(in[1].i32()[u(n)]);
        const Softmax softmax(z);
        double exact = 0;  // - sum of t log p
        SumBound distances;
        for (std::size_t k = 0; k < z.size(); ++k) {
          const double t = (k == label ? 1 - a : 0) + a / static_cast<double>(classes);
          exact -= t * (z[k] - softmax.log_sum);
          distances.add(softmax.d[k].value, softmax.d[k].error);
        }
        const Bounded log_sum = log_of(softmax.sum);
        Bounded loss = log_sum - softmax.d[label];
        if (a != 0) {
          const Bounded share = Bounded(a) / Bounded(static_cast<double>(classes));
          loss = log_sum - fma(Bounded(1) - Bounded(a), softmax.d[label],
                               share * distances.bound(lane_depth(classes)));
        }
        expected.emplace_back(exact, loss.error);
      }
      expect_within(run_reference(softmax_cross_entropy_op, sample.attributes, in)[0], expected,
                    cat(name_of(softmax_cross_entropy_op, sample), " size ", size), 1e-5);
    }
  }
}

TEST(PlainFormula, softmax_cross_entropy_grad) {
  std::uint32_t stream = 2000;
  for (const OpSample& sample : softmax_cross_entropy_grad_op.samples()) {
    for (const double size : {0.01, 1.0, 20.0}) {
      const double a = sample.attributes.as<SoftmaxCrossEntropyAttributes>().label_smoothing;
      const std::vector<Tensor> in = loss_inputs(sample, stream += 10, size);
      const std::int64_t images = in[0].shape()[0], classes = in[0].shape()[1];
      const Bounded other = Bounded(a) / Bounded(static_cast<double>(classes));
      const Bounded own = (Bounded(1) - Bounded(a)) + other;
      std::vector<Bounded> expected;
      for (std::int64_t n = 0; n < images; ++n) {
        const auto z = in[0].f32().subspan(u(n * classes), u(classes));
        const Softmax softmax(z);
        const double g = in[2].f32()[u(n)];
        for (std::size_t k = 0; k < z.size(); ++k) {
          const bool is_label = k == u(in[1].i32()[u(n)]);
          const double t = (is_label ? 1 - a : 0) + a / static_cast<double>(classes);
          const Bounded target = a == 0 ? Bounded(is_label ? 1 : 0) : is_label ? own : other;
          expected.emplace_back((std::exp(z[k] - softmax.log_sum) - t) * g,
                                ((softmax.e[k] / softmax.sum - target) * Bounded(g)).error);
        }
      }
      expect_within(run_reference(softmax_cross_entropy_grad_op, sample.attributes, in)[0],
                    expected, cat(name_of(softmax_cross_entropy_grad_op, sample), " size ", size),
                    1e-5);
    }
  }
}

// Its operations have bounds of their own, so this is about which of them follows on which.
void expect_linear_cross_entropy(const OpDef& alone_op, const OpDef& op, double near) {
  std::uint32_t stream = 2500;
  for (const OpSample& sample : op.samples()) {
    const double a = sample.attributes.as<SoftmaxCrossEntropyAttributes>().label_smoothing;
    const Shape &xs = sample.inputs[0].shape, &ws = sample.inputs[1].shape;
    const std::int64_t rows = xs[0], depth = xs[1], classes = ws[0];
    const std::vector<Tensor> in = {random_f32(xs, ++stream), random_f32(ws, ++stream),
                                    random_labels(rows, classes, ++stream),
                                    random_f32(Shape{rows}, ++stream)};
    const auto x = in[0].f32(), w = in[1].f32();
    std::vector<double> loss(u(rows)), dx(u(rows * depth)), dw(u(classes * depth));
    for (std::int64_t n = 0; n < rows; ++n) {
      std::vector<double> z(u(classes));
      double sum = 0;
      for (std::int64_t k = 0; k < classes; ++k) {
        for (std::int64_t d = 0; d < depth; ++d)
          z[u(k)] += double{x[u(n * depth + d)]} * w[u(k * depth + d)];
        sum += std::exp(z[u(k)]);
      }
      for (std::int64_t k = 0; k < classes; ++k) {
        const double t = (k == in[2].i32()[u(n)] ? 1 - a : 0) + a / static_cast<double>(classes);
        loss[u(n)] -= t * (z[u(k)] - std::log(sum));
        const double dz = (std::exp(z[u(k)]) / sum - t) * in[3].f32()[u(n)];
        for (std::int64_t d = 0; d < depth; ++d) {
          dx[u(n * depth + d)] += dz * w[u(k * depth + d)];
          dw[u(k * depth + d)] += dz * x[u(n * depth + d)];
        }
      }
    }
    const std::vector<Tensor> found = run_reference(op, sample.attributes, in);
    const std::vector<double>* const expected[] = {&loss, &dx, &dw};
    for (std::size_t output = 0; output < 3; ++output)
      for (std::size_t i = 0; i < expected[output]->size(); ++i)
        ASSERT_NEAR(found[output].f32()[i], (*expected[output])[i], near)
            << name_of(op, sample) << " output " << output << " at " << i;
    const Tensor alone = run_reference(alone_op, sample.attributes, {in[0], in[1], in[2]})[0];
    EXPECT_TRUE(std::ranges::equal(alone.f32(), found[0].f32()));
  }
}
TEST(PlainFormula, linear_cross_entropy_and_its_gradients) {
  expect_linear_cross_entropy(linear_cross_entropy_op, linear_cross_entropy_grad_op, 2e-5);
}
TEST(PlainFormula, linear_cross_entropy_of_bf16_and_its_gradients) {
  // Sums of up to 1,030 terms, each with an error of up to 2^-8.
  expect_linear_cross_entropy(linear_cross_entropy_bf16_op, linear_cross_entropy_bf16_grad_op, 0.2);
}

TEST(PlainFormula, weigh_multiplies_and_leaves_out_what_weighs_nothing) {
  Tensor x = random_f32(Shape{200}, 3010), weights = random_labels(200, 5, 3011);
  x.f32()[7] = std::numeric_limits<float>::quiet_NaN(), weights.i32()[7] = 0;
  weights.i32()[8] = (1 << 24) + 1;  // rounded to the even 2^24
  const Tensor found = run_reference(weigh_op, {}, {x, weights})[0];
  for (std::size_t i = 0; i < 200; ++i) {
    const float weight = i == 8 ? 0x1p24f : static_cast<float>(weights.i32()[i]);
    EXPECT_EQ(found.f32()[i], weights.i32()[i] == 0 ? 0.0f : x.f32()[i] * weight) << i;
  }
}

TEST(PlainFormula, weighted_count_adds_the_weights_of_equal_items) {
  Tensor weights = random_labels(200, 5, 3020);
  const Tensor a = random_labels(200, 3, 3021), b = random_labels(200, 3, 3022);
  std::int32_t equal = 0, all = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    equal += a.i32()[i] == b.i32()[i] ? weights.i32()[i] : 0;
    all += weights.i32()[i];
  }
  const auto count = [&](const Tensor& one, const Tensor& other) {
    return run_reference(weighted_count_op, {}, {weights, one, other})[0].i32()[0];
  };
  EXPECT_EQ(count(a, b), equal);
  EXPECT_EQ(count(a, a), all);
  weights.i32()[3] = std::numeric_limits<std::int32_t>::max(), weights.i32()[4] = 1;
  EXPECT_EQ(count(a, a), -1) << "beyond 31 bits";
  weights.i32()[3] = -1;
  EXPECT_EQ(count(a, a), -1);
}

TEST(PlainFormula, correct_counts_the_examples_whose_label_has_the_largest_logit) {
  for (const std::int64_t classes : {2, 10, 33}) {
    const Tensor z = random_f32(Shape{200, classes}, 3000);
    const Tensor labels = random_labels(200, classes, 3001);
    std::int32_t expected = 0;
    for (std::int64_t n = 0; n < 200; ++n) {
      const auto row = z.f32().subspan(u(n * classes), u(classes));
      bool largest = true;
      for (const float other : row) largest = largest && row[u(labels.i32()[u(n)])] >= other;
      expected += largest ? 1 : 0;
    }
    const Attributes attributes = SoftmaxCrossEntropyAttributes{};
    EXPECT_EQ(run_reference(correct_op, attributes, {z, labels})[0].i32()[0], expected);
  }
}

// --- updates

TEST(PlainFormula, sgd_update) {
  for (const float decay : {0.0f, 0.01f}) {
    for (const bool nesterov : {false, true}) {
      const SgdAttributes a{.momentum = 0.9f, .weight_decay = decay, .nesterov = nesterov};
      std::vector<Tensor> in;
      for (std::uint32_t i = 0; i < 3; ++i) in.push_back(random_f32(Shape{500}, 3100 + i));
      in.push_back(Tensor::scalar(0.05f));
      const double mu = a.momentum, wd = a.weight_decay, rate = 0.05f;
      std::vector<Bounded> parameters, velocities;
      for (std::size_t i = 0; i < 500; ++i) {
        const double p = in[0].f32()[i], raw = in[1].f32()[i], v = in[2].f32()[i];
        const double g = raw + wd * p, new_v = mu * v + g, step = nesterov ? g + mu * new_v : new_v;
        const Bounded g_b = decay == 0 ? Bounded(raw) : fma(wd, p, raw);
        const Bounded v_b = fma(mu, v, g_b), step_b = nesterov ? fma(mu, v_b, g_b) : v_b;
        velocities.emplace_back(new_v, v_b.error);
        parameters.emplace_back(p - rate * step, fma(-rate, step_b, p).error);
      }
      const std::vector<Tensor> out = run_reference(sgd_update_op, a, in);
      expect_within(out[0], parameters, "sgd_update parameter", 1e-6);
      expect_within(out[1], velocities, "sgd_update velocity", 1e-6);
    }
  }
}

TEST(PlainFormula, adam_update) {
  for (const float decay : {0.0f, 0.01f}) {
    for (const std::int64_t step : {1, 10, 5000}) {
      const AdamAttributes a{.weight_decay = decay};
      // What the optimizer hands in: computed in double, rounded once (Kingma, Ba, ICLR 2015).
      const double b1 = a.beta1, b2 = a.beta2, rate = 0.01;
      const auto step_size = static_cast<float>(rate / (1 - std::pow(b1, step)));
      const auto correction = static_cast<float>(1 / std::sqrt(1 - std::pow(b2, step)));
      std::vector<Tensor> in;
      for (std::uint32_t i = 0; i < 3; ++i) in.push_back(random_f32(Shape{500}, 3200 + i));
      in.push_back(random_f32(Shape{500}, 3203, 0.01, 2));
      in.push_back(Tensor::scalar(step_size));
      in.push_back(Tensor::scalar(correction));
      std::vector<Bounded> parameters, firsts, seconds;
      for (std::size_t i = 0; i < 500; ++i) {
        const double p = in[0].f32()[i], raw = in[1].f32()[i], m = in[2].f32()[i],
                     v = in[3].f32()[i], wd = a.weight_decay;
        const double g = raw + wd * p, new_m = b1 * m + (1 - b1) * g,
                     new_v = b2 * v + (1 - b2) * g * g;
        const double exact = p - rate * (new_m / (1 - std::pow(b1, step))) /
                                     (std::sqrt(new_v / (1 - std::pow(b2, step))) + a.epsilon);
        const Bounded g_b = decay == 0 ? Bounded(raw) : fma(wd, p, raw);
        const Bounded m_b = fma(b1, m, (Bounded(1) - Bounded(b1)) * g_b);
        const Bounded v_b = fma(b2, v, ((Bounded(1) - Bounded(b2)) * g_b) * g_b);
        const Bounded root = fma(sqrt(v_b), rounded(correction, 0), a.epsilon);
        firsts.emplace_back(new_m, m_b.error);
        seconds.emplace_back(new_v, v_b.error);
        parameters.emplace_back(exact, fma(-rounded(step_size, 0), m_b / root, p).error);
      }
      const std::vector<Tensor> out = run_reference(adam_update_op, a, in);
      const std::string what = cat("adam_update of step ", step);
      expect_within(out[0], parameters, what + " parameter", 1e-6);
      expect_within(out[1], firsts, what + " m", 1e-6);
      expect_within(out[2], seconds, what + " v", 1e-6);
    }
  }
}

// --- dropout

TEST(PlainFormula, dropout_masks_keep_the_share_they_should) {
  for (const float rate : {0.0f, 0.3f, 0.5f, 0.9f}) {
    const DropoutMaskAttributes a{.rate = rate, .seed = 77, .layer = 1, .shape = {64, 500}};
    const Tensor mask =
        run_reference(dropout_mask_op, a, {Tensor::scalar(9u), Tensor::scalar(0u)})[0];
    std::int64_t kept = 0;
    for (const float factor : mask.f32()) {
      EXPECT_TRUE(factor == 0 || std::abs(factor * (1 - double{rate}) - 1) < 4 * kUnit) << factor;
      kept += factor != 0 ? 1 : 0;
    }
    const double n = 64 * 500, deviation = std::sqrt(n * rate * (1 - rate));
    EXPECT_NEAR(static_cast<double>(kept), n * (1 - rate), 5 * deviation);
  }
}

TEST(PlainFormula, dropout_masks_are_a_function_of_the_example_and_not_of_its_replica) {
  const auto mask = [](std::uint32_t step, std::uint32_t replica, std::int64_t images) {
    const DropoutMaskAttributes a{.rate = 0.5f, .seed = 7, .layer = 2, .shape = {images, 50}};
    const Tensor tensor =
        run_reference(dropout_mask_op, a, {Tensor::scalar(step), Tensor::scalar(replica)})[0];
    return Numbers(tensor.f32().begin(), tensor.f32().end());
  };
  const Numbers whole = mask(3, 0, 24);
  for (std::uint32_t replica = 0; replica < 3; ++replica) {
    EXPECT_EQ(mask(3, replica, 8),
              Numbers(whole.begin() + 400 * replica, whole.begin() + 400 * (replica + 1)));
  }
  EXPECT_NE(mask(4, 0, 24), whole);
}

}  // namespace
}  // namespace podium
