// exp and log of base/numerics/functions.h and the activations of base/numerics/activation.h on the
// virtual vector of 16, with the same bits. Included once for each target.
#if defined(PODIUM_BACKEND_CPU_KERNELS_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PODIUM_BACKEND_CPU_KERNELS_FUNCTIONS_INL_H_
#undef PODIUM_BACKEND_CPU_KERNELS_FUNCTIONS_INL_H_
#else
#define PODIUM_BACKEND_CPU_KERNELS_FUNCTIONS_INL_H_
#endif

#include <limits>

#include "backend/cpu/kernels/v16-inl.h"
#include "base/numerics/activation.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

using IntTag = hn::RebindToSigned<NativeTag>;

// fma(p, x, c)
HWY_INLINE Native horner(const Native& p, const Native& x, float c) {
  return hn::MulAdd(p, x, hn::Set(NativeTag(), c));
}

// kNotPositive: no x is above 0, so that the power of two is a number and nothing overflows.
template <bool kNotPositive = false>
HWY_INLINE Native exp_native(const Native& x) {
  const NativeTag d;
  const IntTag di;
  const Native n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  Native r = hn::MulAdd(n, hn::Set(d, -0.693359375f), x);
  r = hn::MulAdd(n, hn::Set(d, 2.12194440e-4f), r);
  Native p = hn::Set(d, 1.9875691500e-4f);
  p = horner(p, r, 1.3981999507e-3f);
  p = horner(p, r, 8.3334519073e-3f);
  p = horner(p, r, 4.1665795894e-2f);
  p = horner(p, r, 1.6666665459e-1f);
  p = horner(p, r, 5.0000001201e-1f);
  p = hn::Add(hn::MulAdd(hn::Mul(p, r), r, r), hn::Set(d, 1.0f));
  // Out of range n is anything; the choices at the end hide it.
  const auto exponent = hn::ConvertTo(di, n);
  const auto power = [&](const auto& e) HWY_ATTR {
    return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(e, hn::Set(di, 127))));
  };
  if constexpr (kNotPositive) {
    p = hn::Mul(p, power(exponent));
  } else {
    const auto half = hn::ShiftRight<1>(exponent);
    p = hn::Mul(hn::Mul(p, power(half)), power(hn::Sub(exponent, half)));
    p = hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.72283f)),
                       hn::Set(d, std::numeric_limits<float>::infinity()), p);
  }
  p = hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.33654f)), p);
  return hn::IfThenElse(hn::IsNaN(x), x, p);
}

HWY_INLINE Native log_native(const Native& x) {
  const NativeTag d;
  const IntTag di;
  const auto root_half = hn::Set(di, 0x3f3504f3);
  const auto i = hn::Sub(hn::BitCast(di, x), root_half);
  const Native e = hn::ConvertTo(d, hn::ShiftRight<23>(i));
  const Native f = hn::BitCast(d, hn::Add(hn::And(i, hn::Set(di, 0x7fffff)), root_half));
  const Native t = hn::Sub(f, hn::Set(d, 1.0f));
  const Native z = hn::Mul(t, t);
  Native p = hn::Set(d, 7.0376836292e-2f);
  p = horner(p, t, -1.1514610310e-1f);
  p = horner(p, t, 1.1676998740e-1f);
  p = horner(p, t, -1.2420140846e-1f);
  p = horner(p, t, 1.4249322787e-1f);
  p = horner(p, t, -1.6668057665e-1f);
  p = horner(p, t, 2.0000714765e-1f);
  p = horner(p, t, -2.4999993993e-1f);
  p = horner(p, t, 3.3333331174e-1f);
  Native y = hn::Mul(hn::Mul(p, t), z);
  y = hn::MulAdd(e, hn::Set(d, -2.12194440e-4f), y);
  y = hn::MulAdd(hn::Set(d, -0.5f), z, y);
  y = hn::MulAdd(e, hn::Set(d, 0.693359375f), hn::Add(t, y));
  const Native infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  y = hn::IfThenElse(hn::Lt(x, hn::Set(d, 0x1p-126f)), hn::Neg(infinity), y);
  y = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, std::numeric_limits<float>::quiet_NaN()),
                     y);
  y = hn::IfThenElse(hn::Eq(x, infinity), x, y);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

HWY_INLINE V16 exp16(const V16& x) {
  V16 out;
  for (int i = 0; i < kRegisters; ++i) out.r[i] = exp_native(x.r[i]);
  return out;
}
HWY_INLINE V16 log16(const V16& x) {
  V16 out;
  for (int i = 0; i < kRegisters; ++i) out.r[i] = log_native(x.r[i]);
  return out;
}

// The normal distribution at x, and exp(-x^2 / 2).
struct NormalAt {
  Native below, bell;
};
HWY_INLINE NormalAt normal_native(const Native& x) {
  const NativeTag d;
  const Native one = hn::Set(d, 1.0f);
  const Native a = hn::Abs(x);
  const Native bell = exp_native<true>(hn::Mul(hn::Set(d, -0.5f), hn::Mul(a, a)));
  const Native t = hn::Div(one, hn::MulAdd(hn::Set(d, podium::internal::kTailScale), a, one));
  Native p = hn::Set(d, podium::internal::kTail.c[5]);
  for (int i = 4; i >= 0; --i) p = horner(p, t, podium::internal::kTail.c[i]);
  const Native tail = hn::Mul(hn::Mul(p, t), bell);
  return {hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Sub(one, tail), tail), bell};
}
HWY_INLINE Native logistic_native(const Native& x) {
  const Native one = hn::Set(NativeTag(), 1.0f);
  return hn::Div(one, hn::Add(one, exp_native(hn::Neg(x))));
}

