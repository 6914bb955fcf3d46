#include "backend/cpu/kernels/update.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/numerics/tree.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/update.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/v16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

enum class AdamDecay { kNone, kAdded, kDecoupled };

// One register of parameters; p, m and v are replaced.
template <AdamDecay kDecay>
HWY_INLINE void adam_register(const AdamStep& s, const Native& gradient, Native& p, Native& m,
                              Native& v) {
  const NativeTag d;
  const Native g =
      kDecay == AdamDecay::kAdded ? hn::MulAdd(hn::Set(d, s.weight_decay), p, gradient) : gradient;
  if constexpr (kDecay == AdamDecay::kDecoupled) p = hn::MulAdd(hn::Set(d, -s.shrink), p, p);
  m = hn::MulAdd(hn::Set(d, s.beta1), m, hn::Mul(hn::Set(d, s.one_minus_beta1), g));
  v = hn::MulAdd(hn::Set(d, s.beta2), v, hn::Mul(hn::Mul(hn::Set(d, s.one_minus_beta2), g), g));
  const Native root = hn::MulAdd(hn::Sqrt(v), hn::Set(d, s.root_scale), hn::Set(d, s.epsilon));
  p = hn::MulAdd(hn::Set(d, -s.rate), hn::Div(m, root), p);
}

// Whole registers; the caller sees to the rest.
template <AdamDecay kDecay>
void adam_loop(int64_t count, const AdamStep& s, const float* HWY_RESTRICT g, float* HWY_RESTRICT p,
               float* HWY_RESTRICT m, float* HWY_RESTRICT v, bool streamed) {
  const NativeTag d;
  const AdamStep step = s;
  for (int64_t i = 0; i < count; i += kNative) {
    Native pi = hn::LoadU(d, p + i), mi = hn::LoadU(d, m + i), vi = hn::LoadU(d, v + i);
    adam_register<kDecay>(step, hn::LoadU(d, g + i), pi, mi, vi);
    put_register(p + i, pi, streamed);
    hn::StoreU(mi, d, m + i);
    hn::StoreU(vi, d, v + i);
  }
  end_streams(streamed);
}

void adam_range(int64_t count, const AdamStep& s, const float* g, float* p, float* m, float* v,
                bool streamed) {
  const auto loop = s.weight_decay != 0 ? adam_loop<AdamDecay::kAdded>
                    : s.shrink != 0     ? adam_loop<AdamDecay::kDecoupled>
                                        : adam_loop<AdamDecay::kNone>;
  const int64_t whole = count / kNative * kNative;
  loop(whole, s, g, p, m, v, streamed);
  if (const size_t rest = static_cast<size_t>(count - whole) * sizeof(float); rest > 0) {
    float t[4][kNative] = {};
    std::memcpy(t[0], g + whole, rest);
    std::memcpy(t[1], p + whole, rest);
    std::memcpy(t[2], m + whole, rest);
    std::memcpy(t[3], v + whole, rest);
    loop(kNative, s, t[0], t[1], t[2], t[3], false);
    std::memcpy(p + whole, t[1], rest);
    std::memcpy(m + whole, t[2], rest);
    std::memcpy(v + whole, t[3], rest);
  }
}

template <bool kDecay, bool kNesterov>
void sgd_loop(int64_t count, const SgdStep& s, const float* HWY_RESTRICT g, float* HWY_RESTRICT p,
              float* HWY_RESTRICT v, bool streamed) {
  const NativeTag d;
  const Native momentum = hn::Set(d, s.momentum), decay = hn::Set(d, s.weight_decay);
  const Native rate = hn::Set(d, -s.rate);
  for (int64_t i = 0; i < count; i += kNative) {
    const Native pi = hn::LoadU(d, p + i), raw = hn::LoadU(d, g + i);
    const Native gi = kDecay ? hn::MulAdd(decay, pi, raw) : raw;
    const Native vi = hn::MulAdd(momentum, hn::LoadU(d, v + i), gi);
    put_register(p + i, hn::MulAdd(rate, kNesterov ? hn::MulAdd(momentum, vi, gi) : vi, pi),
                 streamed);
    hn::StoreU(vi, d, v + i);
  }
  end_streams(streamed);
}

void sgd_range(int64_t count, const SgdStep& s, const float* g, float* p, float* v, bool streamed) {
  const auto loop = s.weight_decay != 0
                        ? (s.nesterov ? sgd_loop<true, true> : sgd_loop<true, false>)
                        : (s.nesterov ? sgd_loop<false, true> : sgd_loop<false, false>);
  const int64_t whole = count / kNative * kNative;
  loop(whole, s, g, p, v, streamed);
  if (const size_t rest = static_cast<size_t>(count - whole) * sizeof(float); rest > 0) {
    float t[3][kNative] = {};
    std::memcpy(t[0], g + whole, rest);
    std::memcpy(t[1], p + whole, rest);
    std::memcpy(t[2], v + whole, rest);
    loop(kNative, s, t[0], t[1], t[2], false);
    std::memcpy(p + whole, t[1], rest);
    std::memcpy(v + whole, t[2], rest);
  }
}

float square_run(int64_t count, const float* x) {
  V16 sum = zero16();
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const V16 v = load16(x + i);
    sum = fma16(v, v, sum);
  }
  if (i < count) {
    const V16 v = load_first16(x + i, count - i);
    sum = fma16(v, v, sum);
  }
  return tree_sum16(sum);
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(adam_range);
HWY_EXPORT(sgd_range);
HWY_EXPORT(square_run);

void adam(std::int64_t count, const AdamStep& step, const float* gradient, float* parameter,
          float* m, float* v, bool shared, int part) {
  const std::int64_t begin = part * kFlatPart;
  PODIUM_DISPATCH(adam_range)
  (std::min(kFlatPart, count - begin), step, gradient + begin, parameter + begin, m + begin,
   v + begin, shared && whole_lines(parameter));
}

void sgd(std::int64_t count, const SgdStep& step, const float* gradient, float* parameter, float* v,
         bool shared, int part) {
  const std::int64_t begin = part * kFlatPart;
  PODIUM_DISPATCH(sgd_range)
  (std::min(kFlatPart, count - begin), step, gradient + begin, parameter + begin, v + begin,
   shared && whole_lines(parameter));
}

namespace {
constexpr std::int64_t kSquareRun = 4096;  // of the contract
}

int squares_parts(std::int64_t count) {
  return count <= kSquareRun ? 1 : static_cast<int>((count + kSquareRun - 1) / kSquareRun);
}
void squares(std::int64_t count, const float* x, float* sums, int part) {
  const std::int64_t begin = part * kSquareRun;
  sums[part] = PODIUM_DISPATCH(square_run)(std::min(kSquareRun, count - begin), x + begin);
}
void rescale(std::int64_t count, float norm, float epsilon, const float* x, const float* sums,
             float* y, int part) {
  const float sum = tree_sum(0, squares_parts(count), [&](std::int64_t run) { return sums[run]; });
  scale(count, x, norm / (std::sqrt(sum) + epsilon), y, part);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
