#include "backend/cpu/kernels/bf16/tensor_tiles.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/bf16/tensor_tiles.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/v16-inl.h"

#if defined(__x86_64__) && !defined(PODIUM_BACKEND_CPU_KERNELS_BF16_TENSOR_TILES_CC_)
#define PODIUM_BACKEND_CPU_KERNELS_BF16_TENSOR_TILES_CC_
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace {

using Words = hn::RebindToUnsigned<NativeTag>;
using WordVector = hn::Vec<Words>;
using Integers = hn::RebindToSigned<NativeTag>;
using IntegerVector = hn::Vec<Integers>;
using Shorts = hn::Repartition<std::int16_t, Integers>;

constexpr int kRows = 4;                // whose sums are in registers
constexpr std::int64_t kChunkRuns = 8;  // whose operands stay in L1
constexpr std::int64_t kChunkTerms = kChunkRuns * kBf16Run;
constexpr std::int64_t kMostRows = std::int64_t{2} * kTileRows;

// Exponents of operands. Sums of two with a zero are below those of any other two, and sums with
// an infinity or NaN beyond them.
constexpr std::int16_t kOfZero = -3000, kOfInfinity = 16000;
constexpr std::int32_t kNothing = -1000;
// Exponents of the left operands, of sums so far and of the largest term are FP32's own: this more.
constexpr std::int32_t kBias = 127;
// Of the largest exponent: beyond, FP32 might not hold what the fast way makes.
constexpr std::int32_t kLeastFast = kBias - 95, kMostFast = kBias + 95;
constexpr std::int32_t kFastSum = 0x7b000000;

// Of each half of a word.
template <std::int32_t kMore>
HWY_INLINE WordVector exponents_of(const WordVector& pairs) {
  const Shorts d;
  const auto halves = hn::BitCast(d, pairs);
  const auto size = hn::And(halves, hn::Set(d, std::int16_t{0x7fff}));
  const auto field = hn::ShiftRight<7>(size);
  auto exponent =
      hn::Sub(hn::Max(field, hn::Set(d, std::int16_t{1})), hn::Set(d, std::int16_t{kBias - kMore}));
  exponent = hn::IfThenElse(hn::Eq(size, hn::Zero(d)), hn::Set(d, kOfZero), exponent);
  exponent = hn::IfThenElse(hn::Eq(field, hn::Set(d, std::int16_t{255})), hn::Set(d, kOfInfinity),
                            exponent);
  return hn::BitCast(Words(), exponent);
}

// Exponents of operands that are not zero, as those of left ones.
struct Range {
  std::int32_t least = 0;
  bool finite = true;
};
class Sizes {
 public:
  HWY_INLINE Sizes()
      : least_(hn::Set(Halves(), std::uint16_t{0xffff})), most_(hn::Zero(Halves())) {}
  HWY_INLINE void add(const WordVector& pairs) {
    const Halves d;
    const auto size = hn::And(hn::BitCast(d, pairs), hn::Set(d, std::uint16_t{0x7fff}));
    least_ = hn::Min(least_, hn::Sub(size, hn::Set(d, std::uint16_t{1})));  // 0 is the largest then
    most_ = hn::Max(most_, size);
  }
  HWY_INLINE Range range() const {
    const Halves d;
    HWY_ALIGN std::uint16_t least[2 * kNative], most[2 * kNative];
    hn::Store(least_, d, least);
    hn::Store(most_, d, most);
    return {std::max((*std::min_element(least, least + 2 * kNative) + 1) >> 7, 1),
            *std::max_element(most, most + 2 * kNative) < 0x7f80};
  }

 private:
  using Halves = hn::Repartition<std::uint16_t, Words>;
  hn::Vec<Halves> least_, most_;
};

// Operands of a chunk, with room for both: values, and exponents in pairs.
struct Operands {
  float* left;                           // [32 rows][256 terms]
  std::uint32_t* left_pairs;             // [32 rows][128]
  float* right;                          // [256 terms][16]
  std::uint32_t* right_pairs;            // [128][16]
  std::uint32_t left_octets[kMostRows];  // bit i: whether octet i has a number that is not zero
  std::uint32_t right_octets = 0;        // of the 16 columns together
  Range left_range, right_range;

  explicit Operands(float* scratch)
      : left(scratch),
        left_pairs(in_memory<std::uint32_t>(left + kMostRows * kChunkTerms)),
        right(scratch + kMostRows * kChunkTerms * 3 / 2),
        right_pairs(in_memory<std::uint32_t>(right + kChunkTerms * kTileColumns)) {}
  static constexpr std::int64_t floats() {
    return (kMostRows + kTileColumns) * kChunkTerms * 3 / 2;
  }
};
static_assert(kChunkRuns * kRunOctets == 32);  // bits of a word
static_assert(Operands::floats() == tile_scratch(Bf16Order::kHopper, 1));

// Four pairs of terms of sixteen columns. Whether one of them is not zero.
HWY_INLINE bool expand_octet(const std::uint16_t* octet, float* values, std::uint32_t* pairs,
                             Sizes& sizes) {
  const Words d;
  const auto* words = reinterpret_cast<const std::uint32_t*>(octet);
  auto all = hn::Zero(d);
  for (int pair = 0; pair < 4; ++pair)
    for (int i = 0; i < kTileColumns; i += kNative) {
      const auto both = hn::LoadU(d, words + pair * kTileColumns + i);
      float* to = values + 2 * pair * kTileColumns + i;
      hn::StoreU(hn::BitCast(NativeTag(), hn::ShiftLeft<16>(both)), NativeTag(), to);
      hn::StoreU(hn::BitCast(NativeTag(), hn::And(both, hn::Set(d, 0xffff0000u))), NativeTag(),
                 to + kTileColumns);
      hn::StoreU(exponents_of<0>(both), d, pairs + pair * kTileColumns + i);
      sizes.add(both);
      all = hn::Or(all, both);
    }
  all = hn::And(all, hn::Set(d, 0x7fff7fffu));
  return !hn::AllTrue(d, hn::Eq(all, hn::Zero(d)));
}
// The 32 terms of a row of a left tile. Bit i: whether octet i has one that is not zero.
HWY_INLINE std::uint32_t expand_row(const std::uint16_t* row, float* values, std::uint32_t* pairs,
                                    Sizes& sizes) {
  const Words d;
  const hn::Rebind<std::uint16_t, Words> halves;
  for (int i = 0; i < kBf16Run; i += kNative)
    hn::StoreU(
        hn::BitCast(NativeTag(), hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(halves, row + i)))),
        NativeTag(), values + i);
  const auto* words = reinterpret_cast<const std::uint32_t*>(row);
  for (int i = 0; i < kBf16Run / 2; i += kNative) {
    const auto both = hn::LoadU(d, words + i);
    hn::StoreU(exponents_of<kBias>(both), d, pairs + i);
    sizes.add(both);
  }
  std::uint32_t octets = 0;
  for (int octet = 0; octet < kRunOctets; ++octet) {
    std::uint32_t all = 0;
    for (int i = 0; i < static_cast<int>(kBf16Octet) / 2; ++i) all |= words[octet * 4 + i];
    octets |= static_cast<std::uint32_t>((all & 0x7fff7fffu) != 0) << octet;
  }
  return octets;
}

