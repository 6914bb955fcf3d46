// From the sums of the points to the gradient of the filters (G^T). Included once for each target.
#if defined(PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_JOIN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_JOIN_INL_H_
#undef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_JOIN_INL_H_
#else
#define PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_JOIN_INL_H_
#endif

#include <cstdint>

#include "backend/cpu/kernels/conv/winograd-inl.h"
#include "base/numerics/tree.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace winograd {

// w = G^T u, of one axis.
template <int kM>
HWY_INLINE void transform_gt(const Native* u, Native* w) {
  using C = Constants<kM>;
  const auto at = [&](int i) HWY_ATTR { return u[i]; };
  Native s[kPairs<kM>], d[kPairs<kM>];
  pairs_of<kM, true>(at, s);
  pairs_of<kM, false>(at, d);
  if constexpr (kM == 4) {
    w[0] = fma(C::kG0, u[0], fma(C::kGa0, s[0], mul(C::kGb0, s[1])));
    w[1] = fma(C::kGa1, d[0], mul(C::kGb1, d[1]));
    w[2] = fma(C::kGa2, s[0], fma(C::kGb2, s[1], u[5]));
  } else if constexpr (kM == 8) {
    w[0] = fma(C::kG0, u[0], chain_of(C::kN0, s));
    w[1] = chain_of(C::kN1, d);
    w[2] = chain_of(C::kN2, s, u[9]);
  } else {
    w[0] = fma(C::kG0, u[0], fma(C::kN0[0], s[0], fma(C::kN0[1], s[1], mul(C::kN0[2], s[2]))));
    w[1] = fma(C::kN1[0], d[0], fma(C::kN1[1], d[1], mul(C::kN1[2], d[2])));
    w[2] = fma(C::kN2[0], s[0], fma(C::kN2[1], s[1], fma(C::kN2[2], s[2], u[7])));
  }
}

// The tree over the groups [lo, hi). Inlined into itself at every point, it takes gcc more than a
// minute.
HWY_MAYBE_UNUSED static HWY_NOINLINE Native group_tree(const float* sums, std::int64_t step,
                                                       std::int64_t lo, std::int64_t hi) {
  if (hi - lo == 1) return hn::LoadU(NativeTag(), sums + lo * step);
  const std::int64_t middle = tree_middle(lo, hi);
  const Native left = group_tree(sums, step, lo, middle);
  return hn::Add(left, group_tree(sums, step, middle, hi));
}

// G^T along one axis, from between[3][column], 3 taps of each row, to w[tap][16].
template <int kM>
HWY_INLINE void join_columns(const float* between, std::int64_t column_step, std::int64_t row_step,
                             float* HWY_RESTRICT w) {
  const NativeTag t;
  PODIUM_KEEP_LOOP
  for (int r = 0; r < 3; ++r) {
    Native m[kAxis<kM>], row[3];
    PODIUM_UNROLL
    for (int j = 0; j < kAxis<kM>; ++j)
      m[j] = hn::LoadU(t, between + r * row_step + j * column_step);
    transform_gt<kM>(m, row);
    PODIUM_UNROLL
    for (int tap = 0; tap < 3; ++tap) hn::StoreU(row[tap], t, w + (3 * r + tap) * kLanes);
  }
}

// The gradient of some filters, w[tap][16], from the sums of the groups, `step` floats apart: each
// point's, `plane` floats apart, are added and transformed back.
template <int kM>
HWY_INLINE void join_groups(const float* sums, std::int64_t plane, std::int64_t step,
                            std::int64_t groups, float* HWY_RESTRICT w) {
  const NativeTag t;
  HWY_ALIGN float between[3 * kAxis<kM> * kNative];
  PODIUM_KEEP_LOOP
  for (int j = 0; j < kAxis<kM>; ++j) {
    Native m[kAxis<kM>], column[3];
    PODIUM_UNROLL
    for (int i = 0; i < kAxis<kM>; ++i) {
      const float* at = sums + (kAxis<kM> * i + j) * plane;
      hwy::Prefetch(at + 2 * kLanes);
      m[i] = groups == 1 ? hn::LoadU(t, at) : group_tree(at, step, 0, groups);
    }
    transform_gt<kM>(m, column);
    PODIUM_UNROLL
    for (int r = 0; r < 3; ++r) hn::Store(column[r], t, between + (r * kAxis<kM> + j) * kNative);
  }
  join_columns<kM>(between, kNative, kAxis<kM> * kNative, w);
}

// The same of tiles of so many outputs.
HWY_INLINE void join_groups(std::int64_t tile, const float* sums, std::int64_t plane,
                            std::int64_t step, std::int64_t groups, float* HWY_RESTRICT w) {
  podium::winograd::for_tile(tile, [&](auto m) HWY_ATTR {
    join_groups<decltype(m)::value>(sums, plane, step, groups, w);
  });
}

}  // namespace winograd
}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#endif  // PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_JOIN_INL_H_
