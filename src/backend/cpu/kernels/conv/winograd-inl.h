// The transforms of the Winograd convolution on native vectors (docs/numerics.md gives their
// arithmetic). Included once for each target.
#if defined(PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_INL_H_
#undef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_INL_H_
#else
#define PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "backend/cpu/kernels/conv/unroll.h"
#include "backend/cpu/kernels/conv/winograd_shape.h"
#include "backend/cpu/kernels/v16-inl.h"
#include "base/numerics/winograd_points.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace winograd {

using podium::winograd::Constants;

HWY_INLINE Native number(float x) { return hn::Set(NativeTag(), x); }
HWY_INLINE Native add(Native a, Native b) { return hn::Add(a, b); }
HWY_INLINE Native sub(Native a, Native b) { return hn::Sub(a, b); }
HWY_INLINE Native mul(float a, Native b) { return hn::Mul(number(a), b); }
// a * b + c
HWY_INLINE Native fma(float a, Native b, Native c) { return hn::MulAdd(number(a), b, c); }

// Points of an axis of a whole tile of kM outputs, and the pairs of points +-p among them.
template <int kM>
inline constexpr int kAxis = kM + 2;
template <int kM>
inline constexpr int kPairs = kM / 2;

// ---- the rows of B^T; d(i) is element i of what is transformed ----
// The point 0, or infinity from the second element on.
template <int kM, int kFirst, typename At>
HWY_INLINE Native b_end(const At& d) {
  using C = Constants<kM>;
  if constexpr (kM == 4)
    return fma(C::kP, d(kFirst), fma(-C::kS, d(kFirst + 2), d(kFirst + 4)));
  else if constexpr (kM == 6)
    return fma(-1, d(kFirst), fma(C::kE, d(kFirst + 2), fma(-C::kE, d(kFirst + 4), d(kFirst + 6))));
  else
    return fma(C::kE0, d(kFirst),
               fma(-C::kE2, d(kFirst + 2),
                   fma(C::kE4, d(kFirst + 4), fma(-C::kE6, d(kFirst + 6), d(kFirst + 8)))));
}
template <int kM, int kPair, typename At>
HWY_INLINE void b_pair(const At& d, Native& plus, Native& minus) {
  using C = Constants<kM>;
  if constexpr (kM == 4) {
    constexpr float kSquare = kPair == 0 ? C::kB2 : C::kA2;  // of the other pair
    const Native e = fma(-kSquare, d(2), d(4));
    const Native o = mul(kPair == 0 ? C::kA : C::kB, fma(-kSquare, d(1), d(3)));
    plus = add(e, o), minus = sub(e, o);
  } else if constexpr (kM == 8) {
    constexpr float kC0 = C::kC0[kPair], kC2 = C::kC2[kPair], kC4 = C::kC4[kPair];
    constexpr float kPoint = C::kPoint[kPair];
    const Native e = fma(-kC0, d(2), fma(kC2, d(4), fma(-kC4, d(6), d(8))));
    const Native o = fma(-kC0, d(1), fma(kC2, d(3), fma(-kC4, d(5), d(7))));
    plus = fma(kPoint, o, e), minus = fma(-kPoint, o, e);
  } else {
    constexpr float kSum = C::kSum[kPair], kProduct = C::kProduct[kPair], kPoint = C::kPoint[kPair];
    const Native e = fma(kProduct, d(2), fma(-kSum, d(4), d(6)));
    const Native o = fma(kProduct, d(1), fma(-kSum, d(3), d(5)));
    plus = fma(kPoint, o, e), minus = fma(-kPoint, o, e);
  }
}

// Point (i, j) of a tile goes to out[(axis i + j) plane], those of the last row, the last column
// and the corner shifted by so many floats: they may be packed more closely, since tiles that are
// not whole lack them.
struct Shifts {
  std::int64_t row = 0, column = 0, corner = 0;
};

// A patch of pixels of one channel, as many a side as a whole tile has points; rows outside point
// to zeros, columns outside [left, right) count as 0.
struct Patch {
  const float* rows[podium::winograd::kMostPoints];
  std::int64_t column_step;  // floats
  int left, right;
};

// How pixels are read, those in row i of a patch: as they are,
struct Plain {
  HWY_INLINE Native operator()(int, const float* p) const { return hn::LoadU(NativeTag(), p); }
};
// or with lanes of images that do not exist counting as 0.
struct Present {
  hn::Mask<NativeTag> lanes;
  HWY_INLINE Native operator()(int, const float* p) const {
    return hn::IfThenElseZero(lanes, hn::LoadU(NativeTag(), p));
  }
};

