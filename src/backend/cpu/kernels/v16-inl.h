// The virtual vector of 16 floats that all CPU kernels are written on: one register of AVX-512, two
// of AVX2, four of NEON. Included once for each target (Highway's foreach_target); not a header in
// the usual sense.
#if defined(PODIUM_BACKEND_CPU_KERNELS_V16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PODIUM_BACKEND_CPU_KERNELS_V16_INL_H_
#undef PODIUM_BACKEND_CPU_KERNELS_V16_INL_H_
#else
#define PODIUM_BACKEND_CPU_KERNELS_V16_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/cpu/kernels/layout.h"
#include "backend/cpu/kernels/targets.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using NativeTag = hn::CappedTag<float, 16>;
using Native = hn::Vec<NativeTag>;
inline constexpr int kNative = static_cast<int>(hn::MaxLanes(NativeTag()));  // lanes of a register
inline constexpr int kRegisters = kLanes / kNative;  // registers of a virtual vector

struct V16 {
  Native r[kRegisters];
};

#define PODIUM_V16_MAP(expression)                              \
  V16 out;                                                      \
  for (int i = 0; i < kRegisters; ++i) out.r[i] = (expression); \
  return out

HWY_INLINE V16 zero16() { PODIUM_V16_MAP(hn::Zero(NativeTag())); }
HWY_INLINE V16 set16(float x) { PODIUM_V16_MAP(hn::Set(NativeTag(), x)); }
HWY_INLINE V16 load16(const float* p) { PODIUM_V16_MAP(hn::LoadU(NativeTag(), p + i * kNative)); }
HWY_INLINE void store16(float* p, const V16& a) {
  for (int i = 0; i < kRegisters; ++i) hn::StoreU(a.r[i], NativeTag(), p + i * kNative);
}
// Asks for a cache line that is not for L1 yet.
HWY_INLINE void fetch_to_l2(const float* p) { __builtin_prefetch(p, 0, 2); }

// load16 of a pass over memory, which asks for what it will read two pages later: the prefetchers
// of processors stop at the end of a page. It asks for L2: few fetches to L1 are under way at a
// time, which cost batch norm up to half as much again.
inline constexpr int64_t kPassAhead = 2048;  // floats
HWY_INLINE V16 read16(const float* p) {
  fetch_to_l2(p + kPassAhead);
  return load16(p);
}
// store16, past the caches where `streamed` (layout.h); a part that did ends with end_streams.
HWY_INLINE void put16(float* p, const V16& a, bool streamed) {
  if (!streamed) return store16(p, a);
  for (int i = 0; i < kRegisters; ++i) hn::Stream(a.r[i], NativeTag(), p + i * kNative);
}
// bf16_rounded() (base/numerics/bf16.h) of each lane.
HWY_INLINE Native rounded_to_bf16(const Native& x) {
  const NativeTag d;
  const hn::RebindToUnsigned<NativeTag> words;
  const auto bits = hn::BitCast(words, x);
  const auto up =
      hn::Add(hn::Set(words, 0x7fffu), hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u)));
  const auto magnitude = hn::And(bits, hn::Set(words, 0x7fffffffu));
  auto result = hn::Add(bits, up);
  result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(words, 0x7f800000u)),
                          hn::Or(bits, hn::Set(words, 0x400000u)), result);
  result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(words, 0x800000u)),
                          hn::And(bits, hn::Set(words, 0x80000000u)), result);
  return hn::BitCast(d, hn::And(result, hn::Set(words, 0xffff0000u)));
}
HWY_INLINE void put16(float* p, const V16& a, const Writing& how) {
  if (!how.rounded) return put16(p, a, how.streamed);
  V16 rounded;
  for (int i = 0; i < kRegisters; ++i) rounded.r[i] = rounded_to_bf16(a.r[i]);
  put16(p, rounded, how.streamed);
}
// One register of put16.
HWY_INLINE void put_register(float* p, const Native& a, bool streamed) {
  if (streamed)
    hn::Stream(a, NativeTag(), p);
  else
    hn::StoreU(a, NativeTag(), p);
}
HWY_INLINE void end_streams(bool streamed) {
  if (streamed) hwy::FlushStream();
}
HWY_INLINE V16 add16(const V16& a, const V16& b) { PODIUM_V16_MAP(hn::Add(a.r[i], b.r[i])); }
HWY_INLINE V16 sub16(const V16& a, const V16& b) { PODIUM_V16_MAP(hn::Sub(a.r[i], b.r[i])); }
HWY_INLINE V16 mul16(const V16& a, const V16& b) { PODIUM_V16_MAP(hn::Mul(a.r[i], b.r[i])); }
HWY_INLINE V16 div16(const V16& a, const V16& b) { PODIUM_V16_MAP(hn::Div(a.r[i], b.r[i])); }
HWY_INLINE V16 sqrt16(const V16& a) { PODIUM_V16_MAP(hn::Sqrt(a.r[i])); }
// fma(a, b, c) = a * b + c, rounded once; fnma = c - a * b.
HWY_INLINE V16 fma16(const V16& a, const V16& b, const V16& c) {
  PODIUM_V16_MAP(hn::MulAdd(a.r[i], b.r[i], c.r[i]));
}
HWY_INLINE V16 fnma16(const V16& a, const V16& b, const V16& c) {
  PODIUM_V16_MAP(hn::NegMulAdd(a.r[i], b.r[i], c.r[i]));
}
HWY_INLINE V16 neg16(const V16& a) { PODIUM_V16_MAP(hn::Neg(a.r[i])); }
// a < 0 ? +0 : a
HWY_INLINE V16 not_below_zero16(const V16& a) {
  PODIUM_V16_MAP(hn::IfThenZeroElse(hn::Lt(a.r[i], hn::Zero(NativeTag())), a.r[i]));
}
// The first `count` lanes of a, +0 in the others.
HWY_INLINE V16 first16(const V16& a, int count) {
  PODIUM_V16_MAP(hn::IfThenElseZero(
      hn::FirstN(NativeTag(),
                 static_cast<size_t>(count <= i * kNative            ? 0
                                     : count - i * kNative < kNative ? count - i * kNative
                                                                     : kNative)),
      a.r[i]));
}

