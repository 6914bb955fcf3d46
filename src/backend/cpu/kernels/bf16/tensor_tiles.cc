#include "backend/cpu/kernels/bf16/tensor_tiles.h"

#include <algorithm>
#include <cstddef>

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

constexpr int kRows = 1, kSets = 4;     // whose sums are in registers
constexpr std::int64_t kChunkRuns = 8;  // whose operands stay in L1
constexpr std::int64_t kChunkTerms = kChunkRuns * kBf16Run;
constexpr std::int64_t kMostRows = std::int64_t{2} * kTileRows;

// Exponents of operands. Sums of two with a zero are below those of any other two, and sums with
// an infinity or NaN beyond them.
constexpr std::int16_t kOfZero = -3000, kOfInfinity = 16000;
constexpr std::int32_t kNothing = -1000;
// Of the largest exponent: beyond, FP32 might not hold what the fast way makes.
constexpr std::int32_t kFastExponents = 95;
constexpr std::int32_t kFastSum = 0x7b000000;

// Operands of a chunk, with room for both: values, and exponents in pairs.
struct Operands {
  float* left;                 // [32 rows][256 terms]
  std::uint32_t* left_pairs;   // [32 rows][128]
  float* right;                // [256 terms][16]
  std::uint32_t* right_pairs;  // [128][16]

  explicit Operands(float* scratch)
      : left(scratch),
        left_pairs(in_memory<std::uint32_t>(left + kMostRows * kChunkTerms)),
        right(scratch + kMostRows * kChunkTerms * 3 / 2),
        right_pairs(in_memory<std::uint32_t>(right + kChunkTerms * kTileColumns)) {}
  static constexpr std::int64_t floats() {
    return (kMostRows + kTileColumns) * kChunkTerms * 3 / 2;
  }
};
static_assert(Operands::floats() == tile_scratch(Bf16Order::kHopper, 1));

// Of each half of a word.
HWY_INLINE WordVector exponents_of(const WordVector& pairs) {
  const Shorts d;
  const auto halves = hn::BitCast(d, pairs);
  const auto size = hn::And(halves, hn::Set(d, std::int16_t{0x7fff}));
  const auto field = hn::ShiftRight<7>(size);
  auto exponent =
      hn::Sub(hn::Max(field, hn::Set(d, std::int16_t{1})), hn::Set(d, std::int16_t{127}));
  exponent = hn::IfThenElse(hn::Eq(size, hn::Zero(d)), hn::Set(d, kOfZero), exponent);
  exponent = hn::IfThenElse(hn::Eq(field, hn::Set(d, std::int16_t{255})), hn::Set(d, kOfInfinity),
                            exponent);
  return hn::BitCast(Words(), exponent);
}

// Four pairs of terms of sixteen columns.
HWY_INLINE void expand_octet(const std::uint16_t* octet, float* values, std::uint32_t* pairs) {
  const Words d;
  const auto* words = reinterpret_cast<const std::uint32_t*>(octet);
  for (int pair = 0; pair < 4; ++pair)
    for (int i = 0; i < kTileColumns; i += kNative) {
      const auto both = hn::LoadU(d, words + pair * kTileColumns + i);
      float* to = values + 2 * pair * kTileColumns + i;
      hn::StoreU(hn::BitCast(NativeTag(), hn::ShiftLeft<16>(both)), NativeTag(), to);
      hn::StoreU(hn::BitCast(NativeTag(), hn::And(both, hn::Set(d, 0xffff0000u))), NativeTag(),
                 to + kTileColumns);
      hn::StoreU(exponents_of(both), d, pairs + pair * kTileColumns + i);
    }
}
// The 32 terms of a row of a left tile.
HWY_INLINE void expand_row(const std::uint16_t* row, float* values, std::uint32_t* pairs) {
  const Words d;
  const hn::Rebind<std::uint16_t, Words> halves;
  for (int i = 0; i < kBf16Run; i += kNative)
    hn::StoreU(
        hn::BitCast(NativeTag(), hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(halves, row + i)))),
        NativeTag(), values + i);
  const auto* words = reinterpret_cast<const std::uint32_t*>(row);
  for (int i = 0; i < kBf16Run / 2; i += kNative)
    hn::StoreU(exponents_of(hn::LoadU(d, words + i)), d, pairs + i);
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
HWY_INLINE Native power_of_two(const IntegerVector& exponent) {
  const Integers d;
  return hn::BitCast(NativeTag(), hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(d, 127))));
}