// Which rows of points a transform computes: the first, those of each pair, the last.
inline constexpr int kFirstRow = 1, kPairRows = 2, kLastRow = 32;
inline constexpr int kAllRows = 63;
inline constexpr int kUpperRows = kFirstRow | kPairRows,
                     kLowerRows = 2 * kPairRows | kLastRow;  // tiles of four
// That of row i.
template <int kM>
constexpr int row_bit(int i) {
  return i == 0 ? kFirstRow : i == kM + 1 ? kLastRow : kPairRows << (i - 1) / 2;
}

// A two-dimensional transform goes down the columns, then along the rows; between the two it lies
// here: [row][column][lanes]. Each pass is a loop whose body is the transform of one axis, small
// enough for the registers to hold its constants throughout.
template <int kM>
struct Between {
  HWY_ALIGN float at[kAxis<kM> * kAxis<kM> * kNative];

  HWY_INLINE float* operator()(int row, int column) {
    return at + (row * kAxis<kM> + column) * kNative;
  }
};

// put(i, point i) for the pairs among `kRows`; pair(index, plus, minus) makes the two of one.
template <int kM, int kRows, int kPair, typename Pair, typename Put>
HWY_INLINE void put_pairs(const Pair& pair, const Put& put) {
  if constexpr ((kRows & kPairRows << kPair) != 0) {
    Native plus, minus;
    pair(std::integral_constant<int, kPair>(), plus, minus);
    put(2 * kPair + 1, plus);
    put(2 * kPair + 2, minus);
  }
  if constexpr (kPair + 1 < kPairs<kM>) put_pairs<kM, kRows, kPair + 1>(pair, put);
}
// put(i, row i of B^T d) for the rows of `kRows`.
template <int kM, int kRows, typename Put>
HWY_INLINE void transform_b(const Native* d, const Put& put) {
  const auto at = [&](int i) HWY_ATTR { return d[i]; };
  if constexpr ((kRows & kFirstRow) != 0) put(0, b_end<kM, 0>(at));
  put_pairs<kM, kRows, 0>([&](auto index, Native& plus, Native& minus)
                              HWY_ATTR { b_pair<kM, decltype(index)::value>(at, plus, minus); },
                          put);
  if constexpr ((kRows & kLastRow) != 0) put(kM + 1, b_end<kM, 1>(at));
}

// f(i, where the first point of row i goes, the shift of its last) for the rows of `kRows`.
template <int kM, int kRows, typename F>
HWY_INLINE void for_each_row(float* out, std::int64_t plane, const Shifts& shifts, const F& f) {
  PODIUM_KEEP_LOOP
  for (int i = 0; i < kAxis<kM>; ++i) {
    const bool last = i == kM + 1;
    if ((kRows & row_bit<kM>(i)) != 0)
      f(i, out + i * kAxis<kM> * plane + (last ? shifts.row : 0),
        last ? shifts.corner - shifts.row : shifts.column);
  }
}

// Half the points of a tile of four fit in registers between the two passes, where there are 32:
// they are neither stored nor loaded, but the pixels are read for each half.
template <int kM>
inline constexpr bool kInRegisters = kM == 4 && HWY_TARGET != HWY_AVX2;
template <int kM, int kRows>
inline constexpr bool kIsHalf = (kRows & kLowerRows) == 0 || (kRows & kUpperRows) == 0;

// transform_pixels, `kRows` among one half of the rows, with what lies between the passes in
// registers.
template <int kM, int kRows, int kHeight, int kWidth, typename Read, typename Down, typename Across>
HWY_INLINE void half_in_registers(const Patch& p, int lane, const Read& read,
                                  float* HWY_RESTRICT out, std::int64_t plane, const Shifts& shifts,
                                  const Down& down, const Across& across) {
  const NativeTag t;
  constexpr int kBegin = (kRows & kUpperRows) != 0 ? 0 : kAxis<kM> / 2;
  constexpr int kEnd = kBegin + kAxis<kM> / 2;
  Native between[kAxis<kM> / 2][kWidth];
  const std::int64_t step = p.column_step;
  PODIUM_UNROLL
  for (int j = 0; j < kWidth; ++j) {
    Native column[kHeight];
    if (j >= p.left && j < p.right) {
      PODIUM_UNROLL
      for (int i = 0; i < kHeight; ++i) column[i] = read(i, p.rows[i] + lane + j * step);
    } else {
      PODIUM_UNROLL
      for (int i = 0; i < kHeight; ++i) column[i] = number(0);
    }
    down(column, [&](int i, Native x) HWY_ATTR { between[i - kBegin][j] = x; });
  }
  PODIUM_UNROLL
  for (int i = kBegin; i < kEnd; ++i) {
    const bool last = i == kM + 1;
    if ((kRows & row_bit<kM>(i)) == 0) continue;
    float* to = out + i * kAxis<kM> * plane + (last ? shifts.row : 0);
    const std::int64_t shift = last ? shifts.corner - shifts.row : shifts.column;
    across(between[i - kBegin], [&](int j, Native x) HWY_ATTR {
      hn::StoreU(x, t, to + j * plane + (j == kM + 1 ? shift : 0));
    });
  }
}

