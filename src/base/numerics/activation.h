// The activations and their scalar functions, whose bits are the contract
// (docs/numerics.md, Functions). GELU: Hendrycks, Gimpel (2016), with the normal distribution
// itself, or with 0.5 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) in its place, which is the
// logistic function of twice that argument; SiLU: Elfwing, Uchibe, Doya (2018), x times the
// logistic function.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/numerics/device_function.h"
#include "base/numerics/functions.h"

namespace podium {

// The kind of an activation function. kNone is the identity.
enum class ActivationKind : std::uint8_t { kNone, kRelu, kLeakyRelu, kGelu, kSilu, kGeluTanh };

// An activation with its parameter.
struct Activation {
  ActivationKind kind = ActivationKind::kNone;
  float slope = 0;  // slope of kLeakyRelu below zero; 0 for the others
  bool operator==(const Activation&) const = default;
};

// One activation of each kind, for tests and benchmarks.
inline constexpr Activation kActivations[] = {
    {ActivationKind::kNone}, {ActivationKind::kRelu}, {ActivationKind::kLeakyRelu, 0.1f},
    {ActivationKind::kGelu}, {ActivationKind::kSilu}, {ActivationKind::kGeluTanh}};

// Whether the activation costs more than a store and a load. Results of the other activations need
// not be kept; their readers can recompute them.
constexpr bool is_costly(ActivationKind kind) {
  return kind == ActivationKind::kGelu || kind == ActivationKind::kSilu ||
         kind == ActivationKind::kGeluTanh;
}

namespace internal {

// The upper tail of the normal distribution, Q(a) = t (c0 + c1 t + ... + c5 t^5) exp(-a^2 / 2) with
// t = 1 / (1 + 0.28 a), fitted by us: within 1e-8 of the exact value for all a >= 0.
inline constexpr float kTailScale = 0.28f;
// Device code reads no array of the host's, but has a constant of this type of its own.
struct Tail {
  float c[6] = {0.11652078f, 0.067496756f, 0.26891016f, -0.23699347f, 0.38987401f, -0.10580823f};
};
inline constexpr Tail kTail;
inline constexpr float kInvSqrtTwoPi = 0.39894228f;

// The normal distribution at x, and exp(-x^2 / 2).
struct Normal {
  float below, bell;
};
PODIUM_DEVICE_FUNCTION inline Normal normal_f32(float x) {
  const float a = std::abs(x);
  const float bell = exp_f32(-0.5f * (a * a));
  const float t = 1.0f / std::fma(kTailScale, a, 1.0f);
  constexpr Tail coefficients;
  float p = coefficients.c[5];
  for (int i = 4; i >= 0; --i) p = std::fma(p, t, coefficients.c[i]);
  const float tail = (p * t) * bell;
  return {x > 0 ? 1.0f - tail : tail, bell};
}
// Of GELU by tanh: sqrt(8 / pi), and that times 0.044715, and three times that.
inline constexpr float kTanhLinear = 1.5957691f, kTanhCubic = 0.071354814f,
                       kTanhSlope = 0.21406445f;

}  // namespace internal

// The activation of x.
PODIUM_DEVICE_FUNCTION inline float activate_f32(const Activation& a, float x) {
  switch (a.kind) {
    case ActivationKind::kNone: return x;
    case ActivationKind::kRelu: return x > 0 || x != x ? x : 0.0f;
    case ActivationKind::kLeakyRelu: return x > 0 ? x : a.slope * x;
    case ActivationKind::kGelu: return x * internal::normal_f32(x).below;
    case ActivationKind::kSilu: return x * logistic_f32(x);
    case ActivationKind::kGeluTanh: {
      const float w = x * std::fma(internal::kTanhCubic, x * x, internal::kTanhLinear);
      return x * logistic_f32(w);
    }
  }
  return x;
}

// dy times the derivative at x.
PODIUM_DEVICE_FUNCTION inline float activate_grad_f32(const Activation& a, float dy, float x) {
  switch (a.kind) {
    case ActivationKind::kNone: return dy;
    case ActivationKind::kRelu: return x > 0 ? dy : 0.0f;
    case ActivationKind::kLeakyRelu: return x > 0 ? dy : a.slope * dy;
    case ActivationKind::kGelu: {
      const internal::Normal n = internal::normal_f32(x);
      return dy * std::fma(x * n.bell, internal::kInvSqrtTwoPi, n.below);
    }
    case ActivationKind::kSilu: {
      const float s = logistic_f32(x);
      return dy * (s * std::fma(x, 1.0f - s, 1.0f));
    }
    case ActivationKind::kGeluTanh: {
      const float square = x * x;
      const float w = x * std::fma(internal::kTanhCubic, square, internal::kTanhLinear);
      const float s = logistic_f32(w);
      const float slope = std::fma(internal::kTanhSlope, square, internal::kTanhLinear);
      return dy * std::fma(x * (s * (1.0f - s)), slope, s);
    }
  }
  return dy;
}

}  // namespace podium