#undef PODIUM_V16_MAP

// Ends of ranges: the first `count` < 16 floats at p, and +0; a's first `count` lanes to p. No
// other memory is touched.
HWY_INLINE V16 load_first16(const float* p, int64_t count) {
#if HWY_ARCH_X86  // masked loads and stores are instructions
  V16 out;
  for (int i = 0; i < kRegisters; ++i) {
    const int64_t rest = count - i * kNative;
    const auto mask = hn::FirstN(NativeTag(), static_cast<size_t>(rest < 0 ? 0 : rest));
    out.r[i] = hn::MaskedLoad(mask, NativeTag(), p + i * kNative);
  }
  return out;
#else
  float buffer[kLanes] = {};
  std::memcpy(buffer, p, static_cast<size_t>(count) * sizeof(float));
  return load16(buffer);
#endif
}
// The same of one register, or all of it where `count` is more: Highway's BlendedStore writes the
// lanes behind back where there are no masked stores (NEON), and they may belong to another part.
HWY_INLINE void store_first(Native a, int64_t count, float* p) {
#if HWY_ARCH_X86
  hn::BlendedStore(a, hn::FirstN(NativeTag(), static_cast<size_t>(count)), NativeTag(), p);
#else
  HWY_ALIGN float lanes[kNative];
  hn::Store(a, NativeTag(), lanes);
  std::memcpy(p, lanes, static_cast<size_t>(count < kNative ? count : kNative) * sizeof(float));
#endif
}
HWY_INLINE void store_first16(float* p, const V16& a, int64_t count) {
#if HWY_ARCH_X86
  for (int i = 0; i < kRegisters; ++i) {
    const int64_t rest = count - i * kNative;
    store_first(a.r[i], rest < 0 ? 0 : rest, p + i * kNative);
  }
#else
  float buffer[kLanes];
  store16(buffer, a);
  std::memcpy(p, buffer, static_cast<size_t>(count) * sizeof(float));
#endif
}

// The sixteen floats at p, or the first `count` of them, and +0; the same lanes to p.
HWY_INLINE V16 load_some16(const float* p, int64_t count) {
  return count >= kLanes ? load16(p) : load_first16(p, count);
}
HWY_INLINE void store_some16(float* p, const V16& a, int64_t count) {
  if (count >= kLanes)
    store16(p, a);
  else
    store_first16(p, a, count);
}

// tree(a[0..16)), the sum over the lanes.
HWY_INLINE float tree_sum16(const V16& a) {
  float l[kLanes];
  store16(l, a);
  for (int width = 1; width < kLanes; width *= 2) {
    for (int i = 0; i < kLanes; i += 2 * width) l[i] = l[i] + l[i + width];
  }
  return l[0];
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#endif  // PODIUM_BACKEND_CPU_KERNELS_V16_INL_H_