// The points at rows `kRows` of kHeight x kWidth pixels: down(column, put) and across(row, put) put
// the points of an axis.
template <int kM, int kRows, int kHeight, int kWidth, typename Read, typename Down, typename Across>
HWY_INLINE void transform_pixels(const Patch& p, int lane, const Read& read,
                                 float* HWY_RESTRICT out, std::int64_t plane, const Shifts& shifts,
                                 const Down& down, const Across& across) {
  if constexpr (kInRegisters<kM> && kIsHalf<kM, kRows>)
    return half_in_registers<kM, kRows, kHeight, kWidth>(p, lane, read, out, plane, shifts, down,
                                                         across);
  const NativeTag t;
  Between<kM> between;
  const std::int64_t step = p.column_step;
  PODIUM_KEEP_LOOP
  for (int j = 0; j < kWidth; ++j) {
    const bool inside = j >= p.left && j < p.right;
    Native column[kHeight];
    PODIUM_UNROLL
    for (int i = 0; i < kHeight; ++i)
      column[i] = inside ? read(i, p.rows[i] + lane + j * step) : number(0);
    down(column, [&](int i, Native x) HWY_ATTR { hn::Store(x, t, between(i, j)); });
  }
  for_each_row<kM, kRows>(out, plane, shifts, [&](int i, float* to, std::int64_t shift) HWY_ATTR {
    Native row[kWidth];
    PODIUM_UNROLL
    for (int j = 0; j < kWidth; ++j) row[j] = hn::Load(t, between(i, j));
    across(row, [&](int j, Native x)
                    HWY_ATTR { hn::StoreU(x, t, to + j * plane + (j == kM + 1 ? shift : 0)); });
  });
}

// Calls f(whole down, whole across) with constants.
template <typename F>
HWY_INLINE void for_wholeness(bool down, bool across, const F& f) {
  if (down) {
    if (across)
      f(std::true_type(), std::true_type());
    else
      f(std::true_type(), std::false_type());
  } else {
    if (across)
      f(std::false_type(), std::true_type());
    else
      f(std::false_type(), std::false_type());
  }
}

// The points of a patch.
template <int kM, int kRows, typename Read>
HWY_INLINE void transform_patch(const Patch& p, bool whole_down, bool whole_across, int lane,
                                const Read& read, float* HWY_RESTRICT out, std::int64_t plane,
                                const Shifts& shifts = {}) {
  for_wholeness(whole_down, whole_across, [&](auto down, auto across) HWY_ATTR {
    constexpr bool kDown = decltype(down)::value, kAcross = decltype(across)::value;
    [[maybe_unused]] constexpr int kDownRows = kDown ? kRows : kRows & ~kLastRow;
    [[maybe_unused]] constexpr int kAcrossRows = kAcross ? kAllRows : kAllRows & ~kLastRow;
    transform_pixels<kM, kDownRows, kDown ? kM + 2 : kM + 1, kAcross ? kM + 2 : kM + 1>(
        p, lane, read, out, plane, shifts,
        [](const Native* d, const auto& put) HWY_ATTR { transform_b<kM, kDownRows>(d, put); },
        [](const Native* d, const auto& put) HWY_ATTR { transform_b<kM, kAcrossRows>(d, put); });
  });
}

// ---- A^T: from points to pixels ----
// Where the pixels of a tile go: columns [left, right) exist.
struct Target {
  float* rows[podium::winograd::kMostOutputs];  // null: the row does not exist
  std::int64_t column_step;
  int left, right;
};

