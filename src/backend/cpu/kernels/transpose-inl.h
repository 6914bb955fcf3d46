// Transposes of 16x16 floats, on the virtual vector of 16. Included once for each target.
#if defined(PODIUM_BACKEND_CPU_KERNELS_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PODIUM_BACKEND_CPU_KERNELS_TRANSPOSE_INL_H_
#undef PODIUM_BACKEND_CPU_KERNELS_TRANSPOSE_INL_H_
#else
#define PODIUM_BACKEND_CPU_KERNELS_TRANSPOSE_INL_H_
#endif

#include <cstdint>

#include "backend/cpu/kernels/v16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

// Four floats of each of the rows p, p + 4 * stride, p + 8 * stride, ...: as many as fill a
// register.
HWY_INLINE Native load_every_fourth_row(const float* p, int64_t stride) {
  const hn::Full128<float> d4;
#if HWY_MAX_BYTES == 64
  const hn::Half<NativeTag> d8;
  return hn::Combine(NativeTag(),
                     hn::Combine(d8, hn::LoadU(d4, p + 12 * stride), hn::LoadU(d4, p + 8 * stride)),
                     hn::Combine(d8, hn::LoadU(d4, p + 4 * stride), hn::LoadU(d4, p)));
#elif HWY_MAX_BYTES == 32
  return hn::Combine(NativeTag(), hn::LoadU(d4, p + 4 * stride), hn::LoadU(d4, p));
#else
  static_cast<void>(stride);
  return hn::LoadU(d4, p);
#endif
}

// to[c * to_stride + r] = from[r * from_stride + c], r and c in [0, 16). The tile's 4x4 blocks are
// gathered so that a transpose inside each block of a register finishes the work.
HWY_INLINE void transpose16(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  const NativeTag d;
  const hn::RepartitionToWide<hn::RebindToUnsigned<NativeTag>> pair;
  for (int c = 0; c < kLanes; c += 4) {
    for (int i = 0; i < kRegisters; ++i) {
      const float* p = from + i * kNative * from_stride + c;
      const Native r0 = load_every_fourth_row(p, from_stride);
      const Native r1 = load_every_fourth_row(p + from_stride, from_stride);
      const Native r2 = load_every_fourth_row(p + 2 * from_stride, from_stride);
      const Native r3 = load_every_fourth_row(p + 3 * from_stride, from_stride);
      const auto low01 = hn::BitCast(pair, hn::InterleaveLower(d, r0, r1));
      const auto low23 = hn::BitCast(pair, hn::InterleaveLower(d, r2, r3));
      const auto high01 = hn::BitCast(pair, hn::InterleaveUpper(d, r0, r1));
      const auto high23 = hn::BitCast(pair, hn::InterleaveUpper(d, r2, r3));
      float* q = to + c * to_stride + i * kNative;
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pair, low01, low23)), d, q);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pair, low01, low23)), d, q + to_stride);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pair, high01, high23)), d, q + 2 * to_stride);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pair, high01, high23)), d, q + 3 * to_stride);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#endif  // PODIUM_BACKEND_CPU_KERNELS_TRANSPOSE_INL_H_
