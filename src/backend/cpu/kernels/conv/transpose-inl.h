// Squares of 16x16 floats turned about their diagonal. Included once for each target.
#if defined(PODIUM_BACKEND_CPU_KERNELS_CONV_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PODIUM_BACKEND_CPU_KERNELS_CONV_TRANSPOSE_INL_H_
#undef PODIUM_BACKEND_CPU_KERNELS_CONV_TRANSPOSE_INL_H_
#else
#define PODIUM_BACKEND_CPU_KERNELS_CONV_TRANSPOSE_INL_H_
#endif

#include "backend/cpu/kernels/conv/unroll.h"
#include "backend/cpu/kernels/v16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

// out[i] = lane i of v[0], v[1], ... v[kNative - 1]: within blocks of four lanes first, then the
// blocks.
template <int kFours = kNative / 4>
HWY_INLINE void transpose_native(const Native* v, Native* out) {
  const NativeTag d;
  const hn::Repartition<double, NativeTag> wide;
  Native four[kFours][4];  // block b of [g][j]: lane 4 b + j of v[4 g] ... v[4 g + 3]
  PODIUM_UNROLL
  for (int g = 0; g < kFours; ++g) {
    const Native* q = v + 4 * g;
    const auto low = [&](int i) HWY_ATTR {
      return hn::BitCast(wide, hn::InterleaveLower(d, q[i], q[i + 1]));
    };
    const auto high = [&](int i) HWY_ATTR {
      return hn::BitCast(wide, hn::InterleaveUpper(d, q[i], q[i + 1]));
    };
    four[g][0] = hn::BitCast(d, hn::InterleaveLower(wide, low(0), low(2)));
    four[g][1] = hn::BitCast(d, hn::InterleaveUpper(wide, low(0), low(2)));
    four[g][2] = hn::BitCast(d, hn::InterleaveLower(wide, high(0), high(2)));
    four[g][3] = hn::BitCast(d, hn::InterleaveUpper(wide, high(0), high(2)));
  }
  PODIUM_UNROLL
  for (int j = 0; j < 4; ++j) {
    if constexpr (kFours == 1) {
      out[j] = four[0][j];
    } else if constexpr (kFours == 2) {
      out[j] = hn::ConcatLowerLower(d, four[1][j], four[0][j]);
      out[4 + j] = hn::ConcatUpperUpper(d, four[1][j], four[0][j]);
    } else {
      const Native even = hn::ConcatLowerLower(d, four[2][j], four[0][j]),
                   odd = hn::ConcatLowerLower(d, four[3][j], four[1][j]);
      out[j] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(odd), even);
      out[4 + j] = hn::OddEvenBlocks(odd, hn::SwapAdjacentBlocks(even));
      const Native even_up = hn::ConcatUpperUpper(d, four[2][j], four[0][j]),
                   odd_up = hn::ConcatUpperUpper(d, four[3][j], four[1][j]);
      out[8 + j] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(odd_up), even_up);
      out[12 + j] = hn::OddEvenBlocks(odd_up, hn::SwapAdjacentBlocks(even_up));
    }
  }
}

// to[16 i + j] = from(j)[i]; `from` gives the sixteen rows.
template <typename From>
HWY_INLINE void transpose16(const From& from, float* HWY_RESTRICT to) {
  const NativeTag d;
  for (int row = 0; row < kLanes; row += kNative)
    for (int column = 0; column < kLanes; column += kNative) {
      Native v[kNative], turned[kNative];
      PODIUM_UNROLL
      for (int i = 0; i < kNative; ++i) v[i] = hn::LoadU(d, from(row + i) + column);
      transpose_native(v, turned);
      PODIUM_UNROLL
      for (int i = 0; i < kNative; ++i) hn::StoreU(turned[i], d, to + (column + i) * kLanes + row);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#endif  // PODIUM_BACKEND_CPU_KERNELS_CONV_TRANSPOSE_INL_H_
