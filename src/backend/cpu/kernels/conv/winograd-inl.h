// The transforms of the Winograd convolution on native vectors (docs/numerics.md gives their
// arithmetic). Two- dimensional transforms run down the columns, then along the rows, by pairs of
// rows, so that nothing but a row waits in registers. Included once for each target.
#if defined(PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_INL_H_
#undef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_INL_H_
#else
#define PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_INL_H_
#endif

#include "backend/cpu/kernels/conv/unroll.h"
#include "backend/cpu/kernels/conv/winograd_shape.h"
#include "backend/cpu/kernels/v16-inl.h"
#include "base/tree.h"
#include "base/winograd_points.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace winograd {

using namespace podium::winograd;  // the constants

HWY_INLINE Native number(float x) { return hn::Set(NativeTag(), x); }
HWY_INLINE Native add(Native a, Native b) { return hn::Add(a, b); }
HWY_INLINE Native sub(Native a, Native b) { return hn::Sub(a, b); }
HWY_INLINE Native mul(float a, Native b) { return hn::Mul(number(a), b); }
// a * b + c
HWY_INLINE Native fma(float a, Native b, Native c) { return hn::MulAdd(number(a), b, c); }

// Asks for a cache line that is not for L1 yet.
HWY_INLINE void fetch_to_l2(const float* p) { __builtin_prefetch(p, 0, 2); }

// ---- the rows of B^T ----
HWY_INLINE Native b_zero(Native d0, Native d2, Native d4) { return fma(kP, d0, fma(-kS, d2, d4)); }
HWY_INLINE Native b_even(float square, Native d2, Native d4) { return fma(-square, d2, d4); }
HWY_INLINE Native b_odd(float point, float square, Native d1, Native d3) {
  return mul(point, fma(-square, d1, d3));
}

// Point (i, j) of a tile goes to out[(6 i + j) plane], those of the last row, the last column and
// the corner shifted by so many floats: they may be packed more closely, since tiles of three lack
// them.
struct Shifts {
  std::int64_t row = 0, column = 0, corner = 0;
};

// Stores B^T d for one row of points, the last of them shifted.
template <bool kFour>
HWY_INLINE void store_b(const Native* d, float* HWY_RESTRICT out, std::int64_t plane,
                        std::int64_t shift) {
  const NativeTag t;
  hn::StoreU(b_zero(d[0], d[2], d[4]), t, out);
  const Native ea = b_even(kB2, d[2], d[4]), oa = b_odd(kA, kB2, d[1], d[3]);
  hn::StoreU(add(ea, oa), t, out + plane);
  hn::StoreU(sub(ea, oa), t, out + 2 * plane);
  const Native eb = b_even(kA2, d[2], d[4]), ob = b_odd(kB, kA2, d[1], d[3]);
  hn::StoreU(add(eb, ob), t, out + 3 * plane);
  hn::StoreU(sub(eb, ob), t, out + 4 * plane);
  if constexpr (kFour) hn::StoreU(b_zero(d[1], d[3], d[5]), t, out + 5 * plane + shift);
}

// A patch of 6x6 pixels of one channel; rows outside point to zeros, columns outside [left, right)
// count as 0.
struct Patch {
  const float* rows[6];
  std::int64_t column_step;  // floats
  int left, right;
};

// Lanes of images that do not exist count as 0.
template <bool kMasked>
HWY_INLINE Native load(const float* p, hn::Mask<NativeTag> present) {
  const Native v = hn::LoadU(NativeTag(), p);
  return kMasked ? hn::IfThenElseZero(present, v) : v;
}

// Which rows of points a transform computes.
inline constexpr int kRow0 = 1, kRows12 = 2, kRows34 = 4, kRow5 = 8;
inline constexpr int kAllRows = kRow0 | kRows12 | kRows34 | kRow5;

