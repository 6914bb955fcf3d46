// The tree over the sixteen lanes, for many vectors at a time. Included once for each target.
#if defined(PODIUM_BACKEND_CPU_KERNELS_CONV_LANE_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PODIUM_BACKEND_CPU_KERNELS_CONV_LANE_SUMS_INL_H_
#undef PODIUM_BACKEND_CPU_KERNELS_CONV_LANE_SUMS_INL_H_
#else
#define PODIUM_BACKEND_CPU_KERNELS_CONV_LANE_SUMS_INL_H_
#endif

#include "backend/cpu/kernels/conv/unroll.h"
#include "backend/cpu/kernels/v16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

// Lane i becomes the tree over the lanes of v[i], i < kNative. Pairs of neighbours are added and
// packed, first into halves, then quarters and so on.
template <int kVectors = kNative>
HWY_INLINE Native native_sums(const Native* v) {
  if constexpr (kVectors == 1) {
    return v[0];
  } else {
    const NativeTag d;
    Native half[kVectors / 2];
    PODIUM_UNROLL
    for (int i = 0; i < kVectors / 2; ++i)
      half[i] = hn::Add(hn::ConcatEven(d, v[2 * i + 1], v[2 * i]),
                        hn::ConcatOdd(d, v[2 * i + 1], v[2 * i]));
    return native_sums<kVectors / 2>(half);
  }
}

// out[i] = tree over the sixteen lanes rows[i * 16 ...], i < count.
HWY_INLINE void lane_sums(const float* rows, std::int64_t count, float* out) {
  const NativeTag d;
  for (std::int64_t i = 0; i < count; i += kNative) {
    Native quarter[kRegisters];
    for (int r = 0; r < kRegisters; ++r) {
      Native v[kNative];
      for (int j = 0; j < kNative; ++j)
        v[j] = hn::LoadU(d, rows + (i + j < count ? i + j : i) * kLanes + r * kNative);
      quarter[r] = native_sums(v);
    }
    for (int n = kRegisters; n > 1; n /= 2)
      for (int r = 0; r < n / 2; ++r) quarter[r] = hn::Add(quarter[2 * r], quarter[2 * r + 1]);
    if (i + kNative <= count) {
      hn::StoreU(quarter[0], d, out + i);
    } else {
      HWY_ALIGN float last[kNative];
      hn::Store(quarter[0], d, last);
      for (std::int64_t j = i; j < count; ++j) out[j] = last[j - i];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#endif  // PODIUM_BACKEND_CPU_KERNELS_CONV_LANE_SUMS_INL_H_
