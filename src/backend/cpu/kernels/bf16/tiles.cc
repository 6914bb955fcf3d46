#include "backend/cpu/kernels/bf16/tiles.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "backend/cpu/kernels/bf16/amx.h"
#include "backend/cpu/kernels/bf16/tensor_tiles.h"
#include "backend/cpu/kernels/bf16/vdpbf16ps.h"
#include "base/clock.h"
#include "base/numerics/bf16_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/bf16/tiles.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/v16-inl.h"

#if defined(__x86_64__) && !defined(PODIUM_BACKEND_CPU_KERNELS_BF16_TILES_CC_)
#define PODIUM_BACKEND_CPU_KERNELS_BF16_TILES_CC_
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace {

#if HWY_ARCH_X86

constexpr int kRows = HWY_TARGET == HWY_AVX2 ? 4 : 8;  // whose sums and chains are in registers

// Rows [0, kRows) of a left tile, as floats, by kTiles right ones, in the order of VDPBF16PS.
template <int kTiles>
HWY_NOINLINE void multiply_rows_in_pairs(const float* HWY_RESTRICT left,
                                         const std::uint16_t* const* right, std::int64_t runs,
                                         bool continues, float* const* out, std::int64_t offset,
                                         std::int64_t stride, std::int64_t rows) {
  constexpr int kColumns = kTiles * kRegisters;  // registers
  const NativeTag d;
  const hn::RebindToUnsigned<NativeTag> words;
  Native sums[kRows][kColumns];
  const auto place = [&](int row, int column) {
    return out[column / kRegisters] + offset + row * stride + column % kRegisters * kNative;
  };
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j)
      sums[i][j] = continues && i < rows ? hn::LoadU(d, place(i, j)) : hn::Zero(d);
  for (std::int64_t run = 0; run < runs; ++run) {
    const float* factors = left + run * kTileValues;
    for (int pair = 0; pair < kBf16Run / 2; ++pair) {
      Native first[kColumns], second[kColumns];
      HWY_UNROLL(4)
      for (int j = 0; j < kColumns; ++j) {
        const auto* pairs =
            reinterpret_cast<const std::uint32_t*>(right[j / kRegisters * runs + run]);
        const auto both = hn::LoadU(words, pairs + pair * kTileColumns + j % kRegisters * kNative);
        first[j] = hn::BitCast(d, hn::ShiftLeft<16>(both));
        second[j] = hn::BitCast(d, hn::And(both, hn::Set(words, 0xffff0000u)));
      }
      HWY_UNROLL(8)
      for (int i = 0; i < kRows; ++i) {
        const Native factor = hn::Set(d, factors[i * kBf16Run + 2 * pair + 1]);
        HWY_UNROLL(4)
        for (int j = 0; j < kColumns; ++j) sums[i][j] = hn::MulAdd(factor, second[j], sums[i][j]);
      }
      HWY_UNROLL(8)
      for (int i = 0; i < kRows; ++i) {
        const Native factor = hn::Set(d, factors[i * kBf16Run + 2 * pair]);
        HWY_UNROLL(4)
        for (int j = 0; j < kColumns; ++j) sums[i][j] = hn::MulAdd(factor, first[j], sums[i][j]);
      }
    }
  }
  for (int i = 0; i < kRows && i < rows; ++i)
    for (int j = 0; j < kColumns; ++j) hn::StoreU(sums[i][j], d, place(i, j));
}

// The same in the order of AMX.
HWY_NOINLINE void multiply_rows(const float* HWY_RESTRICT left, const std::uint16_t* const* right,
                                std::int64_t runs, int half, bool continues, float* out,
                                std::int64_t stride, std::int64_t rows) {
  const NativeTag d;
  const hn::RebindToUnsigned<NativeTag> words;
  Native sums[kRows];
  for (int i = 0; i < kRows; ++i)
    sums[i] = continues && i < rows ? hn::LoadU(d, out + i * stride + half * kNative) : hn::Zero(d);
  for (std::int64_t run = 0; run < runs; ++run) {
    const auto* pairs = reinterpret_cast<const std::uint32_t*>(right[run]) + half * kNative;
    const float* factors = left + run * kTileValues;
    Native even[kRows], odd[kRows];
    HWY_UNROLL(8)
    for (int i = 0; i < kRows; ++i) even[i] = odd[i] = hn::Zero(d);
    for (int pair = 0; pair < kBf16Run / 2; ++pair) {
      const auto both = hn::LoadU(words, pairs + pair * kTileColumns);
      const Native first = hn::BitCast(d, hn::ShiftLeft<16>(both)),
                   second = hn::BitCast(d, hn::And(both, hn::Set(words, 0xffff0000u)));
      HWY_UNROLL(8)
      for (int i = 0; i < kRows; ++i) {
        const float* factor = factors + i * kBf16Run + 2 * pair;
        even[i] = hn::MulAdd(hn::Set(d, factor[0]), first, even[i]);
        odd[i] = hn::MulAdd(hn::Set(d, factor[1]), second, odd[i]);
      }
    }
    HWY_UNROLL(8)
    for (int i = 0; i < kRows; ++i) sums[i] = hn::Add(sums[i], hn::Add(even[i], odd[i]));
  }
  for (int i = 0; i < kRows && i < rows; ++i)
    hn::StoreU(sums[i], d, out + i * stride + half * kNative);
}

