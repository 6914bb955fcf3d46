// What a step and an evaluation need beside the network: means, the norm of all gradients, hashes,
// guesses, views of images.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/numerics/hash.h"
#include "base/numerics/view.h"
#include "base/scratch_test_util.h"
#include "ops/plain_test_util.h"

namespace podium {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor f32_of(const Shape& shape, const std::vector<float>& values) {
  Tensor tensor(DType::kF32, shape);
  std::ranges::copy(values, tensor.f32().begin());
  return tensor;
}
Tensor flat(const std::vector<float>& values) {
  return f32_of(Shape{static_cast<std::int64_t>(values.size())}, values);
}

// What is wrong with a call of the operation.
std::string refusal(const OpDef& op, const Attributes& attributes, std::vector<TensorType> types) {
  return user_error(ExitCode::kUsage, [&] { op.infer({op.name, attributes, types}); });
}
TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

TEST(PlainFormula, divide_and_multiply_by_are_rounded_once) {
  for (const OpSample& sample : divide_op.samples()) {
    const std::vector<Tensor> in = random_inputs(sample, 400);
    const double divisor = sample.attributes.as<DivideAttributes>().divisor;
    check_elements(divide_op, sample, in,
                   [&](std::size_t i) { return rounded(in[0].f32()[i] / divisor, 0); });
  }
  for (const OpSample& sample : multiply_by_op.samples()) {
    const std::vector<Tensor> in = random_inputs(sample, 410);
    check_elements(multiply_by_op, sample, in, [&](std::size_t i) {
      return rounded(double{in[0].f32()[i]} * in[1].f32()[0], 0);
    });
  }
}

TEST(StepOps, a_quotient_is_not_the_product_by_the_reciprocal) {
  const Tensor out = run_reference(divide_op, DivideAttributes{3}, {flat({5, -0.0f, kNan})})[0];
  EXPECT_EQ(out.f32()[0], 5.0f / 3.0f);
  EXPECT_NE(out.f32()[0], 5.0f * (1.0f / 3.0f));
  EXPECT_TRUE(std::signbit(out.f32()[1]));
  EXPECT_TRUE(std::isnan(out.f32()[2]));
}

TEST(StepOps, square_sums_are_the_runs_of_the_sum_of_squares) {
  for (const std::int64_t count :
       {std::int64_t{1}, kSquareRun - 1, kSquareRun, kSquareRun + 1, 3 * kSquareRun + 17}) {
    const Tensor x = random_f32(Shape{count}, static_cast<std::uint32_t>(420 + count));
    const Tensor sums = run_reference(square_sums_op, {}, {x})[0];
    ASSERT_EQ(sums.elements(), (count + kSquareRun - 1) / kSquareRun);
    for (std::int64_t run = 0; run < sums.elements(); ++run) {
      SumBound exact;
      for (std::int64_t i = run * kSquareRun; i < std::min(count, (run + 1) * kSquareRun); ++i)
        exact.add(double{x.f32()[u(i)]} * x.f32()[u(i)]);
      const Bounded bound = exact.bound(kSquareRun / 16 + 4);
      EXPECT_NEAR(sums.f32()[u(run)], bound.value, bound.error);
    }
    EXPECT_EQ(tree_sum(0, sums.elements(), [&](std::int64_t run) { return sums.f32()[u(run)]; }),
              sum_of_squares(x.f32()));
  }
}

TEST(StepOps, the_global_norm_adds_the_runs_of_each_parameter_and_then_the_parameters) {
  // The second term is lost beside the first, and counts beside the third. No sum of squares is
  // below 0; here one is, so that the order shows.
  const float t = 0x1p-24f;
  const auto norm = [&](std::vector<std::int64_t> first_runs) {
    return run_reference(global_norm_op, GlobalNormAttributes{std::move(first_runs)},
                         {flat({1, t, -1, t})})[0]
        .f32()[0];
  };
  EXPECT_EQ(norm({0, 4}), std::sqrt(t));            // (1 + t) + (-1 + t)
  EXPECT_EQ(norm({0, 2, 4}), std::sqrt(t));         // the same
  EXPECT_EQ(norm({0, 1, 4}), std::sqrt(2 * t));     // 1 + ((t - 1) + t)
  EXPECT_EQ(norm({0, 1, 3, 4}), std::sqrt(2 * t));  // (1 + (t - 1)) + t
  EXPECT_EQ(
      run_reference(global_norm_op, GlobalNormAttributes{{0, 1, 2}}, {flat({9, 16})})[0].f32()[0],
      5);
}

TEST(StepOps, the_clip_factor_is_one_up_to_the_limit) {
  EXPECT_EQ(clip_factor(2, 2), 1);
  EXPECT_EQ(clip_factor(0, 2), 1);
  EXPECT_EQ(clip_factor(std::nextafter(2.0f, 3.0f), 2), 2 / std::nextafter(2.0f, 3.0f));
  EXPECT_EQ(clip_factor(6, 2), 2.0f / 6.0f);
  EXPECT_EQ(clip_factor(kInfinity, 2), 0);
  EXPECT_TRUE(std::isnan(clip_factor(kNan, 2)));
}

TEST(StepOps, hash_sums_of_shares_add_up_to_that_of_the_tensor) {
  const Tensor x = random_f32(Shape{1001}, 430);
  const auto sum = [&](std::size_t begin, std::size_t end) {
    const auto part = x.f32().subspan(begin, end - begin);
    const Tensor words =
        run_reference(hash_sum_op, HashSumAttributes{begin}, {flat({part.begin(), part.end()})})[0];
    return words.u32()[0] + (std::uint64_t{words.u32()[1]} << 32);
  };
  EXPECT_EQ(sum(0, 1001), hash_sum(x.f32()));
  EXPECT_EQ(sum(0, 400) + sum(400, 1001), hash_sum(x.f32()));
  EXPECT_NE(sum(0, 1000), hash_sum(x.f32()));
}

TEST(StepOps, argmax_is_the_first_of_equals_and_minus_one_for_a_row_with_a_nan) {
  const Tensor x = f32_of({7, 3}, {1,          3,          3,           //
                                   -0.0f,      0,          0,           //
                                   -kInfinity, -kInfinity, -kInfinity,  //
                                   kNan,       5,          6,           //
                                   7,          8,          kNan,        //
                                   -3,         -2,         -1,          //
                                   1,          kInfinity,  2});
  const Tensor guesses = run_reference(argmax_op, {}, {x})[0];
  const std::vector<std::int32_t> expected = {1, 0, 0, -1, -1, 2, 1};
  EXPECT_TRUE(std::ranges::equal(guesses.i32(), expected));
}

// In docs/numerics.md's words, of one plane: the image padded by reflection and cropped.
std::vector<float> plain_view(std::int64_t index, std::int64_t height, std::int64_t width,
                              std::span<const float> image) {
  const auto at = [&](std::int64_t y, std::int64_t x) {
    y = y < 0 ? 1 : y == height ? height - 2 : y;
    x = x < 0 ? 1 : x == width ? width - 2 : x;
    return image[u(y * width + x)];
  };
  const std::int64_t moved = index < 2 ? 0 : index < 4 ? -1 : 1;
  std::vector<float> out;
  for (std::int64_t y = 0; y < height; ++y) {
    std::vector<float> row;
    for (std::int64_t x = 0; x < width; ++x) row.push_back(at(y + moved, x + moved));
    if (index % 2 != 0) {  // the mirror image of the image, shifted afterwards
      row.clear();
      for (std::int64_t x = 0; x < width; ++x) row.push_back(at(y + moved, width - 1 - x + moved));
    }
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

TEST(StepOps, a_view_shows_each_plane_mirrored_and_shifted) {
  const Tensor one = f32_of({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto view_of = [](const Tensor& x, std::int64_t views, std::int64_t index) {
    const Tensor out = run_reference(view_op, ViewAttributes{views, index}, {x})[0];
    EXPECT_EQ(out.shape(), x.shape());
    return std::vector<float>(out.f32().begin(), out.f32().end());
  };
  EXPECT_EQ(view_of(one, 2, 1), (std::vector<float>{4, 3, 2, 1, 8, 7, 6, 5}));
  EXPECT_EQ(view_of(one, 6, 2), (std::vector<float>{6, 5, 6, 7, 2, 1, 2, 3}));
  EXPECT_EQ(view_of(one, 6, 3), (std::vector<float>{7, 6, 5, 6, 3, 2, 1, 2}));
  EXPECT_EQ(view_of(one, 6, 4), (std::vector<float>{6, 7, 8, 7, 2, 3, 4, 3}));
  EXPECT_EQ(view_of(one, 6, 5), (std::vector<float>{7, 8, 7, 6, 3, 4, 3, 2}));
  const Tensor x = random_f32(Shape{3, 2, 5, 4}, 440);
  for (std::int64_t index = 0; index < 6; ++index) {
    std::vector<float> expected;
    for (std::size_t plane = 0; plane < 6; ++plane) {
      const auto shown = plain_view(index, 5, 4, x.f32().subspan(plane * 20, 20));
      expected.insert(expected.end(), shown.begin(), shown.end());
    }
    EXPECT_EQ(view_of(x, 6, index), expected) << index;
  }
}

// mean = (first view ? 0 : mean) + weight * logits, of evaluation.
TEST(StepOps, fill_scale_and_add_give_the_bits_of_the_mean_over_views) {
  const std::vector<float> values = {1.5f,      -0.0f,   0.0f,  3e-39f, -1e-45f,   1e-45f, 5e-45f,
                                     1.18e-38f, -7e-45f, 3e38f, -2.7f,  kInfinity, kNan,   -0.3f};
  Tensor logits[3];
  for (std::size_t i = 0; i < 3; ++i) {  // each with each of the others, some at a distance
    std::vector<float> all;
    for (std::size_t k = 0; k < values.size() * values.size(); ++k)
      all.push_back(i == 0 ? values[k % values.size()]
                           : values[(k / values.size() + 5 * (i - 1)) % values.size()]);
    logits[i] = flat(all);
  }
  const std::array<float, 3> weights = {0.25f, 0.125f, 0.5f};
  Tensor mean = run_reference(fill_op, FillAttributes{0, logits[0].shape()}, {})[0];
  std::vector<float> expected(u(mean.elements()));
  bool differs = false;
  for (std::size_t view = 0; view < 3; ++view) {
    const Tensor fused =
        run_reference(combine_op, CombineAttributes{weights[view], 1}, {logits[view], mean})[0];
    const Tensor weighted =
        run_reference(scale_op, ScaleAttributes{weights[view]}, {logits[view]})[0];
    mean = run_reference(add_op, {}, {mean, weighted})[0];
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] = (view == 0 ? 0.0f : expected[i]) + weights[view] * logits[view].f32()[i];
      if (std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(mean.f32()[i]));
        continue;
      }
      const auto bits = std::bit_cast<std::uint32_t>(expected[i]);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(mean.f32()[i]), bits) << view << " " << i;
      differs = differs || std::bit_cast<std::uint32_t>(fused.f32()[i]) != bits;
    }
  }
  // One rounding is not enough: a product below the normal numbers is rounded, too.
  EXPECT_TRUE(differs);
}

TEST(StepOps, calls_outside_their_rules_are_refused_by_name) {
  const TensorType scalar = f32(Shape{});
  EXPECT_CONTAINS(refusal(divide_op, DivideAttributes{0}, {f32({4})}), "finite and not 0, got 0");
  EXPECT_CONTAINS(refusal(divide_op, DivideAttributes{kInfinity}, {f32({4})}), "finite and not 0");
  EXPECT_CONTAINS(refusal(multiply_by_op, {}, {f32({4}), f32({4})}), "must be a scalar f32[]");
  EXPECT_CONTAINS(refusal(square_sums_op, {}, {f32({4, 2})}), "needs f32 [n], got f32[4, 2]");
  EXPECT_CONTAINS(refusal(global_norm_op, GlobalNormAttributes{{0, 3}}, {f32({4})}),
                  "end with the number of sums, 4");
  EXPECT_CONTAINS(refusal(global_norm_op, GlobalNormAttributes{{0}}, {f32({4})}), "begin with 0");
  EXPECT_CONTAINS(refusal(global_norm_op, GlobalNormAttributes{{0, 2, 2, 4}}, {f32({4})}),
                  "must rise");
  EXPECT_CONTAINS(refusal(clip_factor_op, ClipFactorAttributes{0}, {scalar}), "must be above 0");
  EXPECT_CONTAINS(refusal(clip_factor_op, ClipFactorAttributes{1}, {f32({1})}), "must be a scalar");
  EXPECT_CONTAINS(refusal(hash_sum_op, HashSumAttributes{3}, {f32({4})}), "even place, not at 3");
  EXPECT_CONTAINS(refusal(argmax_op, {}, {f32({4})}), "needs f32 [N, K]");
  EXPECT_CONTAINS(refusal(view_op, ViewAttributes{3, 0}, {f32({1, 1, 4, 4})}), "3 views;");
  EXPECT_CONTAINS(refusal(view_op, ViewAttributes{2, 2}, {f32({1, 1, 4, 4})}),
                  "view 2 is not one of 2");
  EXPECT_CONTAINS(refusal(view_op, ViewAttributes{6, 0}, {f32({1, 1, 1, 4})}),
                  "at least 2 x 2 pixels");
}

}  // namespace
}  // namespace podium