// The sums, or the differences, of the pairs of points; m(i) is point i.
template <int kM, bool kSums, typename At>
HWY_INLINE void pairs_of(const At& m, Native* z) {
  PODIUM_UNROLL
  for (int i = 0; i < kPairs<kM>; ++i)
    z[i] = kSums ? add(m(2 * i + 1), m(2 * i + 2)) : sub(m(2 * i + 1), m(2 * i + 2));
}
// c[0] z[0] + ... + c[3] z[3], and the same + last
template <typename C>
HWY_INLINE Native chain_of(const C& c, const Native* z) {
  return fma(c[3], z[3], fma(c[2], z[2], fma(c[1], z[1], mul(c[0], z[0]))));
}
template <typename C>
HWY_INLINE Native chain_of(const C& c, const Native* z, Native last) {
  return fma(c[3], z[3], fma(c[2], z[2], fma(c[1], z[1], fma(c[0], z[0], last))));
}
// y[k] of even k from the sums and the first point; of odd k from the differences and the last
// point, which a tile that is not whole lacks, as it does the last y.
template <int kM>
HWY_INLINE void a_even(const Native* s, Native first, Native* y) {
  using C = Constants<kM>;
  if constexpr (kM == 4) {
    y[0] = add(add(first, s[0]), s[1]);
    y[2] = fma(C::kB2, s[1], mul(C::kA2, s[0]));
  } else if constexpr (kM == 8) {
    y[0] = add(add(add(add(first, s[0]), s[1]), s[2]), s[3]);
    y[2] = chain_of(C::kPower[2], s);
    y[4] = chain_of(C::kPower[4], s);
    y[6] = chain_of(C::kPower[6], s);
  } else {
    y[0] = add(add(add(first, s[0]), s[1]), s[2]);
    y[2] = fma(4, s[2], fma(0.25f, s[0], s[1]));
    y[4] = fma(16, s[2], fma(0.0625f, s[0], s[1]));
  }
}
template <int kM, bool kWhole>
HWY_INLINE void a_odd(const Native* d, Native last, Native* y) {
  using C = Constants<kM>;
  if constexpr (kM == 4) {
    y[1] = fma(C::kB, d[1], mul(C::kA, d[0]));
    if constexpr (kWhole) y[3] = fma(C::kA3, d[0], fma(C::kB3, d[1], last));
  } else if constexpr (kM == 8) {
    y[1] = chain_of(C::kPower[1], d);
    y[3] = chain_of(C::kPower[3], d);
    y[5] = chain_of(C::kPower[5], d);
    if constexpr (kWhole) y[7] = chain_of(C::kPower[7], d, last);
  } else {
    y[1] = fma(2, d[2], fma(0.5f, d[0], d[1]));
    y[3] = fma(8, d[2], fma(0.125f, d[0], d[1]));
    if constexpr (kWhole) y[5] = fma(32, d[2], fma(0.03125f, d[0], add(d[1], last)));
  }
}

// put(i, pixel i) for the even or the odd pixels, of kM or, where a tile is not whole, one less,
// from the points of an axis.
template <int kM, bool kOdd, bool kWhole, typename At, typename Put>
HWY_INLINE void transform_at(const At& m, const Put& put) {
  Native z[kPairs<kM>], y[kM];
  pairs_of<kM, !kOdd>(m, z);
  if constexpr (!kOdd)
    a_even<kM>(z, m(0), y);
  else
    a_odd<kM, kWhole>(z, kWhole ? m(kM + 1) : z[0], y);
  PODIUM_UNROLL
  for (int i = kOdd; i < (kWhole ? kM : kM - 1); i += 2) put(i, y[i]);
}

// Even and odd pixels in loops of their own: the constants of one fill the registers.
template <typename F>
HWY_INLINE void for_even_and_odd(const F& f) {
  f(std::false_type());
  f(std::true_type());
}