// Subnormal numbers are 0 in these sums, operands and results alike.
class FlushSubnormals {
 public:
  FlushSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040u); }
  ~FlushSubnormals() { _mm_setcsr(before_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  unsigned before_;
};

void multiply(const TileProduct& p, float* scratch) {
  const FlushSubnormals flush;
  for (std::int64_t top = 0; top < p.rows; top += kTileRows) {
    const std::uint16_t* left = p.left + top / kTileRows * p.left_stride;
    for (std::int64_t i = 0; i < p.runs * kTileValues; ++i) scratch[i] = bf16_value(left[i]);
    const std::int64_t end = std::min<std::int64_t>(p.rows, top + kTileRows);
    if (p.order == Bf16Order::kVdpbf16ps) {
      constexpr int kTiles = kRegisters == 1 ? 2 : 1;
      const auto some = [&](auto multiply_some, std::int64_t column) {
        for (std::int64_t row = top; row < end; row += kRows)
          multiply_some(scratch + (row - top) * kBf16Run, p.right + column * p.runs, p.runs,
                        p.continues, p.out + column, row * p.out_stride, p.out_stride,
                        p.rows - row);
      };
      std::int64_t column = 0;
      for (; column + kTiles <= p.columns; column += kTiles)
        some(multiply_rows_in_pairs<kTiles>, column);
      if (column < p.columns) some(multiply_rows_in_pairs<1>, column);
      continue;
    }
    for (std::int64_t column = 0; column < p.columns; ++column)
      for (std::int64_t row = top; row < end; row += kRows)
        for (int half = 0; half < kRegisters; ++half)
          multiply_rows(scratch + (row - top) * kBf16Run, p.right + column * p.runs, p.runs, half,
                        p.continues, p.out[column] + row * p.out_stride, p.out_stride,
                        p.rows - row);
  }
}

#else

// Other processors flush in other ways, so each link of a chain is made as the contract says.
void multiply(const TileProduct& p, float*) {
  for (std::int64_t column = 0; column < p.columns; ++column)
    for (std::int64_t row = 0; row < p.rows; ++row)
      for (int j = 0; j < kTileColumns; ++j) {
        float& out = p.out[column][row * p.out_stride + j];
        float sum = p.continues ? out : 0;
        for (std::int64_t run = 0; run < p.runs; ++run) {
          const std::uint16_t* left = p.left + row / kTileRows * p.left_stride + run * kTileValues +
                                      row % kTileRows * kBf16Run;
          const std::uint16_t* right = p.right[column * p.runs + run];
          Bf16Terms terms;
          for (int i = 0; i < kBf16Run; ++i) {
            terms.a[i] = bf16_value(left[i]);
            terms.b[i] = bf16_value(right[(i / 2 * kTileColumns + j) * 2 + i % 2]);
          }
          sum = add_run(p.order, sum, terms);
        }
        out = sum;
      }
}

#endif

}  // namespace

void multiply_by_vectors(const TileProduct& p, float* scratch) { multiply(p, scratch); }
// AMX comes with AVX-512, and VDPBF16PS is part of it.
bool is_for_amx() { return HWY_TARGET == HWY_AVX3; }
bool flushes_by_itself() { return HWY_ARCH_X86 != 0; }

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(multiply_by_vectors);
HWY_EXPORT(is_for_amx);
HWY_EXPORT(flushes_by_itself);

alignas(64) const std::uint16_t kZeroTile[kTileValues] = {};

