#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/numerics/philox.h"
#include "nn/network.h"

namespace podium {
namespace {

Parameter parameter(Initialiser initialiser) {
  return {
      .name = "w", .shape = {200, 301}, .initialiser = initialiser, .fan_in = 300, .fan_out = 200};
}

struct Moments {
  double mean = 0, deviation = 0, low = 0, high = 0;
};

Moments moments(const Tensor& tensor) {
  Moments m;
  const auto n = static_cast<double>(tensor.elements());
  for (const float x : tensor.f32()) m.mean += x / n;
  for (const float x : tensor.f32()) m.deviation += (x - m.mean) * (x - m.mean) / n;
  m.deviation = std::sqrt(m.deviation);
  m.low = *std::ranges::min_element(tensor.f32());
  m.high = *std::ranges::max_element(tensor.f32());
  return m;
}

void expect_uniform(const Tensor& tensor, double bound) {
  const Moments m = moments(tensor);
  // Five deviations of the mean of 60,200 draws; the range is reached to a thousandth.
  EXPECT_NEAR(m.mean, 0, 5 * bound / std::sqrt(3.0 * 60200));
  EXPECT_NEAR(m.deviation, bound / std::sqrt(3.0), 0.01 * bound);
  EXPECT_GE(m.low, -bound);
  EXPECT_LT(m.low, -0.999 * bound);
  EXPECT_LE(m.high, bound);
  EXPECT_GT(m.high, 0.999 * bound);
}

TEST(Initialiser, glorot_uniform_spreads_by_both_fans) {
  expect_uniform(initial_value(parameter(Initialiser::kGlorotUniform), 0, 0), std::sqrt(6.0 / 500));
}

TEST(Initialiser, fan_in_uniform_spreads_by_the_inputs) {
  expect_uniform(initial_value(parameter(Initialiser::kFanInUniform), 0, 0), 1 / std::sqrt(300.0));
}

TEST(Initialiser, fan_in_unit_spreads_by_the_inputs_to_unit_variance) {
  expect_uniform(initial_value(parameter(Initialiser::kFanInUnit), 0, 0), std::sqrt(3.0 / 300));
}

TEST(Initialiser, fan_out_normal_has_the_moments_of_a_normal_distribution) {
  const Tensor tensor = initial_value(parameter(Initialiser::kFanOutNormal), 0, 0);
  const double deviation = std::sqrt(2.0 / parameter(Initialiser::kFanOutNormal).fan_out);
  const auto count = static_cast<double>(tensor.elements());
  double mean = 0, square = 0, fourth = 0, inside = 0;
  for (const float value : tensor.f32()) {
    const double x = value / deviation;
    mean += x / count, square += x * x / count, fourth += x * x * x * x / count;
    inside += (std::abs(x) < 1 ? 1 : 0) / count;
  }
  EXPECT_NEAR(mean, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(square, 1, 5 * std::sqrt(2 / count));
  EXPECT_NEAR(fourth, 3, 5 * std::sqrt(96 / count));
  EXPECT_NEAR(inside, 0.6827, 5 * 0.47 / std::sqrt(count));
}

TEST(Initialiser, identity_passes_the_channels_through_its_first_filters) {
  Parameter p = parameter(Initialiser::kIdentity);
  p.shape = {5, 3, 3, 3}, p.fan_in = 27;
  const Tensor tensor = initial_value(p, 3, 1);
  for (std::size_t k = 0; k < 3; ++k)
    for (std::size_t i = 0; i < 27; ++i)
      EXPECT_EQ(tensor.f32()[k * 27 + i], i == k * 9 + 4 ? 1.0f : 0.0f);
  for (std::size_t i = 81; i < 135; ++i) {
    EXPECT_NE(tensor.f32()[i], 0.0f);
    EXPECT_LE(std::abs(tensor.f32()[i]), 1 / std::sqrt(27.0));
  }
}

TEST(Initialiser, unit_deviation_has_it) {
  const Tensor tensor = initial_value(parameter(Initialiser::kUnitDeviation), 0, 0);
  const auto count = static_cast<double>(tensor.elements());
  double mean = 0, square = 0;
  for (const float x : tensor.f32()) mean += x / count;
  for (const float x : tensor.f32()) square += (x - mean) * (x - mean) / (count - 1);
  EXPECT_NEAR(std::sqrt(square), 1, 1e-6);
}

TEST(Initialiser, zeros_and_ones_are_what_they_say) {
  const Tensor zeros = initial_value(parameter(Initialiser::kZeros), 0, 0);
  const Tensor ones = initial_value(parameter(Initialiser::kOnes), 0, 0);
  EXPECT_EQ(std::ranges::count(zeros.f32(), 0.0f), zeros.elements());
  EXPECT_EQ(std::ranges::count(ones.f32(), 1.0f), ones.elements());
}

TEST(Initialiser, has_the_shape_of_the_parameter) {
  for (const Initialiser initialiser : {Initialiser::kGlorotUniform, Initialiser::kZeros})
    EXPECT_EQ(initial_value(parameter(initialiser), 0, 0).type(),
              (TensorType{DType::kF32, {200, 301}}));
}

TEST(Initialiser, is_a_function_of_seed_and_position) {
  const auto values = [](std::uint64_t seed, std::uint32_t position) {
    const Tensor tensor = initial_value(parameter(Initialiser::kGlorotUniform), seed, position);
    return std::vector<float>(tensor.f32().begin(), tensor.f32().end());
  };
  EXPECT_EQ(values(4, 2), values(4, 2));
  EXPECT_NE(values(4, 2), values(5, 2));
  EXPECT_NE(values(4, 2), values(4, 3));
  EXPECT_NE(values(4, 2), values(4 + (1ull << 32), 2));
}

TEST(Initialiser, element_i_is_word_i_of_the_parameters_stream) {
  const Tensor tensor = initial_value(parameter(Initialiser::kGlorotUniform), 9, 6);
  const PhiloxStream stream(9, RandomPurpose::kInitialise, 6);
  for (std::uint32_t i = 0; i < 10; ++i) {
    const double expected = std::sqrt(6.0 / 500) * (2.0 * uniform01(stream.word(i)) - 1);
    EXPECT_EQ(tensor.f32()[i], static_cast<float>(expected)) << i;
  }
}

TEST(Initialiser, a_count_that_four_does_not_divide_has_the_same_first_elements) {
  Parameter whole = parameter(Initialiser::kFanInUniform), part = whole;
  whole.shape = {8}, part.shape = {7};
  const Tensor a = initial_value(whole, 1, 1), b = initial_value(part, 1, 1);
  EXPECT_TRUE(std::ranges::equal(a.f32().first(7), b.f32()));
}

}  // namespace
}  // namespace podium
