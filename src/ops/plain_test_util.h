// What the tests of operations against plain formulas in double share: inputs, and the check of
// operations that treat each element alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/bounds_test.h"

namespace podium {

using Numbers = std::vector<double>;

inline std::size_t u(std::int64_t i) { return static_cast<std::size_t>(i); }

// exp and log of base/numerics/functions.h are within 2 ULP (its test), at most 4 u of the result;
// below the normal numbers exp gives 0.
inline Bounded exp_of(Bounded x) {
  const double value = std::exp(x.value), carried = value * std::expm1(x.error);
  return {value, carried + 4 * kUnit * (value + carried) + 0x1p-126};
}

// The indices of channel c of x.
inline std::vector<std::size_t> channel_indices(const Planes& p, std::int64_t c) {
  std::vector<std::size_t> indices;
  for (std::int64_t n = 0; n < p.images; ++n)
    for (std::int64_t i = 0; i < p.pixels(); ++i) indices.push_back(u(p.offset(n, c) + i));
  return indices;
}

inline std::string name_of(const OpDef& op, const OpSample& sample) {
  std::string text = cat(op.name, " {", sample.attributes.text(), "}");
  for (const TensorType& type : sample.inputs) text = cat(text, " ", to_string(type));
  return text;
}

inline std::vector<Tensor> random_inputs(const OpSample& sample, std::uint32_t stream) {
  std::vector<Tensor> inputs;
  for (const TensorType& type : sample.inputs)
    inputs.push_back(type.dtype == DType::kI32
                         ? random_labels(type.shape[0], sample.inputs[0].shape[1], ++stream)
                         : random_f32(type.shape, ++stream));
  return inputs;
}

// Calls f(result's index, indices of its window's pixels) for each window of x.
template <typename F>
void for_each_pool_window(const Shape& x, const PoolAttributes& a, const F& f) {
  const std::int64_t down = a.stride_h > 0 ? a.stride_h : a.window_h,
                     right = a.stride_w > 0 ? a.stride_w : a.window_w;
  std::size_t out = 0;
  for (std::int64_t plane = 0; plane < x[0] * x[1]; ++plane) {
    for (std::int64_t i = -a.pad_top; i + a.window_h <= x[2] + a.pad_bottom; i += down) {
      for (std::int64_t j = -a.pad_left; j + a.window_w <= x[3] + a.pad_right; j += right, ++out) {
        std::vector<std::size_t> pixels;
        for (std::int64_t h = i; h < i + a.window_h; ++h)
          for (std::int64_t w = j; w < j + a.window_w; ++w)
            if (h >= 0 && h < x[2] && w >= 0 && w < x[3])
              pixels.push_back(u((plane * x[2] + h) * x[3] + w));
        f(out, pixels);
      }
    }
  }
}

// The largest of each window of 2x2: no further off than the pixel that is furthest off.
inline std::vector<Bounded> largest_of_windows(const Shape& x, const std::vector<Bounded>& pixels) {
  std::vector<Bounded> result;
  for_each_pool_window(x, PoolAttributes(),
                       [&](std::size_t, const std::vector<std::size_t>& window) {
                         Bounded most = pixels[window[0]];
                         for (const std::size_t i : window) {
                           most.value = std::max(most.value, pixels[i].value);
                           most.error = std::max(most.error, pixels[i].error);
                         }
                         result.push_back(most);
                       });
  return result;
}

// Of an operation that treats each element alone: f(element index) is what it should give.
template <typename F>
void check_elements(const OpDef& op, const OpSample& sample, const std::vector<Tensor>& inputs,
                    const F& f, double sharpness = 1e-6) {
  std::vector<Bounded> expected;
  for (std::size_t i = 0; i < inputs[0].f32().size(); ++i) expected.push_back(f(i));
  expect_within(run_reference(op, sample.attributes, inputs)[0], expected, name_of(op, sample),
                sharpness);
}

// An activation and its derivative as one would write them on paper, in double.
inline double activation_of(const Activation& a, double x) {
  switch (a.kind) {
    case ActivationKind::kRelu: return std::max(0.0, x);
    case ActivationKind::kLeakyRelu: return x > 0 ? x : double{a.slope} * x;
    case ActivationKind::kGelu: return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case ActivationKind::kSilu: return x / (1 + std::exp(-x));
    case ActivationKind::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case ActivationKind::kNone: break;
  }
  return x;
}
inline double derivative_of(const Activation& a, double x) {
  switch (a.kind) {
    case ActivationKind::kRelu: return x > 0 ? 1 : 0;
    case ActivationKind::kLeakyRelu: return x > 0 ? 1 : double{a.slope};
    case ActivationKind::kGelu:
      return 0.5 * std::erfc(-x / std::sqrt(2.0)) +
             x * std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
    case ActivationKind::kSilu: {
      const double s = 1 / (1 + std::exp(-x));
      return s * (1 + x * (1 - s));
    }
    case ActivationKind::kGeluTanh: {
      const double c = std::sqrt(2 / std::acos(-1.0)),
                   t = std::tanh(c * (x + 0.044715 * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
    }
    case ActivationKind::kNone: break;
  }
  return 1;
}
// Exact but for the functions: exp errs by 2 ULP, the tail by 1e-8 and seven roundings of at most
// 1/2, the logistic function by some ULP of at most 1; of GELU by tanh its argument is rounded
// three times and its slope twice.
inline double function_error(const Activation& a) {
  if (a.kind == ActivationKind::kGeluTanh) return 12 * kUnit;
  return a.kind == ActivationKind::kGelu || a.kind == ActivationKind::kSilu ? 6 * kUnit : 0;
}

}  // namespace podium
