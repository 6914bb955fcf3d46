#include "base/numerics/functions.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/numerics/philox.h"

namespace podium {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// |value - exact| in units of the last place of `exact` rounded to T.
template <typename T>
double ulps(T value, long double exact) {
  const T rounded = static_cast<T>(exact);
  const T unit =
      std::max(std::abs(std::nextafter(rounded, std::numeric_limits<T>::infinity()) - rounded),
               std::numeric_limits<T>::denorm_min());
  return static_cast<double>(std::abs(static_cast<long double>(value) - exact) /
                             static_cast<long double>(unit));
}

// The largest error of f over points uniform in [low, high].
template <typename T, typename F, typename Exact>
double worst(F f, Exact exact, double low, double high) {
  const PhiloxStream stream(1, RandomPurpose::kGlyphs);
  double error = 0;
  for (std::uint32_t i = 0; i < 200000; ++i) {
    const double u = (stream.word(2 * i) + stream.word(2 * i + 1) * 0x1p-32) * 0x1p-32;
    const T x = static_cast<T>(low + (high - low) * u);
    error = std::max(error, ulps(f(x), exact(static_cast<long double>(x))));
  }
  return error;
}

TEST(Functions, exp_f32_is_within_2_ulp) {
  const auto exact = [](long double x) { return std::exp(x); };
  EXPECT_LT(worst<float>(exp_f32, exact, -87.3, 88.7), 2);
  EXPECT_LT(worst<float>(exp_f32, exact, -20, 0), 2);
  EXPECT_LT(worst<float>(exp_f32, exact, -0.5, 0.5), 2);
}

TEST(Functions, log_f32_is_within_2_ulp) {
  const auto exact = [](long double x) { return std::log(x); };
  EXPECT_LT(worst<float>(log_f32, exact, 1, 16), 2);
  EXPECT_LT(worst<float>(log_f32, exact, 0.5, 2), 2);
  EXPECT_LT(worst<float>(log_f32, exact, 1e-30, 1e-3), 2);
  EXPECT_LT(worst<float>(log_f32, exact, 1e3, 3e38), 2);
}

TEST(Functions, tanh_f32_and_logistic_f32_are_within_3_ulp) {
  const auto hyperbolic = [](long double x) { return std::tanh(x); };
  EXPECT_LT(worst<float>(tanh_f32, hyperbolic, -0.625, 0.625), 2);
  EXPECT_LT(worst<float>(tanh_f32, hyperbolic, 0.625, 10), 2);
  EXPECT_LT(worst<float>(tanh_f32, hyperbolic, -10, 10), 2);
  EXPECT_LT(worst<float>(tanh_f32, hyperbolic, -1e-6, 1e-6), 2);
  const auto logistic = [](long double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_LT(worst<float>(logistic_f32, logistic, -20, 20), 3);
  EXPECT_LT(worst<float>(logistic_f32, logistic, -1, 1), 3);
}

TEST(Functions, tanh_f32_and_logistic_f32_at_their_ends) {
  const auto infinity = static_cast<float>(kInfinity);
  EXPECT_EQ(tanh_f32(0.0f), 0.0f);
  EXPECT_EQ(tanh_f32(infinity), 1.0f);
  EXPECT_EQ(tanh_f32(-infinity), -1.0f);
  EXPECT_EQ(tanh_f32(50.0f), 1.0f);
  EXPECT_EQ(tanh_f32(1e-40f), 1e-40f);
  EXPECT_LT(tanh_f32(std::nextafter(0.625f, 0.0f)), tanh_f32(0.6251f));
  EXPECT_TRUE(std::isnan(tanh_f32(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(logistic_f32(0.0f), 0.5f);
  EXPECT_EQ(logistic_f32(infinity), 1.0f);
  EXPECT_EQ(logistic_f32(-infinity), 0.0f);
  EXPECT_TRUE(std::isnan(logistic_f32(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Functions, exp_f32_at_its_ends) {
  EXPECT_EQ(exp_f32(0.0f), 1.0f);
  EXPECT_EQ(exp_f32(88.8f), static_cast<float>(kInfinity));
  EXPECT_EQ(exp_f32(static_cast<float>(kInfinity)), static_cast<float>(kInfinity));
  EXPECT_EQ(exp_f32(-88.0f), 0.0f);
  EXPECT_EQ(exp_f32(static_cast<float>(-kInfinity)), 0.0f);
  EXPECT_TRUE(std::isnan(exp_f32(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isfinite(exp_f32(88.72283f)));
  EXPECT_GT(exp_f32(-87.33654f), 0.0f);
}

TEST(Functions, log_f32_at_its_ends) {
  EXPECT_EQ(log_f32(1.0f), 0.0f);
  EXPECT_EQ(log_f32(0.0f), static_cast<float>(-kInfinity));
  EXPECT_EQ(log_f32(-0.0f), static_cast<float>(-kInfinity));
  EXPECT_EQ(log_f32(1e-40f), static_cast<float>(-kInfinity));
  EXPECT_EQ(log_f32(static_cast<float>(kInfinity)), static_cast<float>(kInfinity));
  EXPECT_TRUE(std::isnan(log_f32(-1.0f)));
  EXPECT_TRUE(std::isnan(log_f32(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Functions, exp_f64_is_within_2_ulp) {
  const auto exact = [](long double x) { return std::exp(x); };
  EXPECT_LT(worst<double>(exp_f64, exact, -708.3, 709.7), 2);
  EXPECT_LT(worst<double>(exp_f64, exact, -15, 0), 2);
  EXPECT_EQ(exp_f64(0), 1);
  EXPECT_EQ(exp_f64(-1000), 0);
  EXPECT_EQ(exp_f64(1000), kInfinity);
}

TEST(Functions, log_f64_is_within_2_ulp) {
  const auto exact = [](long double x) { return std::log(x); };
  EXPECT_LT(worst<double>(log_f64, exact, 0, 1), 2);
  EXPECT_LT(worst<double>(log_f64, exact, 0.5, 2), 2);
  EXPECT_LT(worst<double>(log_f64, exact, 1, 1e300), 2);
  EXPECT_EQ(log_f64(1), 0);
  EXPECT_EQ(log_f64(0), -kInfinity);
}

TEST(Functions, sine_and_cosine_of_turns_are_within_2_ulp) {
  const long double two_pi = 6.283185307179586476925286766559L;
  // Away from a zero of the function, whose exact position long double cannot name.
  const auto sine = [&](long double x) { return std::sin(two_pi * x); };
  const auto cosine = [&](long double x) { return std::cos(two_pi * x); };
  EXPECT_LT(worst<double>(sin_2pi, sine, 1e-9, 0.499), 2);
  EXPECT_LT(worst<double>(sin_2pi, sine, 0.501, 0.999), 2);
  EXPECT_LT(worst<double>(cos_2pi, cosine, 0.251, 0.749), 2);
  EXPECT_LT(worst<double>(cos_2pi, cosine, -0.249, 0.249), 2);
  EXPECT_EQ(sin_2pi(0), 0);
  EXPECT_EQ(cos_2pi(0), 1);
  EXPECT_EQ(cos_2pi(0.5), -1);
  EXPECT_EQ(sin_2pi(0.25), 1);
  EXPECT_EQ(sin_2pi(-0.25), -1);
  EXPECT_EQ(cos_2pi(1000.25), 0);
}

TEST(Functions, power_multiplies_by_squaring) {
  EXPECT_EQ(power(3, 0), 1);
  EXPECT_EQ(power(3, 5), 243);
  EXPECT_NEAR(power(0.999, 5616), std::pow(0.999, 5616), 1e-15);
}

}  // namespace
}  // namespace podium