// The points of a patch.
template <int kRows, bool kFourAcross, bool kMasked>
HWY_INLINE void transform_patch(const Patch& p, int lane, hn::Mask<NativeTag> present,
                                float* HWY_RESTRICT out, std::int64_t plane,
                                const Shifts& shifts = {}) {
  constexpr int kColumns = kFourAcross ? 6 : 5;
  const std::int64_t step = p.column_step;
  const auto at = [&](int i, int j)
                      HWY_ATTR { return load<kMasked>(p.rows[i] + lane + j * step, present); };
  const auto inside = [&](int j) { return j >= p.left && j < p.right; };
  Native x[6], y[6];
  if constexpr ((kRows & kRow0) != 0) {
    PODIUM_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      x[j] = number(0);
      if (inside(j)) x[j] = b_zero(at(0, j), at(2, j), at(4, j));
    }
    store_b<kFourAcross>(x, out, plane, shifts.column);
  }
  if constexpr ((kRows & kRows12) != 0) {
    PODIUM_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      x[j] = y[j] = number(0);
      if (!inside(j)) continue;
      const Native e = b_even(kB2, at(2, j), at(4, j)), o = b_odd(kA, kB2, at(1, j), at(3, j));
      x[j] = add(e, o), y[j] = sub(e, o);
    }
    store_b<kFourAcross>(x, out + 6 * plane, plane, shifts.column);
    store_b<kFourAcross>(y, out + 12 * plane, plane, shifts.column);
  }
  if constexpr ((kRows & kRows34) != 0) {
    PODIUM_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      x[j] = y[j] = number(0);
      if (!inside(j)) continue;
      const Native e = b_even(kA2, at(2, j), at(4, j)), o = b_odd(kB, kA2, at(1, j), at(3, j));
      x[j] = add(e, o), y[j] = sub(e, o);
    }
    store_b<kFourAcross>(x, out + 18 * plane, plane, shifts.column);
    store_b<kFourAcross>(y, out + 24 * plane, plane, shifts.column);
  }
  if constexpr ((kRows & kRow5) != 0) {
    PODIUM_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      x[j] = number(0);
      if (inside(j)) x[j] = b_zero(at(1, j), at(3, j), at(5, j));
    }
    store_b<kFourAcross>(x, out + 30 * plane + shifts.row, plane, shifts.corner - shifts.row);
  }
}

// The same of a tile that has four rows or three, four columns or three.
template <int kRows, bool kMasked>
HWY_INLINE void transform_patch(const Patch& p, bool four_down, bool four_across, int lane,
                                hn::Mask<NativeTag> present, float* HWY_RESTRICT out,
                                std::int64_t plane, const Shifts& shifts = {}) {
  if (four_down) {
    if (four_across)
      transform_patch<kRows, true, kMasked>(p, lane, present, out, plane, shifts);
    else
      transform_patch<kRows, false, kMasked>(p, lane, present, out, plane, shifts);
  } else {
    if (four_across)
      transform_patch<kRows & ~kRow5, true, kMasked>(p, lane, present, out, plane, shifts);
    else
      transform_patch<kRows & ~kRow5, false, kMasked>(p, lane, present, out, plane, shifts);
  }
}

// ---- A^T: from points to pixels ----
struct SumsAndDifferences {
  Native sa, da, sb, db;
};
HWY_INLINE SumsAndDifferences halves(Native m1, Native m2, Native m3, Native m4) {
  return {add(m1, m2), sub(m1, m2), add(m3, m4), sub(m3, m4)};
}
HWY_INLINE Native at_zero(const SumsAndDifferences& h, Native m0) {
  return add(add(m0, h.sa), h.sb);
}
HWY_INLINE Native at_one(const SumsAndDifferences& h) { return fma(kB, h.db, mul(kA, h.da)); }
HWY_INLINE Native at_two(const SumsAndDifferences& h) { return fma(kB2, h.sb, mul(kA2, h.sa)); }
HWY_INLINE Native at_three(const SumsAndDifferences& h, Native m5) {
  return fma(kA3, h.da, fma(kB3, h.db, m5));
}

