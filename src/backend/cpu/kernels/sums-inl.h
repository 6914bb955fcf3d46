// The sums over images and pixels of one channel (docs/numerics.md: pixel sum, image sum), several
// at a time, with the images in the lanes. Included once for each target.
//
// A `Term` is what is summed:
//   static constexpr int kSums;                           how many sums
//   Term::At at(int64_t offset) const;                    what the sums share at the pixel there
//   template <int s> V16 step(const At&, const V16& acc)  one link of the chain of sum s
#if defined(PODIUM_BACKEND_CPU_KERNELS_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PODIUM_BACKEND_CPU_KERNELS_SUMS_INL_H_
#undef PODIUM_BACKEND_CPU_KERNELS_SUMS_INL_H_
#else
#define PODIUM_BACKEND_CPU_KERNELS_SUMS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "backend/cpu/kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

template <int kSums>
struct Sums {
  V16 v[kSums];
};

template <int kSums>
HWY_INLINE Sums<kSums> zero_sums() {
  Sums<kSums> out;
  for (int s = 0; s < kSums; ++s) out.v[s] = zero16();
  return out;
}

// sum = sum + partial; of the last block only the lanes that are images.
template <int kSums>
HWY_INLINE void add_images(Sums<kSums>& sum, const Sums<kSums>& partial, int64_t images) {
  for (int s = 0; s < kSums; ++s) {
    const V16 p = images >= kLanes ? partial.v[s] : first16(partial.v[s], static_cast<int>(images));
    sum.v[s] = add16(sum.v[s], p);
  }
}

template <class Term>
HWY_INLINE void chain_step(const Term& term, int64_t offset, Sums<Term::kSums>& acc) {
  const typename Term::At at = term.at(offset);
  acc.v[0] = term.template step<0>(at, acc.v[0]);
  if constexpr (Term::kSums > 1) acc.v[1] = term.template step<1>(at, acc.v[1]);
}

// The four chains of a plane.
template <int kSums>
HWY_INLINE Sums<kSums> join_chains(const Sums<kSums>& c0, const Sums<kSums>& c1,
                                   const Sums<kSums>& c2, const Sums<kSums>& c3) {
  Sums<kSums> out;
  for (int s = 0; s < kSums; ++s)
    out.v[s] = add16(add16(c0.v[s], c1.v[s]), add16(c2.v[s], c3.v[s]));
  return out;
}

// The sum over the bands of a plane of `height` rows, by the tree: band(first row, rows).
inline constexpr int64_t kBandRows = 32;
template <int kSums, typename Band>
HWY_INLINE Sums<kSums> band_sums(int64_t height, const Band& band) {
  if (height <= kBandRows) return band(0, height);
  // A stack of trees whose sizes fall: two of one size become one of twice the size.
  Sums<kSums> trees[48];
  int64_t sizes[48];
  int depth = 0;
  const auto join = [&](int& count) HWY_ATTR {
    --count;
    for (int s = 0; s < kSums; ++s)
      trees[count - 1].v[s] = add16(trees[count - 1].v[s], trees[count].v[s]);
    sizes[count - 1] += sizes[count];
  };
  for (int64_t row = 0; row < height; row += kBandRows) {
    trees[depth] = band(row, std::min(kBandRows, height - row));
    sizes[depth++] = 1;
    while (depth > 1 && sizes[depth - 2] == sizes[depth - 1]) join(depth);
  }
  while (depth > 1) join(depth);
  return trees[0];
}

// The sums of one band, of `height` rows.
template <class Term>
HWY_INLINE Sums<Term::kSums> pixel_sums_of_band(const Term& term, int64_t offset, int64_t height,
                                                int64_t width) {
  constexpr int kSums = Term::kSums;
  Sums<kSums> c0 = zero_sums<kSums>(), c1 = c0, c2 = c0, c3 = c0;
  for (int64_t top = 0; top < height; top += 4) {
    const int64_t bottom = std::min(top + 4, height);
    int64_t left = 0;
    for (; left + 4 <= width; left += 4) {
      int64_t pixel = offset + (top * width + left) * kLanes;
      for (int64_t h = top; h < bottom; ++h, pixel += width * kLanes) {
        chain_step(term, pixel, c0);
        chain_step(term, pixel + kLanes, c1);
        chain_step(term, pixel + 2 * kLanes, c2);
        chain_step(term, pixel + 3 * kLanes, c3);
      }
    }
    if (left == width) continue;
    for (int64_t h = top; h < bottom; ++h) {
      const int64_t pixel = offset + (h * width + left) * kLanes;
      chain_step(term, pixel, c0);
      if (width - left > 1) chain_step(term, pixel + kLanes, c1);
      if (width - left > 2) chain_step(term, pixel + 2 * kLanes, c2);
    }
  }
  return join_chains(c0, c1, c2, c3);
}
// P[n] of sixteen images: the plane of `height` x `width` pixels that starts at `offset`.
template <class Term>
HWY_INLINE Sums<Term::kSums> pixel_sums(const Term& term, int64_t offset, int64_t height,
                                        int64_t width) {
  return band_sums<Term::kSums>(height, [&](int64_t row, int64_t rows) HWY_ATTR {
    return pixel_sums_of_band(term, offset + row * width * kLanes, rows, width);
  });
}

