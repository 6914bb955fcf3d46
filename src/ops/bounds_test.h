// For the tests of the reference loops against plain formulas in double: numbers that carry a bound
// on what FP32 may have made of them.
//
// The model is IEEE's: an FP32 operation on exact operands returns its exact result times (1 + d),
// |d| <= u = 2^-24, plus at most 2^-150 where the result is subnormal. From it (Higham, Accuracy
// and Stability of Numerical Algorithms, chapters 2 to 4):
//   a sum or a chain of fma in which no term passes more than n roundings differs from the exact
//   sum by at most gamma(n) * (sum of the terms' absolute values), gamma(n) = n u / (1 - n u), in
//   any order of additions;
//   of a short formula each intermediate error is carried along: Bounded below.
// The double arithmetic of the tests themselves errs by 2^-29 of such bounds; expect_within()
// widens them by 2^-20 for that.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/numerics/philox.h"
#include "ops/ops.h"

namespace podium {

inline constexpr double kUnit = 0x1p-24;

inline double gamma_of(double roundings) { return roundings * kUnit / (1 - roundings * kUnit); }

// An exact value, and a bound on how far from it the FP32 number is.
struct Bounded {
  double value = 0, error = 0;

  Bounded() = default;
  Bounded(double exact) : value(exact) {}  // NOLINT(google-explicit-constructor): any FP32 number
  Bounded(double value_, double error_) : value(value_), error(error_) {}
};

// The result of one operation whose operands' errors alone bring `carried`.
inline Bounded rounded(double value, double carried) {
  return {value, carried + kUnit * (std::abs(value) + carried) + 0x1p-150};
}
inline Bounded operator+(Bounded a, Bounded b) {
  return rounded(a.value + b.value, a.error + b.error);
}
inline Bounded operator-(Bounded a) { return {-a.value, a.error}; }
inline Bounded operator-(Bounded a, Bounded b) { return a + -b; }
inline double product_error(Bounded a, Bounded b) {
  return std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error;
}
inline Bounded operator*(Bounded a, Bounded b) {
  return rounded(a.value * b.value, product_error(a, b));
}
inline Bounded fma(Bounded a, Bounded b, Bounded c) {
  return rounded(a.value * b.value + c.value, product_error(a, b) + c.error);
}
inline Bounded operator/(Bounded a, Bounded b) {
  // |a'/b' - a/b| = |(a' - a) - (a/b) (b' - b)| / |b'|
  const double quotient = a.value / b.value;
  EXPECT_GT(std::abs(b.value), b.error);
  return rounded(quotient,
                 (a.error + std::abs(quotient) * b.error) / (std::abs(b.value) - b.error));
}
inline Bounded sqrt(Bounded a) {
  // |sqrt(a') - sqrt(a)| <= |a' - a| / sqrt(a), and <= sqrt(|a' - a|)
  const double root = std::sqrt(a.value);
  return rounded(root,
                 root > 0 ? std::min(a.error / root, std::sqrt(a.error)) : std::sqrt(a.error));
}

// A sum or chain of terms of which none passes more than `roundings` roundings.
class SumBound {
 public:
  void add(double term, double error = 0) {
    value_ += term, size_ += std::abs(term), error_ += error;
  }
  Bounded bound(double roundings) const {
    return {value_, gamma_of(roundings) * (size_ + error_) + error_ + 0x1p-149 * roundings};
  }

 private:
  double value_ = 0, size_ = 0, error_ = 0;
};

inline double ceil_div(std::int64_t a, std::int64_t b) {
  return static_cast<double>((a + b - 1) / b);
}
// Roundings of a term in a lane sum over n terms (a chain of n / 16, the tree of 16), and in the
// sum of a channel: besides, the longest of the four chains of a plane, and their two additions.
inline double lane_depth(std::int64_t n) { return ceil_div(n, kSumLanes) + 4; }
inline double channel_depth(const Planes& p) {
  const double bands = ceil_div(p.height, kBandRows);
  return static_cast<double>(std::min(p.height, kBandRows)) * ceil_div(p.width, 4) + 2 +
         std::ceil(std::log2(bands)) + lane_depth(p.images);
}

// --- running the reference

inline Tensor random_f32(const Shape& shape, std::uint32_t stream, double low = -2,
                         double high = 2) {
  Tensor tensor(DType::kF32, shape);
  const PhiloxStream words(17, RandomPurpose::kInitialise, stream);
  for (std::int64_t i = 0; i < tensor.elements(); ++i)
    tensor.f32()[i] = static_cast<float>(
        low + (high - low) * uniform01(words.word(static_cast<std::uint32_t>(i))));
  return tensor;
}

inline Tensor random_labels(std::int64_t count, std::int64_t classes, std::uint32_t stream) {
  Tensor tensor(DType::kI32, Shape{count});
  const PhiloxStream words(17, RandomPurpose::kInitialise, stream);
  for (std::int64_t i = 0; i < count; ++i)
    tensor.i32()[i] = static_cast<std::int32_t>(uniform_below(
        words.word(static_cast<std::uint32_t>(i)), static_cast<std::uint32_t>(classes)));
  return tensor;
}

inline std::vector<Tensor> run_reference(const OpDef& op, const Attributes& attributes,
                                         const std::vector<Tensor>& inputs) {
  std::vector<TensorType> types;
  std::vector<const Tensor*> in;
  for (const Tensor& tensor : inputs) types.push_back(tensor.type()), in.push_back(&tensor);
  std::vector<Tensor> results;
  for (const TensorType& type : op.infer({op.name, attributes, types})) results.emplace_back(type);
  std::vector<Tensor*> out;
  for (Tensor& tensor : results) out.push_back(&tensor);
  op.reference(attributes, in, out);
  return results;
}

// Each element of `actual` lies within its bound of the plain formula's value; and the bounds say
// something: on average they are below `sharpness` of the values' size.
inline void expect_within(const Tensor& actual, const std::vector<double>& exact,
                          const std::vector<double>& bounds, const std::string& what,
                          double sharpness = 1e-3) {
  ASSERT_EQ(static_cast<std::size_t>(actual.elements()), exact.size()) << what;
  ASSERT_EQ(exact.size(), bounds.size()) << what;
  double size = 0, allowed = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double found = actual.f32()[i];
    ASSERT_LE(std::abs(found - exact[i]), bounds[i] * (1 + 0x1p-20))
        << what << ", element " << i << ": " << found << " for " << exact[i];
    size += std::abs(exact[i]), allowed += bounds[i];
  }
  EXPECT_LE(allowed, sharpness * size) << what << ": the bound is too wide to find anything";
}

inline void expect_within(const Tensor& actual, const std::vector<Bounded>& expected,
                          const std::string& what, double sharpness = 1e-3) {
  std::vector<double> exact, bounds;
  for (const Bounded& b : expected) exact.push_back(b.value), bounds.push_back(b.error);
  expect_within(actual, exact, bounds, what, sharpness);
}

}  // namespace podium