// Where the pixels of a tile go: columns [left, right) exist.
struct Target {
  float* rows[4];  // null: the row does not exist
  std::int64_t column_step;
  int left, right;
};

template <bool kFour, bool kStream>
HWY_INLINE void store_at(const Native* m, float* out, const Target& target, int lane) {
  if (out == nullptr) return;
  const NativeTag t;
  const auto store = [&](Native y, float* to) HWY_ATTR {
    if constexpr (kStream)
      hn::Stream(y, t, to);
    else
      hn::StoreU(y, t, to);
  };
  const SumsAndDifferences h = halves(m[1], m[2], m[3], m[4]);
  Native y[4] = {at_zero(h, m[0]), at_one(h), at_two(h), at_two(h)};
  if constexpr (kFour) y[3] = at_three(h, m[5]);
  constexpr int kPixels = kFour ? 4 : 3;
  if (target.left == 0 && target.right == kPixels) {
    PODIUM_UNROLL
    for (int j = 0; j < kPixels; ++j) store(y[j], out + lane + j * target.column_step);
  } else {
    PODIUM_UNROLL
    for (int j = 0; j < kPixels; ++j)
      if (j >= target.left && j < target.right) store(y[j], out + lane + j * target.column_step);
  }
}

// The pixels of a tile from its points, point (i, j) at m[(6 i + j) plane] and shifted.
template <bool kFourDown, bool kFourAcross, bool kStream>
HWY_INLINE void transform_tile(const float* HWY_RESTRICT m, std::int64_t plane,
                               const Shifts& shifts, const Target& target, int lane) {
  const NativeTag t;
  constexpr int kColumns = kFourAcross ? 6 : 5;
  const auto at = [&](int i, int j) HWY_ATTR {
    const std::int64_t shift =
        i == 5 ? (j == 5 ? shifts.corner : shifts.row) : (j == 5 ? shifts.column : 0);
    return hn::LoadU(t, m + lane + (6 * i + j) * plane + shift);
  };
  Native x[6], y[6];
  PODIUM_UNROLL
  for (int j = 0; j < kColumns; ++j) {
    const Native sa = add(at(1, j), at(2, j)), sb = add(at(3, j), at(4, j));
    x[j] = add(add(at(0, j), sa), sb);
    y[j] = fma(kB2, sb, mul(kA2, sa));
  }
  store_at<kFourAcross, kStream>(x, target.rows[0], target, lane);
  store_at<kFourAcross, kStream>(y, target.rows[2], target, lane);
  PODIUM_UNROLL
  for (int j = 0; j < kColumns; ++j) {
    const Native da = sub(at(1, j), at(2, j)), db = sub(at(3, j), at(4, j));
    x[j] = fma(kB, db, mul(kA, da));
    if constexpr (kFourDown) y[j] = fma(kA3, da, fma(kB3, db, at(5, j)));
  }
  store_at<kFourAcross, kStream>(x, target.rows[1], target, lane);
  if constexpr (kFourDown) store_at<kFourAcross, kStream>(y, target.rows[3], target, lane);
}

// The same of a tile that has four rows or three, four columns or three.
template <bool kStream>
HWY_INLINE void transform_tile(bool four_down, bool four_across, const float* HWY_RESTRICT m,
                               std::int64_t plane, const Shifts& shifts, const Target& target,
                               int lane) {
  if (four_down) {
    if (four_across)
      transform_tile<true, true, kStream>(m, plane, shifts, target, lane);
    else
      transform_tile<true, false, kStream>(m, plane, shifts, target, lane);
  } else {
    if (four_across)
      transform_tile<false, true, kStream>(m, plane, shifts, target, lane);
    else
      transform_tile<false, false, kStream>(m, plane, shifts, target, lane);
  }
}

