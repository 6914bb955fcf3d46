#include "backend/cpu/kernels/bf16/pack_tiles.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/bf16/pack_tiles.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace {

using Words = hn::RebindToUnsigned<NativeTag>;
using WordVector = hn::Vec<Words>;

// bf16_bits() of each lane, in the upper half of a word; the lower half is 0.
HWY_INLINE WordVector rounded(const Native& x) { return hn::BitCast(Words(), rounded_to_bf16(x)); }

// Lanes [i * kNative, ...) of sixteen images; null is 0.
HWY_INLINE Native images_at(const float* x, int i, std::int64_t images) {
  const NativeTag d;
  if (x == nullptr) return hn::Zero(d);
  const Native all = hn::LoadU(d, x + i * kNative);
  if (images >= kLanes) return all;
  const std::int64_t rest = std::clamp<std::int64_t>(images - i * kNative, 0, kNative);
  return hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(rest)), all);
}

// The 16 columns of a pair of terms.
HWY_INLINE void pack_pair(const float* even, const float* odd, std::int64_t images,
                          std::uint16_t* to) {
  const Words d;
  auto* words = reinterpret_cast<std::uint32_t*>(to);
  for (int i = 0; i < kRegisters; ++i) {
    const auto low = hn::ShiftRight<16>(rounded(images_at(even, i, images))),
               high = rounded(images_at(odd, i, images));
    hn::StoreU(hn::Or(low, high), d, words + i * kNative);
  }
}

// Sixteen images, one after the other.
HWY_INLINE void pack_images(const float* x, std::int64_t images, std::uint16_t* to) {
  const hn::Rebind<std::uint16_t, Words> halves;
  for (int i = 0; i < kRegisters; ++i)
    hn::StoreU(hn::TruncateTo(halves, hn::ShiftRight<16>(rounded(images_at(x, i, images)))), halves,
               to + i * kNative);
}

}  // namespace

void pack_channels_of(const float* x, std::int64_t pixels, std::int64_t count, std::int64_t images,
                      std::uint16_t* tiles) {
  constexpr std::int64_t kAtOnce = 16;  // pixels whose tiles stay in L1 while they are made
  for (std::int64_t first = 0; first < count; first += kAtOnce)
    for (int pair = 0; pair < kBf16Run / 2; ++pair)
      for (std::int64_t i = first; i < std::min(first + kAtOnce, count); ++i)
        pack_pair(x + (2 * pair * pixels + i) * kLanes, x + ((2 * pair + 1) * pixels + i) * kLanes,
                  images, tiles + i * kTileValues + pair * 2 * kTileColumns);
}

void pack_terms_of(const float* const* terms, std::int64_t images, std::uint16_t* tile) {
  for (int pair = 0; pair < kBf16Run / 2; ++pair)
    pack_pair(terms[2 * pair], terms[2 * pair + 1], images, tile + pair * 2 * kTileColumns);
}

void pack_rows_of(const float* x, std::int64_t rows, std::int64_t pixels, bool two,
                  std::int64_t images, std::uint16_t* tile) {
  for (std::int64_t row = 0; row < kTileRows; ++row, tile += kBf16Run) {
    const float* from = row < rows ? x + row * pixels * kLanes : nullptr;
    pack_images(from, images, tile);
    pack_images(two && from != nullptr ? from + kLanes : nullptr, images, tile + kLanes);
  }
}

void pack_columns_of(const float* first, const float* second, std::int64_t channels,
                     std::int64_t pixels, std::int64_t images, std::uint16_t* first_half,
                     std::uint16_t* second_half) {
  HWY_ALIGN std::uint16_t rows[kTileValues];
  pack_images(nullptr, 0, rows);
  for (std::int64_t c = 0; c < kTileColumns; ++c) {
    const bool there = c < channels;
    pack_images(there && first != nullptr ? first + c * pixels * kLanes : nullptr, images,
                rows + c * kBf16Run);
    pack_images(there && second != nullptr ? second + c * pixels * kLanes : nullptr, images,
                rows + c * kBf16Run + kLanes);
  }
  // Pairs of images are words, which a transpose moves as it moves floats.
  HWY_ALIGN float turned[kTileRows * kTileColumns];
  transpose16(reinterpret_cast<const float*>(rows), kTileColumns, turned, kTileColumns);
  constexpr std::size_t kHalfFloats = kTileRows / 2 * kTileColumns;
  std::memcpy(first_half, turned, kHalfFloats * sizeof(float));
  if (second_half != nullptr)
    std::memcpy(second_half, turned + kHalfFloats, kHalfFloats * sizeof(float));
}