HWY_INLINE Native tanh_native(const Native& x) {
  const NativeTag d;
  const Native one = hn::Set(d, 1.0f), two = hn::Set(d, 2.0f), a = hn::Abs(x), z = hn::Mul(x, x);
  Native p = hn::Set(d, -5.70498872745e-3f);
  p = horner(p, z, 2.06390887954e-2f);
  p = horner(p, z, -5.37397155531e-2f);
  p = horner(p, z, 1.33314422036e-1f);
  p = horner(p, z, -3.33332819422e-1f);
  const Native near = hn::MulAdd(hn::Mul(p, z), x, x);
  const Native far =
      hn::CopySign(hn::Sub(one, hn::Div(two, hn::Add(exp_native(hn::Add(a, a)), one))), x);
  const Native y = hn::IfThenElse(hn::Lt(a, hn::Set(d, kTanhSeries)), near, far);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

HWY_INLINE V16 logistic16(const V16& x) {
  V16 out;
  for (int i = 0; i < kRegisters; ++i) out.r[i] = logistic_native(x.r[i]);
  return out;
}
HWY_INLINE V16 tanh16(const V16& x) {
  V16 out;
  for (int i = 0; i < kRegisters; ++i) out.r[i] = tanh_native(x.r[i]);
  return out;
}

// What the logistic function of GELU by tanh is taken of; `square` is x * x.
HWY_INLINE Native tanh_argument(const Native& x, const Native& square) {
  const NativeTag d;
  return hn::Mul(x, hn::MulAdd(hn::Set(d, podium::internal::kTanhCubic), square,
                               hn::Set(d, podium::internal::kTanhLinear)));
}

// One kind of activation: value(x), and gradient(dy, x) = dy times the derivative at x.
template <ActivationKind kKind>
struct Activator {
  static constexpr ActivationKind kActivation = kKind;
  float slope;

  HWY_INLINE Native value(const Native& x) const {
    const NativeTag d;
    if constexpr (kKind == ActivationKind::kRelu) {
      return hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), x);
    } else if constexpr (kKind == ActivationKind::kLeakyRelu) {
      return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Mul(hn::Set(d, slope), x));
    } else if constexpr (kKind == ActivationKind::kGelu) {
      return hn::Mul(x, normal_native(x).below);
    } else if constexpr (kKind == ActivationKind::kSilu) {
      return hn::Mul(x, logistic_native(x));
    } else if constexpr (kKind == ActivationKind::kGeluTanh) {
      return hn::Mul(x, logistic_native(tanh_argument(x, hn::Mul(x, x))));
    } else {
      return x;
    }
  }

  HWY_INLINE Native gradient(const Native& dy, const Native& x) const {
    const NativeTag d;
    if constexpr (kKind == ActivationKind::kRelu) {
      return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), dy);
    } else if constexpr (kKind == ActivationKind::kLeakyRelu) {
      return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), dy, hn::Mul(hn::Set(d, slope), dy));
    } else if constexpr (kKind == ActivationKind::kGelu) {
      const NormalAt n = normal_native(x);
      return hn::Mul(
          dy, hn::MulAdd(hn::Mul(x, n.bell), hn::Set(d, podium::internal::kInvSqrtTwoPi), n.below));
    } else if constexpr (kKind == ActivationKind::kSilu) {
      const Native one = hn::Set(d, 1.0f);
      const Native s = logistic_native(x);
      return hn::Mul(dy, hn::Mul(s, hn::MulAdd(x, hn::Sub(one, s), one)));
    } else if constexpr (kKind == ActivationKind::kGeluTanh) {
      const Native square = hn::Mul(x, x);
      const Native s = logistic_native(tanh_argument(x, square));
      const Native rise = hn::MulAdd(hn::Set(d, podium::internal::kTanhSlope), square,
                                     hn::Set(d, podium::internal::kTanhLinear));
      return hn::Mul(dy, hn::MulAdd(hn::Mul(x, hn::Mul(s, hn::Sub(hn::Set(d, 1.0f), s))), rise, s));
    } else {
      return dy;
    }
  }

  HWY_INLINE V16 value(const V16& x) const {
    V16 out;
    for (int i = 0; i < kRegisters; ++i) out.r[i] = value(x.r[i]);
    return out;
  }
  HWY_INLINE V16 gradient(const V16& dy, const V16& x) const {
    V16 out;
    for (int i = 0; i < kRegisters; ++i) out.r[i] = gradient(dy.r[i], x.r[i]);
    return out;
  }
};

// Calls f(Activator<kind>) for the activation's kind.
template <typename F>
HWY_INLINE void with_activator(const Activation& a, const F& f) {
  switch (a.kind) {
    case ActivationKind::kNone: return f(Activator<ActivationKind::kNone>{a.slope});
    case ActivationKind::kRelu: return f(Activator<ActivationKind::kRelu>{a.slope});
    case ActivationKind::kLeakyRelu: return f(Activator<ActivationKind::kLeakyRelu>{a.slope});
    case ActivationKind::kGelu: return f(Activator<ActivationKind::kGelu>{a.slope});
    case ActivationKind::kSilu: return f(Activator<ActivationKind::kSilu>{a.slope});
    case ActivationKind::kGeluTanh: return f(Activator<ActivationKind::kGeluTanh>{a.slope});
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#endif  // PODIUM_BACKEND_CPU_KERNELS_FUNCTIONS_INL_H_