// transform_tile with what lies between the passes in registers, of half the rows at a time.
template <int kM, bool kWholeDown, bool kWholeAcross, bool kStream>
HWY_INLINE void tile_in_registers(const float* HWY_RESTRICT m, std::int64_t plane,
                                  const Shifts& shifts, const Target& target, int lane) {
  const NativeTag t;
  constexpr int kColumns = kWholeAcross ? kM + 2 : kM + 1;
  constexpr int kHeight = kWholeDown ? kM : kM - 1, kWidth = kWholeAcross ? kM : kM - 1;
  const bool all = target.left == 0 && target.right == kWidth;
  for_even_and_odd([&](auto odd) HWY_ATTR {
    constexpr bool kOdd = decltype(odd)::value;
    Native between[kM][kColumns];
    PODIUM_UNROLL
    for (int j = 0; j < kColumns; ++j) {
      const bool last = j == kM + 1;
      const float* column = m + lane + j * plane + (last ? shifts.column : 0);
      const std::int64_t shift = last ? shifts.corner - shifts.column : shifts.row;
      transform_at<kM, kOdd, kWholeDown>(
          [&](int i) HWY_ATTR {
            return hn::LoadU(t, column + kAxis<kM> * i * plane + (i == kM + 1 ? shift : 0));
          },
          [&](int i, Native x) HWY_ATTR { between[i][j] = x; });
    }
    PODIUM_UNROLL
    for (int i = kOdd; i < kHeight; i += 2) {
      if (target.rows[i] == nullptr) continue;
      float* row = target.rows[i] + lane;
      Native y[kM];
      const auto at = [&](int j) HWY_ATTR { return between[i][j]; };
      const auto put = [&](int j, Native x) HWY_ATTR { y[j] = x; };
      transform_at<kM, false, kWholeAcross>(at, put);
      transform_at<kM, true, kWholeAcross>(at, put);
      PODIUM_UNROLL
      for (int j = 0; j < kWidth; ++j) {
        if (!all && (j < target.left || j >= target.right)) continue;
        if constexpr (kStream)
          hn::Stream(y[j], t, row + j * target.column_step);
        else
          hn::StoreU(y[j], t, row + j * target.column_step);
      }
    }
  });
}

// The pixels of a tile from its points, point (i, j) at m[(axis i + j) plane] and shifted.
template <int kM, bool kWholeDown, bool kWholeAcross, bool kStream>
HWY_INLINE void transform_tile(const float* HWY_RESTRICT m, std::int64_t plane,
                               const Shifts& shifts, const Target& target, int lane) {
  const NativeTag t;
  constexpr int kColumns = kWholeAcross ? kM + 2 : kM + 1;
  constexpr int kHeight = kWholeDown ? kM : kM - 1, kWidth = kWholeAcross ? kM : kM - 1;
  if constexpr (kInRegisters<kM>)
    return tile_in_registers<kM, kWholeDown, kWholeAcross, kStream>(m, plane, shifts, target, lane);
  Between<kM> between;
  for_even_and_odd([&](auto odd) HWY_ATTR {
    PODIUM_KEEP_LOOP
    for (int j = 0; j < kColumns; ++j) {
      const bool last = j == kM + 1;
      const float* column = m + lane + j * plane + (last ? shifts.column : 0);
      const std::int64_t shift = last ? shifts.corner - shifts.column : shifts.row;
      const auto at = [&](int i) HWY_ATTR {
        return hn::LoadU(t, column + kAxis<kM> * i * plane + (i == kM + 1 ? shift : 0));
      };
      transform_at<kM, decltype(odd)::value, kWholeDown>(
          at, [&](int i, Native x) HWY_ATTR { hn::Store(x, t, between(i, j)); });
    }
  });
  const bool all = target.left == 0 && target.right == kWidth;
  for_even_and_odd([&](auto odd) HWY_ATTR {
    PODIUM_KEEP_LOOP
    for (int i = 0; i < kHeight; ++i) {
      if (target.rows[i] == nullptr) continue;
      float* row = target.rows[i] + lane;
      transform_at<kM, decltype(odd)::value, kWholeAcross>(
          [&](int j) HWY_ATTR { return hn::Load(t, between(i, j)); },
          [&](int j, Native x) HWY_ATTR {
            if (!all && (j < target.left || j >= target.right)) return;
            if constexpr (kStream)
              hn::Stream(x, t, row + j * target.column_step);
            else
              hn::StoreU(x, t, row + j * target.column_step);
          });
    }
  });
}

// The same of a tile that is whole or not, down and across.
template <int kM, bool kStream>
HWY_INLINE void transform_tile(bool whole_down, bool whole_across, const float* HWY_RESTRICT m,
                               std::int64_t plane, const Shifts& shifts, const Target& target,
                               int lane) {
  for_wholeness(whole_down, whole_across, [&](auto down, auto across) HWY_ATTR {
    transform_tile<kM, decltype(down)::value, decltype(across)::value, kStream>(m, plane, shifts,
                                                                                target, lane);
  });
}

