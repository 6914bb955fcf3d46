// Windows that tile an image, and the largest value of one, as max pooling takes it. Included once
// for each target.
#if defined(PODIUM_BACKEND_CPU_KERNELS_MAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PODIUM_BACKEND_CPU_KERNELS_MAX_INL_H_
#undef PODIUM_BACKEND_CPU_KERNELS_MAX_INL_H_
#else
#define PODIUM_BACKEND_CPU_KERNELS_MAX_INL_H_
#endif

#include <cstdint>

#include "backend/cpu/kernels/planes/pool.h"
#include "backend/cpu/kernels/v16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

// Calls f(out, in) for each window of the planes in `planes`, in order: offsets of its result and
// of its upper left corner.
template <typename F>
HWY_INLINE void for_each_window(const PoolShape& s, Range planes, const F& f) {
  for (int64_t plane = planes.begin; plane < planes.end; ++plane) {
    for (int64_t p = 0; p < s.out_height(); ++p) {
      int64_t out = (plane * s.out_pixels() + p * s.out_width()) * kLanes;
      int64_t in = (plane * s.x.pixels() + p * s.window_height * s.x.width) * kLanes;
      for (int64_t q = 0; q < s.out_width(); ++q) {
        f(out, in);
        out += kLanes;
        in += s.window_width * kLanes;
      }
    }
  }
}

// Whether the next value takes the place of the one held: where it is larger, not where it is
// equal, and where it is NaN.
HWY_INLINE auto replaces(Native next, Native held) {
  return hn::Or(hn::Gt(next, held), hn::IsNaN(next));
}

// The places of the pixels of a window, or of the part that lies inside the image, row by row.
struct WindowPlaces {
  float first = 0;  // of its first pixel
  float skip = 0;   // between the last of a row and the first of the next
};
// The largest of a window, and its place.
struct Largest {
  Native value, place;
};
// `corner` is the window's first value; rows are `row` floats apart, and what is needed `ahead`
// floats on is asked for.
HWY_INLINE Largest largest_from(const float* corner, int64_t row, int64_t height, int64_t width,
                                int64_t ahead, WindowPlaces places = {}) {
  const NativeTag d;
  float next_place = places.first;
  Largest held{hn::LoadU(d, corner), hn::Set(d, next_place)};
  for (int64_t r = 0; r < height; ++r, corner += row, next_place += places.skip) {
    for (int64_t t = 0; t < width; ++t) {
      if (ahead != 0) fetch_to_l2(corner + t * kLanes + ahead);
      const Native next = hn::LoadU(d, corner + t * kLanes);
      const auto replace = replaces(next, held.value);
      held.value = hn::IfThenElse(replace, next, held.value);
      held.place = hn::IfThenElse(replace, hn::Set(d, next_place), held.place);
      next_place += 1;
    }
  }
  return held;
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#endif  // PODIUM_BACKEND_CPU_KERNELS_MAX_INL_H_
