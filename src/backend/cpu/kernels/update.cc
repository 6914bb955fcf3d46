#include "backend/cpu/kernels/update.h"

#include <algorithm>
#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/update.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/v16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

struct AdamVectors {
  V16 p, m, v;
};
template <bool kDecay>
HWY_INLINE AdamVectors adam_vectors(const AdamStep& s, const V16& gradient, const AdamVectors& a) {
  const V16 g = kDecay ? fma16(set16(s.weight_decay), a.p, gradient) : gradient;
  const V16 m = fma16(set16(s.beta1), a.m, mul16(set16(s.one_minus_beta1), g));
  const V16 v = fma16(set16(s.beta2), a.v, mul16(mul16(set16(s.one_minus_beta2), g), g));
  const V16 root = fma16(sqrt16(v), set16(s.root_scale), set16(s.epsilon));
  return {fma16(set16(-s.rate), div16(m, root), a.p), m, v};
}

template <bool kDecay>
HWY_INLINE void adam_loop(int64_t count, const AdamStep& s, const float* g, float* p, float* m,
                          float* v) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const AdamVectors out =
        adam_vectors<kDecay>(s, load16(g + i), {load16(p + i), load16(m + i), load16(v + i)});
    store16(p + i, out.p);
    store16(m + i, out.m);
    store16(v + i, out.v);
  }
  if (const int64_t rest = count - i; rest > 0) {
    const AdamVectors out = adam_vectors<kDecay>(
        s, load_first16(g + i, rest),
        {load_first16(p + i, rest), load_first16(m + i, rest), load_first16(v + i, rest)});
    store_first16(p + i, out.p, rest);
    store_first16(m + i, out.m, rest);
    store_first16(v + i, out.v, rest);
  }
}

void adam_range(int64_t count, const AdamStep& s, const float* g, float* p, float* m, float* v) {
  if (s.weight_decay == 0) {
    adam_loop<false>(count, s, g, p, m, v);
  } else {
    adam_loop<true>(count, s, g, p, m, v);
  }
}

struct SgdVectors {
  V16 p, v;
};
template <bool kDecay, bool kNesterov>
HWY_INLINE SgdVectors sgd_vectors(const SgdStep& s, const V16& gradient, const SgdVectors& a) {
  const V16 momentum = set16(s.momentum);
  const V16 g = kDecay ? fma16(set16(s.weight_decay), a.p, gradient) : gradient;
  const V16 v = fma16(momentum, a.v, g);
  return {fma16(set16(-s.rate), kNesterov ? fma16(momentum, v, g) : v, a.p), v};
}

template <bool kDecay, bool kNesterov>
HWY_INLINE void sgd_loop(int64_t count, const SgdStep& s, const float* g, float* p, float* v) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const SgdVectors out =
        sgd_vectors<kDecay, kNesterov>(s, load16(g + i), {load16(p + i), load16(v + i)});
    store16(p + i, out.p);
    store16(v + i, out.v);
  }
  if (const int64_t rest = count - i; rest > 0) {
    const SgdVectors out = sgd_vectors<kDecay, kNesterov>(
        s, load_first16(g + i, rest), {load_first16(p + i, rest), load_first16(v + i, rest)});
    store_first16(p + i, out.p, rest);
    store_first16(v + i, out.v, rest);
  }
}

void sgd_range(int64_t count, const SgdStep& s, const float* g, float* p, float* v) {
  const bool decay = s.weight_decay != 0;
  if (decay && s.nesterov) {
    sgd_loop<true, true>(count, s, g, p, v);
  } else if (decay) {
    sgd_loop<true, false>(count, s, g, p, v);
  } else if (s.nesterov) {
    sgd_loop<false, true>(count, s, g, p, v);
  } else {
    sgd_loop<false, false>(count, s, g, p, v);
  }
}

inline constexpr std::uint32_t kKeyStep = 0x9E3779B1u;

// The sum over the whole vectors of sixteen words; key0 is the key of the first word. Words stand
// in pairs, so an even lane times the odd lane beside it.
std::uint64_t hash_vectors(const float* values, int64_t vectors, std::uint32_t key0) {
  const hn::RebindToUnsigned<NativeTag> d;
  const hn::RepartitionToWide<decltype(d)> wide;
  auto key = hn::Mul(hn::Iota(d, 0), hn::Set(d, kKeyStep)) + hn::Set(d, key0);
  const auto step = hn::Set(d, static_cast<std::uint32_t>(kNative) * kKeyStep);
  auto sum0 = hn::Zero(wide), sum1 = sum0;
  const int64_t registers = vectors * kRegisters;
  const auto product = [&](int64_t i) HWY_ATTR {
    const auto word = hn::Add(hn::BitCast(d, hn::LoadU(NativeTag(), values + i * kNative)), key);
    key = hn::Add(key, step);
    return hn::MulEven(word, hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, word))));
  };
  int64_t i = 0;
  for (; i + 2 <= registers; i += 2) {
    sum0 = hn::Add(sum0, product(i));
    sum1 = hn::Add(sum1, product(i + 1));
  }
  if (i < registers) sum0 = hn::Add(sum0, product(i));
  HWY_ALIGN std::uint64_t lanes[kNative];
  hn::StoreU(hn::Add(sum0, sum1), wide, lanes);
  std::uint64_t sum = 0;
  for (int l = 0; l < kNative / 2; ++l) sum += lanes[l];
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/hash.h"

namespace podium::cpu {

HWY_EXPORT(adam_range);
HWY_EXPORT(sgd_range);
HWY_EXPORT(hash_vectors);

void adam(std::int64_t count, const AdamStep& step, const float* gradient, float* parameter,
          float* m, float* v, int part) {
  const std::int64_t begin = part * kFlatPart;
  PODIUM_DISPATCH(adam_range)
  (std::min(kFlatPart, count - begin), step, gradient + begin, parameter + begin, m + begin,
   v + begin);
}

void sgd(std::int64_t count, const SgdStep& step, const float* gradient, float* parameter, float* v,
         int part) {
  const std::int64_t begin = part * kFlatPart;
  PODIUM_DISPATCH(sgd_range)
  (std::min(kFlatPart, count - begin), step, gradient + begin, parameter + begin, v + begin);
}

std::uint64_t hash_sum(const float* values, std::int64_t count, std::uint64_t first) {
  const std::int64_t whole = count / 16 * 16;
  const auto key0 = static_cast<std::uint32_t>(first + 1) * 0x9E3779B1u;
  const std::uint64_t sum = PODIUM_DISPATCH(hash_vectors)(values, whole / 16, key0);
  return sum + podium::hash_sum({values + whole, static_cast<std::size_t>(count - whole)},
                                first + static_cast<std::uint64_t>(whole));
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
