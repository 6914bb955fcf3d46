#include "backend/cpu/kernels/resize_pixels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/resize_pixels.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int32_t kRounding = 1 << (kResizeBits - 1);
using D8 = hn::ScalableTag<std::uint8_t>;
using D16 = hn::Repartition<std::int16_t, D8>;
using D32 = hn::Repartition<std::int32_t, D8>;
using Block = hn::FixedTag<std::uint8_t, 16>;
constexpr std::int64_t kBytes = static_cast<std::int64_t>(hn::MaxLanes(D8())),
                       kBlocks = kBytes / 16;

// Block i of the vector from from + starts[i].
template <class D>
HWY_INLINE hn::Vec<D> load_blocks(D d, const std::uint8_t* from, const std::int64_t* starts) {
  constexpr std::size_t kCount = hn::MaxLanes(D()) / 16;
  if constexpr (kCount == 1) {
    return hn::LoadU(d, from + starts[0]);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_blocks(half, from, starts + kCount / 2),
                       load_blocks(half, from, starts));
  }
}

// Sums of the products of neighbouring pairs of 16 bits, which some machines add in two parts.
struct Sums {
  hn::Vec<D32> first, second;

  HWY_INLINE void add(hn::Vec<D16> a, hn::Vec<D16> b) {
    first = hn::ReorderWidenMulAccumulate(D32(), a, b, first, second);
  }
  HWY_INLINE hn::Vec<D32> total() const { return hn::RearrangeToOddPlusEven(first, second); }
};

HWY_INLINE Sums no_sums() { return {hn::Zero(D32()), hn::Zero(D32())}; }

// What the products with the high and the low parts of weights make, rounded.
HWY_INLINE hn::Vec<D32> value_of(const Sums& high, const Sums& low) {
  const auto sum = hn::Add(hn::ShiftLeft<kLowBits>(high.total()), low.total());
  return hn::ShiftRight<kResizeBits>(hn::Add(sum, hn::Set(D32(), kRounding)));
}

}  // namespace

std::int64_t blocks() { return kBlocks; }

void columns(const std::uint8_t* row, std::int64_t width, std::int64_t groups,
             const std::int64_t* starts, const std::int16_t* weights, std::uint8_t* to) {
  const D8 d8;
  const D16 d16;
  const hn::Rebind<std::uint8_t, D32> bytes;
  // Two pixels as pairs of 16 bits, by channel; 128 gives zero.
  alignas(16) static constexpr std::uint8_t kFirst[16] = {0, 128, 4, 128, 1, 128, 5, 128,
                                                          2, 128, 6, 128, 3, 128, 7, 128};
  alignas(16) static constexpr std::uint8_t kSecond[16] = {8,  128, 12, 128, 9,  128, 13, 128,
                                                           10, 128, 14, 128, 11, 128, 15, 128};
  const auto first = hn::LoadDup128(d8, kFirst), second = hn::LoadDup128(d8, kSecond);
  constexpr std::int64_t kValues = kBlocks * 8;
  for (std::int64_t x = 0; x < width; x += kBlocks) {
    Sums high = no_sums(), low = no_sums();
    for (std::int64_t group = 0; group < groups; ++group, weights += 4 * kValues) {
      const auto pixels = load_blocks(d8, row + 16 * group, starts + x);
      const auto a = hn::BitCast(d16, hn::TableLookupBytesOr0(pixels, first)),
                 b = hn::BitCast(d16, hn::TableLookupBytesOr0(pixels, second));
      high.add(a, hn::LoadU(d16, weights));
      low.add(a, hn::LoadU(d16, weights + kValues));
      high.add(b, hn::LoadU(d16, weights + 2 * kValues));
      low.add(b, hn::LoadU(d16, weights + 3 * kValues));
    }
    hn::StoreU(hn::DemoteTo(bytes, value_of(high, low)), bytes, to + 4 * x);
  }
}