// Pairs of terms are words, which a transpose moves as it moves floats.
void turn_words(const std::uint16_t* from, std::uint16_t* to) {
  transpose16(reinterpret_cast<const float*>(from), kTileColumns, reinterpret_cast<float*>(to),
              kTileColumns);
}

void round_all(const float* from, std::int64_t count, std::uint16_t* to) {
  const hn::Rebind<std::uint16_t, Words> halves;
  std::int64_t i = 0;
  for (; i + kNative <= count; i += kNative)
    hn::StoreU(
        hn::TruncateTo(halves, hn::ShiftRight<16>(rounded(hn::LoadU(NativeTag(), from + i)))),
        halves, to + i);
  for (; i < count; ++i) to[i] = bf16_bits(from[i]);
}

void round_rows(const float* from, std::int64_t rows, std::int64_t count, std::int64_t stride,
                float* to) {
  const NativeTag d;
  for (std::int64_t row = 0; row < rows; ++row, from += stride, to += stride) {
    std::int64_t i = 0;
    for (; i + kNative <= count; i += kNative)
      hn::StoreU(rounded_to_bf16(hn::LoadU(d, from + i)), d, to + i);
    for (; i < count; ++i) to[i] = bf16_rounded(from[i]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(pack_channels_of);
HWY_EXPORT(pack_terms_of);
HWY_EXPORT(pack_rows_of);
HWY_EXPORT(pack_columns_of);
HWY_EXPORT(turn_words);
HWY_EXPORT(round_all);
HWY_EXPORT(round_rows);

void pack_channels(const float* x, std::int64_t pixels, std::int64_t count, std::int64_t images,
                   std::uint16_t* tiles) {
  PODIUM_DISPATCH(pack_channels_of)(x, pixels, count, images, tiles);
}
void pack_terms(const float* const* terms, std::int64_t images, std::uint16_t* tile) {
  PODIUM_DISPATCH(pack_terms_of)(terms, images, tile);
}
void pack_rows(const float* x, std::int64_t rows, std::int64_t pixels, bool two,
               std::int64_t images, std::uint16_t* tile) {
  PODIUM_DISPATCH(pack_rows_of)(x, rows, pixels, two, images, tile);
}
void pack_columns(const float* first, const float* second, std::int64_t channels,
                  std::int64_t pixels, std::int64_t images, std::uint16_t* first_half,
                  std::uint16_t* second_half) {
  PODIUM_DISPATCH(pack_columns_of)
  (first, second, channels, pixels, images, first_half, second_half);
}
void turn_tile(const std::uint16_t* from, std::uint16_t* to) {
  PODIUM_DISPATCH(turn_words)(from, to);
}
void round_to_bf16(const float* from, std::int64_t count, std::uint16_t* to) {
  PODIUM_DISPATCH(round_all)(from, count, to);
}
void round_floats(const float* from, std::int64_t rows, std::int64_t count, std::int64_t stride,
                  float* to) {
  PODIUM_DISPATCH(round_rows)(from, rows, count, stride, to);
}

void pack_lines(const Matrix& x, std::int64_t row, std::int64_t run, std::uint16_t* tile) {
  const std::int64_t count = std::clamp<std::int64_t>(x.rows - row, 0, kTileRows),
                     width = std::clamp<std::int64_t>(x.columns - run * kBf16Run, 0, kBf16Run);
  if (count < kTileRows || width < kBf16Run) std::fill_n(tile, kTileValues, std::uint16_t{0});
  for (std::int64_t i = 0; i < count && width > 0; ++i)
    round_to_bf16(x.first + (row + i) * x.row + run * kBf16Run, width, tile + i * kBf16Run);
}
void pack_matrix_terms(const Matrix& x, std::int64_t run, std::int64_t column,
                       std::uint16_t* tile) {
  const std::int64_t width = std::clamp<std::int64_t>(x.columns - column, 0, kTileColumns);
  const float* terms[kBf16Run] = {};
  float copies[kBf16Run][kTileColumns];  // of rows that fill no vector
  for (std::int64_t k = 0; k < std::min<std::int64_t>(x.rows - run * kBf16Run, kBf16Run); ++k) {
    terms[k] = x.first + (run * kBf16Run + k) * x.row + column;
    if (width == kTileColumns) continue;
    std::fill(std::copy_n(terms[k], width, copies[k]), std::end(copies[k]), 0.0f);
    terms[k] = copies[k];
  }
  pack_terms(terms, kTileColumns, tile);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