// ---- A: from pixels to points, of the gradient to the output ----
template <bool kFour>
HWY_INLINE void store_a(const Native* y, float* HWY_RESTRICT out, std::int64_t plane,
                        std::int64_t shift) {
  const NativeTag t;
  hn::StoreU(y[0], t, out);
  const Native ea = fma(kA2, y[2], y[0]), oa = mul(kA, kFour ? fma(kA2, y[3], y[1]) : y[1]);
  hn::StoreU(add(ea, oa), t, out + plane);
  hn::StoreU(sub(ea, oa), t, out + 2 * plane);
  const Native eb = fma(kB2, y[2], y[0]), ob = mul(kB, kFour ? fma(kB2, y[3], y[1]) : y[1]);
  hn::StoreU(add(eb, ob), t, out + 3 * plane);
  hn::StoreU(sub(eb, ob), t, out + 4 * plane);
  if constexpr (kFour) hn::StoreU(y[3], t, out + 5 * plane + shift);
}

// The points of a tile of 4x4 pixels, with 3 rows or columns where it has but three.
template <int kRows, bool kFourDown, bool kFourAcross, bool kMasked>
HWY_INLINE void transform_gradient(const Patch& p, int lane, hn::Mask<NativeTag> present,
                                   float* HWY_RESTRICT out, std::int64_t plane,
                                   const Shifts& shifts) {
  constexpr int kColumns = kFourAcross ? 4 : 3;
  const std::int64_t step = p.column_step;
  const auto at = [&](int i, int j) HWY_ATTR {
    if (j >= p.right) return number(0);
    return load<kMasked>(p.rows[i] + lane + j * step, present);
  };
  Native x[4], y[4];
  const auto pair = [&](float point, float square) HWY_ATTR {
    PODIUM_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      const Native e = fma(square, at(2, j), at(0, j));
      const Native o = mul(point, kFourDown ? fma(square, at(3, j), at(1, j)) : at(1, j));
      x[j] = add(e, o), y[j] = sub(e, o);
    }
  };
  if constexpr ((kRows & kRow0) != 0) {
    PODIUM_UNROLL
    for (int j = 0; j < kColumns; ++j) x[j] = at(0, j);
    store_a<kFourAcross>(x, out, plane, shifts.column);
  }
  if constexpr ((kRows & kRows12) != 0) {
    pair(kA, kA2);
    store_a<kFourAcross>(x, out + 6 * plane, plane, shifts.column);
    store_a<kFourAcross>(y, out + 12 * plane, plane, shifts.column);
  }
  if constexpr ((kRows & kRows34) != 0) {
    pair(kB, kB2);
    store_a<kFourAcross>(x, out + 18 * plane, plane, shifts.column);
    store_a<kFourAcross>(y, out + 24 * plane, plane, shifts.column);
  }
  if constexpr ((kRows & kRow5) != 0 && kFourDown) {
    PODIUM_UNROLL
    for (int j = 0; j < kColumns; ++j) x[j] = at(3, j);
    store_a<kFourAcross>(x, out + 30 * plane + shifts.row, plane, shifts.corner - shifts.row);
  }
}

// The same of a tile that has four rows or three, four columns or three.
template <int kRows, bool kMasked>
HWY_INLINE void transform_gradient(const Patch& p, bool four_down, bool four_across, int lane,
                                   hn::Mask<NativeTag> present, float* HWY_RESTRICT out,
                                   std::int64_t plane, const Shifts& shifts) {
  if (four_down) {
    if (four_across)
      transform_gradient<kRows, true, true, kMasked>(p, lane, present, out, plane, shifts);
    else
      transform_gradient<kRows, true, false, kMasked>(p, lane, present, out, plane, shifts);
  } else {
    if (four_across)
      transform_gradient<kRows, false, true, kMasked>(p, lane, present, out, plane, shifts);
    else
      transform_gradient<kRows, false, false, kMasked>(p, lane, present, out, plane, shifts);
  }
}