namespace {

std::atomic<bool> amx_allowed{true};

// Whether an instruction adds in the order that has its name: on numbers of all sizes, so that
// another order, another rounding or subnormal numbers would show.
bool returns_the_bits(Bf16Order order) {
  constexpr int kRuns = 3;
  alignas(64) static std::uint16_t left[2 * kRuns * kTileValues], right[2 * kRuns * kTileValues];
  alignas(64) static float by_it[2][2 * kTileRows * kTileColumns],
      expected[2][2 * kTileRows * kTileColumns], scratch[tile_scratch(Bf16Order::kAmx, kRuns)];
  std::uint32_t state = 1;
  const auto draw = [&](std::uint32_t base, std::uint32_t spread) {
    state = state * 1664525u + 1013904223u;
    const std::uint32_t exponent = base + (state >> 8) % spread;
    return static_cast<std::uint16_t>((state >> 31 << 15) | exponent << 7 | (state >> 24 & 127u));
  };
  // Products around 1, and around 2^-126.
  for (const std::uint32_t base : {120u, 56u}) {
    for (std::uint16_t& value : left) value = draw(base, 14);
    for (std::uint16_t& value : right) value = draw(base, 14);
    const std::uint16_t* tiles[2 * kRuns];
    for (int i = 0; i < 2 * kRuns; ++i) tiles[i] = right + i * kTileValues;
    float *const to[] = {by_it[0], by_it[1]}, *const vectors[] = {expected[0], expected[1]};
    TileProduct product{.left = left,
                        .left_stride = kRuns * kTileValues,
                        .right = tiles,
                        .runs = kRuns,
                        .columns = 2,
                        .out = to,
                        .out_stride = kTileColumns,
                        .rows = 2 * kTileRows,
                        .order = order};
    if (order == Bf16Order::kAmx)
      multiply_tiles_by_amx(product);
    else
      multiply_tiles_by_vdpbf16ps(product);
    product.out = vectors;
    PODIUM_DISPATCH(multiply_by_vectors)(product, scratch);
    for (int column = 0; column < 2; ++column)
      for (int i = 0; i < 2 * kTileRows * kTileColumns; ++i)
        if (std::bit_cast<std::uint32_t>(by_it[column][i]) !=
            std::bit_cast<std::uint32_t>(expected[column][i]))
          return false;
  }
  return true;
}

// Whether the instruction is faster than FP32 multiply-adds, which compute the same bits: it is on
// Zen 4 and 5, and not on Sapphire Rapids. Takes less than a millisecond.
bool is_faster_by_vdpbf16ps() {
  constexpr int kRuns = 4, kTimes = 6;
  alignas(64) static std::uint16_t values[2 * kRuns * kTileValues];
  alignas(64) static float sums[2][kPairSums], scratch[tile_scratch(Bf16Order::kVdpbf16ps, kRuns)];
  const std::uint16_t* tiles[2 * kRuns];
  for (int i = 0; i < 2 * kRuns; ++i) tiles[i] = values + i * kTileValues;
  float* const to[] = {sums[0], sums[1]};
  const TileProduct product{.left = values,
                            .left_stride = kRuns * kTileValues,
                            .right = tiles,
                            .runs = kRuns,
                            .columns = 2,
                            .out = to,
                            .out_stride = kTileColumns,
                            .rows = 2 * kTileRows,
                            .order = Bf16Order::kVdpbf16ps};
  auto least = [](const auto& multiply) {
    auto best = Clock::duration::max();
    for (int i = 0; i < kTimes; ++i) {
      const auto begin = Clock::now();
      multiply();
      best = std::min<Clock::duration>(best, Clock::now() - begin);
    }
    return best;
  };
  return least([&] { multiply_tiles_by_vdpbf16ps(product); }) < least([&] {
           PODIUM_DISPATCH(multiply_by_vectors)(product, scratch);
         });
}

}  // namespace

bool adds_pairs_fast() { return PODIUM_DISPATCH(flushes_by_itself)(); }

void allow_amx(bool allowed) { amx_allowed.store(allowed); }

bool uses_amx() {
  static const bool works = has_amx() && returns_the_bits(Bf16Order::kAmx);
  return works && amx_allowed.load(std::memory_order_relaxed) && PODIUM_DISPATCH(is_for_amx)();
}
bool uses_vdpbf16ps() {
  static const bool works =
      has_vdpbf16ps() && returns_the_bits(Bf16Order::kVdpbf16ps) && is_faster_by_vdpbf16ps();
  return works && amx_allowed.load(std::memory_order_relaxed) && PODIUM_DISPATCH(is_for_amx)();
}

void multiply_tiles(const TileProduct& product, float* scratch) {
  if (is_tensor_core(product.order))
    multiply_tiles_as_tensor_core(product, scratch);
  else if (product.order == Bf16Order::kAmx && uses_amx())
    multiply_tiles_by_amx(product);
  else if (product.order == Bf16Order::kVdpbf16ps && uses_vdpbf16ps())
    multiply_tiles_by_vdpbf16ps(product);
  else
    PODIUM_DISPATCH(multiply_by_vectors)(product, scratch);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