void rows(const std::uint8_t* from, std::int64_t size, std::int64_t used,
          const std::int32_t* weights, std::uint8_t* to) {
  const D8 d8;
  const D16 d16;
  const D32 d32;
  const auto zero = hn::Zero(d8);
  // The low bytes of eight numbers of 16 bits, to the lower or the upper half of a block.
  alignas(16) static constexpr std::uint8_t kLower[16] = {0,   2,   4,   6,   8,   10,  12,  14,
                                                          128, 128, 128, 128, 128, 128, 128, 128};
  alignas(16) static constexpr std::uint8_t kUpper[16] = {128, 128, 128, 128, 128, 128, 128, 128,
                                                          0,   2,   4,   6,   8,   10,  12,  14};
  const auto to_lower = hn::LoadDup128(d8, kLower), to_upper = hn::LoadDup128(d8, kUpper);
  for (std::int64_t i = 0; i < size; i += kBytes) {
    Sums high[4] = {no_sums(), no_sums(), no_sums(), no_sums()},
         low[4] = {no_sums(), no_sums(), no_sums(), no_sums()};
    for (std::int64_t k = 0; k < used; k += 2) {
      const std::uint8_t* const row = from + k * size + i;
      const auto a = hn::LoadU(d8, row), b = hn::LoadU(d8, k + 1 < used ? row + size : row);
      const auto lower = hn::InterleaveLower(d8, a, b), upper = hn::InterleaveUpper(d8, a, b);
      const auto high_weights = hn::BitCast(d16, hn::Set(d32, weights[k])),
                 low_weights = hn::BitCast(d16, hn::Set(d32, weights[k + 1]));
      const auto add = [&](int part, hn::Vec<D8> pairs) HWY_ATTR {
        high[part].add(hn::BitCast(d16, pairs), high_weights);
        low[part].add(hn::BitCast(d16, pairs), low_weights);
      };
      add(0, hn::InterleaveLower(d8, lower, zero));
      add(1, hn::InterleaveUpper(d8, lower, zero));
      add(2, hn::InterleaveLower(d8, upper, zero));
      add(3, hn::InterleaveUpper(d8, upper, zero));
    }
    // Within each block of 16 bytes, these undo the order of the interleaving.
    const auto lower =
                   hn::ReorderDemote2To(d16, value_of(high[0], low[0]), value_of(high[1], low[1])),
               upper =
                   hn::ReorderDemote2To(d16, value_of(high[2], low[2]), value_of(high[3], low[3]));
    hn::StoreU(hn::Or(hn::TableLookupBytesOr0(hn::BitCast(d8, lower), to_lower),
                      hn::TableLookupBytesOr0(hn::BitCast(d8, upper), to_upper)),
               d8, to + i);
  }
}

void split(const std::uint8_t* row, std::int64_t width, std::int64_t plane, std::uint8_t* to) {
  const Block d;
  std::int64_t x = 0;
  for (; x + 16 <= width; x += 16) {
    auto red = hn::Zero(d), green = red, blue = red, rest = red;
    hn::LoadInterleaved4(d, row + 4 * x, red, green, blue, rest);
    hn::StoreU(red, d, to + x);
    hn::StoreU(green, d, to + plane + x);
    hn::StoreU(blue, d, to + 2 * plane + x);
  }
  for (; x < width; ++x)
    for (std::int64_t c = 0; c < 3; ++c) to[c * plane + x] = row[4 * x + c];
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(blocks);
HWY_EXPORT(columns);
HWY_EXPORT(rows);
HWY_EXPORT(split);

std::int64_t resize_blocks() { return PODIUM_DISPATCH(blocks)(); }
std::int64_t resize_row_bytes() { return 16 * resize_blocks(); }

void resize_columns(const std::uint8_t* row, std::int64_t width, std::int64_t groups,
                    const std::int64_t* starts, const std::int16_t* weights, std::uint8_t* to) {
  PODIUM_DISPATCH(columns)(row, width, groups, starts, weights, to);
}

void resize_rows(const std::uint8_t* from, std::int64_t bytes, std::int64_t used,
                 const std::int32_t* weights, std::uint8_t* to) {
  PODIUM_DISPATCH(rows)(from, bytes, used, weights, to);
}

void split_pixels(const std::uint8_t* row, std::int64_t width, std::int64_t plane,
                  std::uint8_t* to) {
  PODIUM_DISPATCH(split)(row, width, plane, to);
}

}  // namespace podium::cpu
#endif