// Toward zero. Lanes beyond 32-bit integers are any number.
HWY_INLINE IntegerVector cut_lanes(const Native& x) {
#if HWY_TARGET == HWY_AVX3
  return IntegerVector{_mm512_cvttps_epi32(x.raw)};
#elif HWY_TARGET == HWY_AVX2
  return IntegerVector{_mm256_cvttps_epi32(x.raw)};
#else
  return hn::ConvertTo(Integers(), x);
#endif
}
// Toward zero, of integers up to 0x7f000000 in magnitude.
HWY_INLINE Native cut_to_float(const IntegerVector& x) {
#if HWY_TARGET == HWY_AVX3
  return Native{_mm512_cvt_roundepi32_ps(x.raw, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)};
#else
  const Integers d;
  const Native nearest = hn::ConvertTo(NativeTag(), x);
  const auto beyond = hn::Gt(hn::Abs(cut_lanes(nearest)), hn::Abs(x));
  return hn::BitCast(NativeTag(),
                     hn::Add(hn::BitCast(d, nearest), hn::VecFromMask(d, beyond)));  // - 1
#endif
}

// What a group's lanes share.
struct Scale {
  IntegerVector products;  // the largest exponent of them
  IntegerVector up;        // 2^(bits - the largest exponent), as FP32's bits
  hn::Mask<Integers> slow;
};
// Of exponents in pairs, and of the sum so far. Without kTiny, no exponent of a product is below
// kLeastFast, and sums below are multiples of what is cut at it: they stay what they are.
template <int kBits, bool kTiny>
HWY_INLINE Scale scale_of(const hn::Vec<Shorts>& pairs, const Native& sum) {
  const Integers d;
  const Words words;
  const Shorts shorts;
  const auto upper = hn::BitCast(shorts, hn::ShiftLeft<16>(hn::BitCast(words, pairs)));
  const auto products = hn::ShiftRight<16>(hn::BitCast(d, hn::Max(pairs, upper)));
  const auto own = hn::BitCast(d, hn::ShiftRight<24>(hn::ShiftLeft<1>(hn::BitCast(words, sum))));
  const auto largest = hn::Max(products, own);
  auto slow = hn::Gt(largest, hn::Set(d, kMostFast));
  if constexpr (kTiny) slow = hn::Or(slow, hn::Lt(largest, hn::Set(d, kLeastFast)));
  const auto up = hn::ShiftLeft<23>(
      hn::Sub(hn::Set(d, 2 * kBias + kBits), hn::Max(largest, hn::Set(d, kLeastFast))));
  return {products, up, slow};
}