// What a group's lanes share.
struct Scale {
  IntegerVector largest;
  hn::Mask<Integers> slow;
};
// Of exponents in pairs, and of the sum so far.
HWY_INLINE Scale scale_of(const hn::Vec<Shorts>& pairs, const Native& sum) {
  const Integers d;
  const auto words = hn::BitCast(d, pairs);
  const auto products =
      hn::Max(hn::ShiftRight<16>(words), hn::ShiftRight<16>(hn::ShiftLeft<16>(words)));
  const auto bits = hn::And(hn::BitCast(d, sum), hn::Set(d, 0x7fffffff));
  const auto own = hn::IfThenElse(hn::Eq(bits, hn::Zero(d)), hn::Set(d, std::int32_t{kOfZero}),
                                  hn::Sub(hn::ShiftRight<23>(bits), hn::Set(d, 127)));
  auto largest = hn::Max(products, own);
  largest = hn::IfThenZeroElse(hn::Lt(largest, hn::Set(d, kNothing)), largest);
  return {largest, hn::Gt(hn::Abs(largest), hn::Set(d, kFastExponents))};
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

// Adds a group to kRows rows of sums of a register of columns.
template <Bf16Order kOrder>
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
  IntegerVector totals[kRows];
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    scales[r] = scale_of(pairs[r], sums[r]);
    up[r] = power_of_two(hn::Sub(hn::Set(integers, kCore.bits), scales[r].largest));
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
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    auto slow = scales[r].slow;
    if constexpr (kGroup == kMostGroup)
      slow = hn::Or(slow, hn::Gt(hn::Abs(totals[r]), hn::Set(integers, kFastSum)));
    const auto total = hn::Add(totals[r], cut_lanes(hn::Mul(sums[r], up[r])));
    const Native down = power_of_two(hn::Sub(scales[r].largest, hn::Set(integers, kCore.bits)));
    Native next = hn::Mul(cut_to_float(total), down);
    if (HWY_UNLIKELY(!hn::AllFalse(integers, slow))) {
      HWY_ALIGN float before[kNative], after[kNative];
      std::uint8_t lanes[8] = {};
      hn::StoreMaskBits(integers, slow, lanes);
      hn::Store(sums[r], d, before);
      hn::Store(next, d, after);
      sum_slowly<kOrder>(lanes, left + r * kChunkTerms, right, before, after);
      next = hn::Load(d, after);
    }
    sums[r] = next;
  }
}

// kSets sets of rows of left operands by a register of columns. Rows from `rows` on are not
// written. While one set waits for its sums, there is another to add to.
template <Bf16Order kOrder>
HWY_NOINLINE void multiply_rows(const float* HWY_RESTRICT left,
                                const std::uint32_t* HWY_RESTRICT left_pairs,
                                const float* HWY_RESTRICT right,
                                const std::uint32_t* HWY_RESTRICT right_pairs, std::int64_t terms,
                                float* out, std::int64_t stride, std::int64_t rows) {
  constexpr int kGroup = tensor_core_of(kOrder).group;
  const NativeTag d;
  Native sums[kSets][kRows];
  for (int i = 0; i < kSets * kRows; ++i)
    sums[i / kRows][i % kRows] = i < rows ? hn::LoadU(d, out + i * stride) : hn::Zero(d);
  for (std::int64_t first = 0; first < terms; first += kGroup) HWY_UNROLL(4)
  for (int set = 0; set < kSets; ++set)
    add_group<kOrder>(left + set * kRows * kChunkTerms + first,
                      left_pairs + (set * kRows * kChunkTerms + first) / 2,
                      right + first * kTileColumns, right_pairs + first / 2 * kTileColumns,
                      sums[set]);
  for (int i = 0; i < kSets * kRows && i < rows; ++i)
    hn::StoreU(sums[i / kRows][i % kRows], d, out + i * stride);
}

void expand_left(const TileProduct& p, std::int64_t first, std::int64_t runs, const Operands& to) {
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const std::uint16_t* tile =
        p.left + row / kTileRows * p.left_stride + first * kTileValues + row % kTileRows * kBf16Run;
    for (std::int64_t run = 0; run < runs; ++run)
      expand_row(tile + run * kTileValues, to.left + row * kChunkTerms + run * kBf16Run,
                 to.left_pairs + (row * kChunkTerms + run * kBf16Run) / 2);
  }
}
void expand_right(const TileProduct& p, std::int64_t column, std::int64_t first, std::int64_t runs,
                  const Operands& to) {
  for (std::int64_t i = 0; i < runs * kRunOctets; ++i) {
    const std::int64_t run = column * p.runs + first + i / kRunOctets;
    const std::uint16_t* octet = p.by_octets ? p.right[run * kRunOctets + i % kRunOctets]
                                             : p.right[run] + i % kRunOctets * kOctetValues;
    expand_octet(octet, to.right + i * kBf16Octet * kTileColumns,
                 to.right_pairs + i * kBf16Octet / 2 * kTileColumns);
  }
}

template <Bf16Order kOrder>
void multiply_in_order(const TileProduct& p, float* scratch) {
  const Operands operands(scratch);
  // Rows that a register's rows have beyond the last one.
  const std::int64_t rows = (p.rows + kSets * kRows - 1) / (kSets * kRows) * (kSets * kRows);
  for (std::int64_t row = p.rows; row < rows; ++row) {
    std::fill_n(operands.left + row * kChunkTerms, kChunkTerms, 0.0f);
    std::fill_n(operands.left_pairs + row * kChunkTerms / 2, kChunkTerms / 2, 0u);
  }
  for (std::int64_t column = 0; !p.continues && column < p.columns; ++column)
    for (std::int64_t row = 0; row < p.rows; ++row)
      std::fill_n(p.out[column] + row * p.out_stride, kTileColumns, 0.0f);
  for (std::int64_t first = 0; first < p.runs; first += kChunkRuns) {
    const std::int64_t runs = std::min(kChunkRuns, p.runs - first);
    expand_left(p, first, runs, operands);
    for (std::int64_t column = 0; column < p.columns; ++column) {
      expand_right(p, column, first, runs, operands);
      for (std::int64_t row = 0; row < p.rows; row += kSets * kRows)
        for (int i = 0; i < kTileColumns; i += kNative)
          multiply_rows<kOrder>(operands.left + row * kChunkTerms,
                                operands.left_pairs + row * kChunkTerms / 2, operands.right + i,
                                operands.right_pairs + i, runs * kBf16Run,
                                p.out[column] + row * p.out_stride + i, p.out_stride, p.rows - row);
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