// The sums of channel `c`, one float each, from plane_sums(offset) of each block of images. A block
// is `features` vectors.
template <int kSums, typename PlaneSums>
HWY_INLINE void image_totals(const PlaneSums& plane_sums, const ActivationShape& x, int64_t c,
                             float* totals) {
  Sums<kSums> lanes = zero_sums<kSums>();
  for (int64_t b = 0; b < x.blocks(); ++b) {
    const int64_t offset = (b * x.features() + c * x.pixels()) * kLanes;
    add_images(lanes, plane_sums(offset), x.images - b * kLanes);
  }
  for (int s = 0; s < kSums; ++s) totals[s] = tree_sum16(lanes.v[s]);
}
template <class Term>
HWY_INLINE void channel_totals(const Term& term, const ActivationShape& x, int64_t c,
                               float* totals) {
  const auto plane_sums = [&](int64_t offset)
                              HWY_ATTR { return pixel_sums(term, offset, x.height, x.width); };
  image_totals<Term::kSums>(plane_sums, x, c, totals);
}

// The tree over the lanes of sixteen vectors at once: lane f of the result is tree(v[f]), v
// [16][16] floats.
HWY_INLINE V16 tree_sums16(const float* v) {
  HWY_ALIGN float t[kLanes * kLanes];
  transpose16(v, kLanes, t, kLanes);
  V16 l[kLanes];
  HWY_UNROLL(16)
  for (int i = 0; i < kLanes; ++i) l[i] = load16(t + i * kLanes);
  HWY_UNROLL(8)
  for (int i = 0; i < 8; ++i) l[i] = add16(l[2 * i], l[2 * i + 1]);
  HWY_UNROLL(4)
  for (int i = 0; i < 4; ++i) l[i] = add16(l[2 * i], l[2 * i + 1]);
  l[0] = add16(l[0], l[1]);
  return add16(l[0], add16(l[2], l[3]));
}

// The sums of `count` <= 16 channels of one pixel from `c` on: totals[s][16]. Sixteen channels
// share one transpose in place of sixteen trees across lanes.
template <class Term>
HWY_INLINE void flat_totals(const Term& term, const ActivationShape& x, int64_t c, int64_t count,
                            float (*totals)[kLanes]) {
  constexpr int kSums = Term::kSums;
  HWY_ALIGN float lanes[kSums][kLanes * kLanes] = {};
  for (int64_t f = 0; f < count; ++f) {
    Sums<kSums> sums = zero_sums<kSums>();
    for (int64_t b = 0; b < x.blocks(); ++b) {
      const int64_t offset = (b * x.channels + c + f) * kLanes;
      add_images(sums, pixel_sums(term, offset, 1, 1), x.images - b * kLanes);
    }
    for (int s = 0; s < kSums; ++s) store16(lanes[s] + f * kLanes, sums.v[s]);
  }
  for (int s = 0; s < kSums; ++s) store16(totals[s], tree_sums16(lanes[s]));
}

// totals[s][i] for the `count` <= 16 channels from `c` on, by whichever way suits.
template <class Term>
HWY_INLINE void totals_of(const Term& term, const ActivationShape& x, int64_t c, int64_t count,
                          float (*totals)[kLanes]) {
  if (x.pixels() == 1) {
    flat_totals(term, x, c, count, totals);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    float total[Term::kSums];
    channel_totals(term, x, c + i, total);
    for (int s = 0; s < Term::kSums; ++s) totals[s][i] = total[s];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#endif  // PODIUM_BACKEND_CPU_KERNELS_SUMS_INL_H_
