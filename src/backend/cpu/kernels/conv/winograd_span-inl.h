// Which tiles go through a correlation together, and where their patches lie. Included once for
// each target.
#if defined(PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_SPAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_SPAN_INL_H_
#undef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_SPAN_INL_H_
#else
#define PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_SPAN_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "backend/cpu/kernels/conv/winograd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace winograd {

// A tile of a span, and where it stands among those that have a last row, a last column, both.
struct SpanTile {
  std::int64_t block, i, j;  // where it begins
  bool whole_down, whole_across;
  Shifts shifts;
};
struct Span {
  SpanTile tiles[kSpan];
  std::int64_t count, below, beside, corner;  // tiles; of those, with the last points

  Span(const Correlation& p, std::int64_t index) : below(0), beside(0), corner(0) {
    const std::int64_t first = index * p.span();
    count = std::min(p.span(), p.tiles() - first);
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t row = (first + t) / p.across.count % p.down.count;
      const std::int64_t column = (first + t) % p.across.count;
      tiles[t] = {(first + t) / (p.down.count * p.across.count),
                  p.down.begin(row),
                  p.across.begin(column),
                  p.down.is_whole(row),
                  p.across.is_whole(column),
                  {(below - t) * kLanes, (beside - t) * kLanes, (corner - t) * kLanes}};
      below += tiles[t].whole_down;
      beside += tiles[t].whole_across;
      corner += tiles[t].whole_down && tiles[t].whole_across;
    }
  }
  template <int kM>
  std::int64_t having(int point) const {
    const bool last_row = point / kAxis<kM> == kM + 1, last_column = point % kAxis<kM> == kM + 1;
    return last_row ? (last_column ? corner : below) : (last_column ? beside : count);
  }
};

template <int kM>
HWY_INLINE Patch patch_of(const Correlation& p, const float* x, const SpanTile& tile,
                          std::int64_t phase, const float* zeros) {
  return patch_at(p.in, x + tile.block * p.in.block(), phase / p.in.phases_w, phase % p.in.phases_w,
                  tile.i, tile.j, tile.whole_down ? kM + 2 : kM + 1, kM + 2, zeros);
}

// The windows of 2x2 of a pooled tensor that meet a patch.
template <int kM>
struct Windows {
  // Of the pixels, with a margin of one for windows that stand out.
  static constexpr std::int64_t kSide = kM + 4;

  std::int64_t height, width;  // of the windows
  std::int64_t first;          // the first of them in a plane, in floats
  std::int64_t row;            // from one row of windows to the next, in floats
  std::int64_t corner;         // the first pixel of the first, among kSide x kSide

  Windows(const Correlation& p, const SpanTile& tile) {
    const std::int64_t top = tile.i + p.in.first_h, left = tile.j + p.in.first_w;
    const std::int64_t down = tile.whole_down ? kM + 2 : kM + 1;
    const std::int64_t i = std::max<std::int64_t>(top, 0) / 2;
    const std::int64_t j = std::max<std::int64_t>(left, 0) / 2;
    height = (std::min(top + down, p.in.height) + 1) / 2 - i;
    width = (std::min(left + kM + 2, p.in.width) + 1) / 2 - j;
    row = p.in.width / 2 * kLanes;
    first = i * row + j * kLanes;
    corner = (2 * i - top + 1) * kSide + 2 * j - left + 1;
  }

  // Where in `pixels` the rows of a patch are, but those that lie outside.
  void set_rows(Patch& patch, const float* pixels, const float* zeros) const {
    for (int i = 0; i < kM + 2; ++i)
      if (patch.rows[i] != zeros) patch.rows[i] = pixels + ((i + 1) * kSide + 1) * kLanes;
    patch.column_step = kLanes;
  }

  // pixels[kSide][kSide][16] of a channel: dy at its place in each window, +0 elsewhere.
  HWY_INLINE void lead_back(const float* dy, const float* place, float* HWY_RESTRICT pixels) const {
    const NativeTag d;
    for (std::int64_t i = 0; i < height; ++i)
      for (std::int64_t j = 0; j < width; ++j)
        for (int lane = 0; lane < kLanes; lane += kNative) {
          const std::int64_t at = first + i * row + j * kLanes + lane;
          const Native gradient = hn::LoadU(d, dy + at), taken = hn::LoadU(d, place + at);
          float* to = pixels + (corner + 2 * i * kSide + 2 * j) * kLanes + lane;
          PODIUM_UNROLL
          for (int k = 0; k < 4; ++k)
            hn::StoreU(
                hn::IfThenElseZero(hn::Eq(taken, hn::Set(d, static_cast<float>(k))), gradient), d,
                to + (k / 2 * kSide + k % 2) * kLanes);
        }
  }
  // Calls f(offset of a window in a plane) for each.
  template <typename F>
  HWY_INLINE void for_each(const F& f) const {
    for (std::int64_t i = 0; i < height; ++i)
      for (std::int64_t j = 0; j < width; ++j) f(first + i * row + j * kLanes);
  }
};

}  // namespace winograd
}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#endif  // PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_SPAN_INL_H_
