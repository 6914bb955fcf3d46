// The tree over the sixteen lanes, for many vectors at a time. Included once for each target.
#if defined(PODIUM_BACKEND_CPU_KERNELS_CONV_LANE_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PODIUM_BACKEND_CPU_KERNELS_CONV_LANE_SUMS_INL_H_
#undef PODIUM_BACKEND_CPU_KERNELS_CONV_LANE_SUMS_INL_H_
#else
#define PODIUM_BACKEND_CPU_KERNELS_CONV_LANE_SUMS_INL_H_
#endif

#include <cstdint>

#include "backend/cpu/kernels/conv/unroll.h"
#include "backend/cpu/kernels/v16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

// Lane i becomes the tree over the lanes of v[i], i < kNative: neighbours are added, each time into
// the half of the lanes that the other vector of a pair leaves free.
template <int kStep = 1>
HWY_INLINE Native native_sums(const Native* v) {
  const NativeTag d;
  if constexpr (kStep == kNative) {
    return v[0];
  } else {
    constexpr int kPairs = kNative / kStep / 2;
    Native half[kPairs];
    PODIUM_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      const Native a = v[2 * i], b = v[2 * i + 1];
      if constexpr (kStep == 1) {
        half[i] = hn::Add(hn::OddEven(hn::DupEven(b), a), hn::OddEven(b, hn::DupOdd(a)));
      } else if constexpr (kStep == 2) {
        const hn::Repartition<double, NativeTag> wide;
        const auto wide_a = hn::BitCast(wide, a), wide_b = hn::BitCast(wide, b);
        half[i] = hn::Add(hn::BitCast(d, hn::InterleaveLower(wide, wide_a, wide_b)),
                          hn::BitCast(d, hn::InterleaveUpper(wide, wide_a, wide_b)));
      } else if constexpr (kStep == 4 && kNative > 8) {
        half[i] = hn::Add(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b), a),
                          hn::OddEvenBlocks(b, hn::SwapAdjacentBlocks(a)));
      } else {
        half[i] = hn::Add(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
      }
    }
    return native_sums<kStep * 2>(half);
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