// ---- G and its transpose, on the filters ----
HWY_INLINE void transform_g(const Native g0, const Native g1, const Native g2, Native* u) {
  const Native ea = fma(kGa2, g2, mul(kGa0, g0)), eb = fma(kGb2, g2, mul(kGb0, g0));
  u[0] = mul(kG0, g0);
  u[1] = fma(kGa1, g1, ea);
  u[2] = fma(-kGa1, g1, ea);
  u[3] = fma(kGb1, g1, eb);
  u[4] = fma(-kGb1, g1, eb);
  u[5] = g2;
}
HWY_INLINE void transform_gt(const Native* u, Native* w) {
  const SumsAndDifferences h = halves(u[1], u[2], u[3], u[4]);
  w[0] = fma(kG0, u[0], fma(kGa0, h.sa, mul(kGb0, h.sb)));
  w[1] = fma(kGa1, h.da, mul(kGb1, h.db));
  w[2] = fma(kGa2, h.sa, fma(kGb2, h.sb, u[5]));
}

// The tree over the groups [lo, hi). Inlined into itself 36 times over, it takes gcc a minute and a
// half.
HWY_MAYBE_UNUSED static HWY_NOINLINE Native group_tree(const float* sums, std::int64_t step,
                                                       std::int64_t lo, std::int64_t hi) {
  if (hi - lo == 1) return hn::LoadU(NativeTag(), sums + lo * step);
  const std::int64_t middle = tree_middle(lo, hi);
  const Native left = group_tree(sums, step, lo, middle);
  return hn::Add(left, group_tree(sums, step, middle, hi));
}

// The gradient of some filters, w[tap][16], from the sums of the groups, `step` floats apart: each
// point's, `plane` floats apart, are added and transformed back.
HWY_INLINE void join_groups(const float* sums, std::int64_t plane, std::int64_t step,
                            std::int64_t groups, float* HWY_RESTRICT w) {
  const NativeTag t;
  Native columns[6][3];
  PODIUM_UNROLL
  for (int j = 0; j < 6; ++j) {
    Native m[6];
    PODIUM_UNROLL
    for (int i = 0; i < 6; ++i) {
      const float* at = sums + (6 * i + j) * plane;
      hwy::Prefetch(at + 2 * kLanes);
      m[i] = groups == 1 ? hn::LoadU(t, at) : group_tree(at, step, 0, groups);
    }
    transform_gt(m, columns[j]);
  }
  PODIUM_UNROLL
  for (int r = 0; r < 3; ++r) {
    Native m[6], row[3];
    PODIUM_UNROLL
    for (int j = 0; j < 6; ++j) m[j] = columns[j][r];
    transform_gt(m, row);
    PODIUM_UNROLL
    for (int tap = 0; tap < 3; ++tap) hn::StoreU(row[tap], t, w + (3 * r + tap) * kLanes);
  }
}

// Memory of zeros, for the rows of a patch that lie outside.
inline constexpr std::int64_t zeros_floats(std::int64_t column_step) { return 6 * column_step; }

// The patch at index (i, j) of a phase, `height` x `width` pixels of which count: the first row
// that is inside gives `base`, the plane's pixel (0, 0).
HWY_INLINE Patch patch_at(const Phased& t, const float* base, std::int64_t a, std::int64_t b,
                          std::int64_t i, std::int64_t j, int height, const float* zeros) {
  Patch p;
  const std::int64_t row = t.step_h * i + a + t.first_h, column = t.step_w * j + b + t.first_w;
  for (int r = 0; r < 6; ++r) {
    const std::int64_t y = row + r * t.step_h;
    p.rows[r] =
        r < height && y >= 0 && y < t.height ? base + (y * t.width + column) * kLanes : zeros;
  }
  p.column_step = t.step_w * kLanes;
  p.left = 0;
  while (p.left < 6 && column + p.left * t.step_w < 0) ++p.left;
  p.right = 6;
  while (p.right > p.left && column + (p.right - 1) * t.step_w >= t.width) --p.right;
  return p;
}

}  // namespace winograd
}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#endif  // PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_INL_H_