// Lanes whose bit is set, by the rule.
template <Bf16Order kOrder>
HWY_NOINLINE void sum_slowly(std::uint8_t const* lanes, const float* left, const float* right,
                             const float* sums, float* to) {
  constexpr TensorCore kCore = tensor_core_of(kOrder);
  for (int lane = 0; lane < kNative; ++lane)
    if ((lanes[lane / 8] >> lane % 8 & 1) != 0)
      to[lane] = tensor_core_sum(kCore, sums[lane], [&](int i, std::uint16_t& a, std::uint16_t& b) {
        a = bf16_upper(left[i]);
        b = bf16_upper(right[i * kTileColumns + lane]);
      });
}

// `next`, but sums by the rule in lanes that the fast way cannot make. Zeros alone are none of
// these: their sum is +0 already.
template <Bf16Order kOrder>
HWY_INLINE Native correct_slowly(const Scale& scale, const float* left, const float* right,
                                 const Native& sums, const Native& next) {
  const NativeTag d;
  const Integers integers;
  const auto nothing = hn::And(hn::Lt(scale.products, hn::Set(integers, kNothing)),
                               hn::RebindMask(integers, hn::Eq(sums, hn::Zero(d))));
  const auto slow = hn::AndNot(nothing, scale.slow);
  if (hn::AllFalse(integers, slow)) return next;
  std::uint8_t lanes[8] = {};
  hn::StoreMaskBits(integers, slow, lanes);
  HWY_ALIGN float before[kNative], after[kNative];
  hn::Store(sums, d, before);
  hn::Store(next, d, after);
  sum_slowly<kOrder>(lanes, left, right, before, after);
  return hn::Load(d, after);
}