// ---- A: from pixels to points, of the gradient to the output ----
// y(i) is pixel i; a tile that is not whole lacks the last one.
template <int kM, int kPair, bool kWhole, typename At>
HWY_INLINE void a_pair(const At& y, Native& plus, Native& minus) {
  using C = Constants<kM>;
  if constexpr (kM == 4) {
    constexpr float kSquare = kPair == 0 ? C::kA2 : C::kB2, kPoint = kPair == 0 ? C::kA : C::kB;
    const Native e = fma(kSquare, y(2), y(0));
    const Native o = mul(kPoint, kWhole ? fma(kSquare, y(kWhole ? 3 : 1), y(1)) : y(1));
    plus = add(e, o), minus = sub(e, o);
  } else if constexpr (kM == 8) {
    constexpr float kSquare = C::kSquare[kPair], kPoint = C::kPoint[kPair];
    const Native e = fma(kSquare, fma(kSquare, fma(kSquare, y(6), y(4)), y(2)), y(0));
    const Native o = fma(
        kSquare, fma(kSquare, kWhole ? fma(kSquare, y(kWhole ? 7 : 5), y(5)) : y(5), y(3)), y(1));
    plus = fma(kPoint, o, e), minus = fma(-kPoint, o, e);
  } else {
    constexpr float kSquare = C::kSquare[kPair], kPoint = C::kPoint[kPair];
    const Native e = fma(kSquare, fma(kSquare, y(4), y(2)), y(0));
    const Native o = fma(kSquare, kWhole ? fma(kSquare, y(kWhole ? 5 : 3), y(3)) : y(3), y(1));
    plus = fma(kPoint, o, e), minus = fma(-kPoint, o, e);
  }
}
// put(i, row i of A y) for the rows of `kRows`.
template <int kM, int kRows, bool kWhole, typename Put>
HWY_INLINE void transform_a(const Native* y, const Put& put) {
  const auto at = [&](int i) HWY_ATTR { return y[i]; };
  if constexpr ((kRows & kFirstRow) != 0) put(0, y[0]);
  put_pairs<kM, kRows, 0>(
      [&](auto index, Native& plus, Native& minus)
          HWY_ATTR { a_pair<kM, decltype(index)::value, kWhole>(at, plus, minus); },
      put);
  if constexpr ((kRows & kLastRow) != 0 && kWhole) put(kM + 1, y[kM - 1]);
}

// The points of a tile of pixels.
template <int kM, int kRows, typename Read>
HWY_INLINE void transform_gradient(const Patch& p, bool whole_down, bool whole_across, int lane,
                                   const Read& read, float* HWY_RESTRICT out, std::int64_t plane,
                                   const Shifts& shifts) {
  for_wholeness(whole_down, whole_across, [&](auto down, auto across) HWY_ATTR {
    constexpr bool kDown = decltype(down)::value, kAcross = decltype(across)::value;
    [[maybe_unused]] constexpr int kDownRows = kDown ? kRows : kRows & ~kLastRow;
    transform_pixels<kM, kDownRows, kDown ? kM : kM - 1, kAcross ? kM : kM - 1>(
        p, lane, read, out, plane, shifts,
        [](const Native* y, const auto& put)
            HWY_ATTR { transform_a<kM, kDownRows, kDown>(y, put); },
        [](const Native* y, const auto& put)
            HWY_ATTR { transform_a<kM, kAllRows, kAcross>(y, put); });
  });
}

// The patch at index (i, j) of a phase, `height` rows of which count, of an axis of `points`: the
// first row that is inside gives `base`, the plane's pixel (0, 0).
HWY_INLINE Patch patch_at(const Phased& t, const float* base, std::int64_t a, std::int64_t b,
                          std::int64_t i, std::int64_t j, std::int64_t height, int points,
                          const float* zeros) {
  Patch p;
  const std::int64_t row = t.step_h * i + a + t.first_h, column = t.step_w * j + b + t.first_w;
  for (int r = 0; r < podium::winograd::kMostPoints; ++r) {
    const std::int64_t y = row + r * t.step_h;
    p.rows[r] =
        r < height && y >= 0 && y < t.height ? base + (y * t.width + column) * kLanes : zeros;
  }
  p.column_step = t.step_w * kLanes;
  p.left = 0;
  while (p.left < points && column + p.left * t.step_w < 0) ++p.left;
  p.right = points;
  while (p.right > p.left && column + (p.right - 1) * t.step_w >= t.width) --p.right;
  return p;
}

}  // namespace winograd
}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#endif  // PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_INL_H_