// Adds a group to kRows rows of sums of a register of columns.
template <Bf16Order kOrder, bool kTiny>
HWY_INLINE void add_group(const float* HWY_RESTRICT left,
                          const std::uint32_t* HWY_RESTRICT left_pairs,
                          const float* HWY_RESTRICT right,
                          const std::uint32_t* HWY_RESTRICT right_pairs, Native* sums) {
  constexpr TensorCore kCore = tensor_core_of(kOrder);
  constexpr int kGroup = kCore.group;
  const NativeTag d;
  const Integers integers;
  const Words words;
  const Shorts shorts;
  hn::Vec<Shorts> pairs[kRows];
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) pairs[r] = hn::Set(shorts, std::int16_t{-32768});
  HWY_UNROLL(8)
  for (int pair = 0; pair < kGroup / 2; ++pair) {
    const auto other = hn::BitCast(shorts, hn::LoadU(words, right_pairs + pair * kTileColumns));
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
      const auto own =
          hn::BitCast(shorts, hn::Set(words, left_pairs[r * (kChunkTerms / 2) + pair]));
      pairs[r] = hn::Max(pairs[r], hn::Add(own, other));
    }
  }
  Native up[kRows];
  Scale scales[kRows];
  hn::Mask<Integers> any;
  IntegerVector totals[kRows];
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    scales[r] = scale_of<kCore.bits, kTiny>(pairs[r], sums[r]);
    up[r] = hn::BitCast(d, scales[r].up);
    totals[r] =
        cut_lanes(hn::Mul(hn::Mul(hn::LoadU(d, right), hn::Set(d, left[r * kChunkTerms])), up[r]));
  }
  HWY_UNROLL(16)
  for (int i = 1; i < kGroup; ++i) {
    const Native other = hn::LoadU(d, right + i * kTileColumns);
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
      const Native product = hn::Mul(other, hn::Set(d, left[r * kChunkTerms + i]));
      totals[r] = hn::Add(totals[r], cut_lanes(hn::Mul(product, up[r])));
    }
  }
  Native next[kRows];
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    if constexpr (kGroup == kMostGroup)
      scales[r].slow =
          hn::Or(scales[r].slow, hn::Gt(hn::Abs(totals[r]), hn::Set(integers, kFastSum)));
    any = r == 0 ? scales[r].slow : hn::Or(any, scales[r].slow);
    const auto total = hn::Add(totals[r], cut_lanes(hn::Mul(sums[r], up[r])));
    const auto down = hn::Sub(hn::Set(integers, 2 * kBias << 23), scales[r].up);
    next[r] = hn::Mul(cut_to_float(total), hn::BitCast(d, down));
  }
  if (HWY_UNLIKELY(!hn::AllFalse(integers, any)))
    for (int r = 0; r < kRows; ++r)
      next[r] = correct_slowly<kOrder>(scales[r], left + r * kChunkTerms, right, sums[r], next[r]);
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) sums[r] = next[r];
}

// kRows rows of left operands by a register of columns, of the groups whose bits are set. The
// products of the others are zeros, which add nothing: activations have many. Rows from `rows` on
// are not written.
template <Bf16Order kOrder>
HWY_NOINLINE void multiply_rows(const float* HWY_RESTRICT left,
                                const std::uint32_t* HWY_RESTRICT left_pairs,
                                const float* HWY_RESTRICT right,
                                const std::uint32_t* HWY_RESTRICT right_pairs, std::uint32_t groups,
                                bool tiny, float* out, std::int64_t stride, std::int64_t rows) {
  const NativeTag d;
  Native sums[kRows];
  for (int r = 0; r < kRows; ++r) {
    // 0 and zeros are +0, whatever their signs.
    sums[r] = r < rows ? hn::Add(hn::LoadU(d, out + r * stride), hn::Zero(d)) : hn::Zero(d);
    const auto below = hn::Lt(hn::Abs(sums[r]), hn::Set(d, 0x1p-95f));
    tiny = tiny || !hn::AllFalse(d, hn::And(below, hn::Ne(sums[r], hn::Zero(d))));
  }
  const auto add_groups = [&](auto is_tiny) {
    for (std::uint32_t rest = groups; rest != 0; rest &= rest - 1) {
      const auto first = std::countr_zero(rest) * kBf16Octet;
      add_group<kOrder, is_tiny()>(left + first, left_pairs + first / 2,
                                   right + first * kTileColumns,
                                   right_pairs + first / 2 * kTileColumns, sums);
    }
  };
  if (tiny)
    add_groups(std::true_type());
  else
    add_groups(std::false_type());
  for (int r = 0; r < kRows && r < rows; ++r) hn::StoreU(sums[r], d, out + r * stride);
}

void expand_left(const TileProduct& p, std::int64_t first, std::int64_t runs, Operands& to) {
  Sizes sizes;
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const std::uint16_t* tile =
        p.left + row / kTileRows * p.left_stride + first * kTileValues + row % kTileRows * kBf16Run;
    to.left_octets[row] = 0;
    for (std::int64_t run = 0; run < runs; ++run)
      to.left_octets[row] |=
          expand_row(tile + run * kTileValues, to.left + row * kChunkTerms + run * kBf16Run,
                     to.left_pairs + (row * kChunkTerms + run * kBf16Run) / 2, sizes)
          << run * kRunOctets;
  }
  to.left_range = sizes.range();
}
void expand_right(const TileProduct& p, std::int64_t column, std::int64_t first, std::int64_t runs,
                  Operands& to) {
  Sizes sizes;
  to.right_octets = 0;
  for (std::int64_t i = 0; i < runs * kRunOctets; ++i) {
    const std::int64_t run = column * p.runs + first + i / kRunOctets;
    const std::uint16_t* octet = p.by_octets ? p.right[run * kRunOctets + i % kRunOctets]
                                             : p.right[run] + i % kRunOctets * kOctetValues;
    const bool any = expand_octet(octet, to.right + i * kBf16Octet * kTileColumns,
                                  to.right_pairs + i * kBf16Octet / 2 * kTileColumns, sizes);
    to.right_octets |= static_cast<std::uint32_t>(any) << i;
  }
  to.right_range = sizes.range();
}

// Bits of the first octets of groups that may have a product other than 0 in rows from `row` on.
// Infinity by 0 is NaN.
template <Bf16Order kOrder>
std::uint32_t groups_of(const Operands& operands, std::int64_t row, std::int64_t octets) {
  std::uint32_t some = 0;
  for (int r = 0; r < kRows; ++r) some |= operands.left_octets[row + r];
  some &= operands.right_octets;
  if (!operands.left_range.finite || !operands.right_range.finite)
    some = ~std::uint32_t{0} >> (kChunkRuns * kRunOctets - octets);
  return tensor_core_of(kOrder).group == kBf16Octet ? some : (some | some >> 1) & 0x55555555u;
}

template <Bf16Order kOrder>
void multiply_in_order(const TileProduct& p, float* scratch) {
  Operands operands(scratch);
  // Rows that a register's rows have beyond the last one.
  const std::int64_t rows = (p.rows + kRows - 1) / kRows * kRows;
  for (std::int64_t row = p.rows; row < rows; ++row) {
    std::fill_n(operands.left + row * kChunkTerms, kChunkTerms, 0.0f);
    std::fill_n(operands.left_pairs + row * kChunkTerms / 2, kChunkTerms / 2, 0u);
    operands.left_octets[row] = 0;
  }
  for (std::int64_t column = 0; !p.continues && column < p.columns; ++column)
    for (std::int64_t row = 0; row < p.rows; ++row)
      std::fill_n(p.out[column] + row * p.out_stride, kTileColumns, 0.0f);
  for (std::int64_t first = 0; first < p.runs; first += kChunkRuns) {
    const std::int64_t runs = std::min(kChunkRuns, p.runs - first);
    expand_left(p, first, runs, operands);
    for (std::int64_t column = 0; column < p.columns; ++column) {
      expand_right(p, column, first, runs, operands);
      const bool tiny = operands.left_range.least + operands.right_range.least - kBias < kLeastFast;
      for (std::int64_t row = 0; row < p.rows; row += kRows) {
        const std::uint32_t groups = groups_of<kOrder>(operands, row, runs * kRunOctets);
        for (int i = 0; i < kTileColumns; i += kNative)
          multiply_rows<kOrder>(operands.left + row * kChunkTerms,
                                operands.left_pairs + row * kChunkTerms / 2, operands.right + i,
                                operands.right_pairs + i, groups, tiny,
                                p.out[column] + row * p.out_stride + i, p.out_stride, p.rows - row);
      }
    }
  }
}

}  // namespace

void multiply_as_tensor_core(const TileProduct& p, float* scratch) {
  if (p.order == Bf16Order::kAmpere)
    multiply_in_order<Bf16Order::kAmpere>(p, scratch);
  else
    multiply_in_order<Bf16Order::kHopper>(p, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(multiply_as_tensor_core);

void multiply_tiles_as_tensor_core(const TileProduct& product, float* scratch) {
  PODIUM_DISPATCH(multiply_as_tensor_core)(product, scratch);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
