#include "backend/cpu/kernels/planes/pool.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/planes/pool.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/max-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

// What no window covers, below and to the right, has gradient +0.
void clear_uncovered(const PoolShape& s, Range planes, float* dx) {
  const int64_t rows = s.out_height() * s.window_height, columns = s.out_width() * s.window_width;
  if (rows == s.x.height && columns == s.x.width) return;
  for (int64_t plane = planes.begin; plane < planes.end; ++plane) {
    float* image = dx + plane * s.x.pixels() * kLanes;
    for (int64_t i = 0; i < s.x.height; ++i) {
      const int64_t from = i < rows ? columns : 0;
      std::fill(image + (i * s.x.width + from) * kLanes, image + (i + 1) * s.x.width * kLanes,
                0.0f);
    }
  }
}

HWY_INLINE Largest largest_at(const PoolShape& s, const float* corner) {
  return largest_from(corner, s.x.width * kLanes, s.window_height, s.window_width, kPassAhead);
}

void max_windows(const PoolShape& s, Range planes, const float* x, float* y, float* place) {
  const NativeTag d;
  for_each_window(s, planes, [&](int64_t out, int64_t in) HWY_ATTR {
    for (int64_t lane = 0; lane < kLanes; lane += kNative) {
      const Largest largest = largest_at(s, x + in + lane);
      hn::StoreU(largest.value, d, y + out + lane);
      if (place != nullptr) hn::StoreU(largest.place, d, place + out + lane);
    }
  });
}

// Gradients of a tensor that is streamed or not, from x or from the places. A part of a line is
// never streamed.
template <bool kStream, bool kPlaces>
void max_gradients(const PoolShape& s, Range planes, const float* dy, const float* from,
                   float* dx) {
  const NativeTag d;
  clear_uncovered(s, planes, dx);
  for_each_window(s, planes, [&](int64_t out, int64_t in) HWY_ATTR {
    for (int64_t lane = 0; lane < kLanes; lane += kNative) {
      const Native place =
          kPlaces ? hn::LoadU(d, from + out + lane) : largest_at(s, from + in + lane).place;
      const Native gradient = hn::LoadU(d, dy + out + lane);
      float next_place = 0;
      for (int64_t r = 0; r < s.window_height; ++r) {
        float* row = dx + in + lane + r * s.x.width * kLanes;
        for (int64_t t = 0; t < s.window_width; ++t) {
          const Native value = hn::IfThenElseZero(hn::Eq(place, hn::Set(d, next_place)), gradient);
          if constexpr (kStream)
            hn::Stream(value, d, row + t * kLanes);
          else
            hn::StoreU(value, d, row + t * kLanes);
          next_place += 1;
        }
      }
    }
  });
  end_streams(kStream);
}
template <bool kPlaces>
HWY_INLINE void max_gradients(const PoolShape& s, Range planes, const float* dy, const float* from,
                              float* dx) {
  if (kRegisters == 1 && streams(dx, s.x.floats()))
    max_gradients<kRegisters == 1, kPlaces>(s, planes, dy, from, dx);
  else
    max_gradients<false, kPlaces>(s, planes, dy, from, dx);
}
void max_windows_grad(const PoolShape& s, Range planes, const float* dy, const float* x,
                      float* dx) {
  max_gradients<false>(s, planes, dy, x, dx);
}
void max_windows_grad_at(const PoolShape& s, Range planes, const float* dy, const float* place,
                         float* dx) {
  max_gradients<true>(s, planes, dy, place, dx);
}

// The part of a window that lies inside the image: offsets of its result and of its first pixel.
struct InsideWindow {
  int64_t out, in, height, width;
  WindowPlaces places;
};
template <typename F>
HWY_INLINE void for_each_window(const StridedPoolShape& s, int64_t plane, const F& f) {
  int64_t out = plane * s.out_height * s.out_width * kLanes;
  for (int64_t p = 0; p < s.out_height; ++p) {
    const int64_t top = p * s.stride_height - s.pad_top, first = std::max<int64_t>(top, 0);
    const int64_t height = std::min(top + s.window_height, s.x.height) - first;
    for (int64_t q = 0; q < s.out_width; ++q, out += kLanes) {
      const int64_t left = q * s.stride_width - s.pad_left, from = std::max<int64_t>(left, 0);
      const int64_t width = std::min(left + s.window_width, s.x.width) - from;
      f(InsideWindow{out,
                     (plane * s.x.pixels() + first * s.x.width + from) * kLanes,
                     height,
                     width,
                     {static_cast<float>((first - top) * s.window_width + from - left),
                      static_cast<float>(s.window_width - width)}});
    }
  }
}

HWY_INLINE Largest largest_at(const StridedPoolShape& s, const InsideWindow& window,
                              const float* corner) {
  return largest_from(corner, s.x.width * kLanes, window.height, window.width, kPassAhead,
                      window.places);
}

void strided_max_windows(const StridedPoolShape& s, Range planes, const float* x, float* y,
                         float* place) {
  const NativeTag d;
  for (int64_t plane = planes.begin; plane < planes.end; ++plane) {
    for_each_window(s, plane, [&](const InsideWindow& window) HWY_ATTR {
      for (int64_t lane = 0; lane < kLanes; lane += kNative) {
        const Largest largest = largest_at(s, window, x + window.in + lane);
        hn::StoreU(largest.value, d, y + window.out + lane);
        if (place != nullptr) hn::StoreU(largest.place, d, place + window.out + lane);
      }
    });
  }
}

// Adding the +0 of the other pixels changes no sum that began at +0.
template <bool kPlaces>
HWY_INLINE void strided_max_gradients(const StridedPoolShape& s, Range planes, const float* dy,
                                      const float* from, float* dx) {
  const NativeTag d;
  const int64_t row = s.x.width * kLanes, size = s.x.pixels() * kLanes;
  for (int64_t plane = planes.begin; plane < planes.end; ++plane) {
    std::fill(dx + plane * size, dx + (plane + 1) * size, 0.0f);
    for_each_window(s, plane, [&](const InsideWindow& window) HWY_ATTR {
      for (int64_t lane = 0; lane < kLanes; lane += kNative) {
        const Native place = kPlaces ? hn::LoadU(d, from + window.out + lane)
                                     : largest_at(s, window, from + window.in + lane).place;
        const Native gradient = hn::LoadU(d, dy + window.out + lane);
        float next_place = window.places.first;
        for (int64_t r = 0; r < window.height; ++r, next_place += window.places.skip) {
          float* to = dx + window.in + lane + r * row;
          for (int64_t t = 0; t < window.width; ++t, to += kLanes, next_place += 1) {
            const Native term = hn::IfThenElseZero(hn::Eq(place, hn::Set(d, next_place)), gradient);
            hn::StoreU(hn::Add(hn::LoadU(d, to), term), d, to);
          }
        }
      }
    });
  }
}
void strided_max_windows_grad(const StridedPoolShape& s, Range planes, const float* dy,
                              const float* x, float* dx) {
  strided_max_gradients<false>(s, planes, dy, x, dx);
}
void strided_max_windows_grad_at(const StridedPoolShape& s, Range planes, const float* dy,
                                 const float* place, float* dx) {
  strided_max_gradients<true>(s, planes, dy, place, dx);
}

void avg_windows(const PoolShape& s, Range planes, float share, const float* x, float* y) {
  const V16 factor = set16(share);
  for_each_window(s, planes, [&](int64_t out, int64_t in) HWY_ATTR {
    V16 sum = zero16();
    for (int64_t r = 0; r < s.window_height; ++r) {
      const float* row = x + in + r * s.x.width * kLanes;
      for (int64_t t = 0; t < s.window_width; ++t) sum = add16(sum, read16(row + t * kLanes));
    }
    store16(y + out, mul16(sum, factor));
  });
}

void avg_windows_grad(const PoolShape& s, Range planes, float share, const float* dy, float* dx) {
  const V16 factor = set16(share);
  const bool streamed = streams(dx, s.x.floats());
  clear_uncovered(s, planes, dx);
  for_each_window(s, planes, [&](int64_t out, int64_t in) HWY_ATTR {
    const V16 gradient = mul16(load16(dy + out), factor);
    for (int64_t r = 0; r < s.window_height; ++r) {
      float* row = dx + in + r * s.x.width * kLanes;
      for (int64_t t = 0; t < s.window_width; ++t) put16(row + t * kLanes, gradient, streamed);
    }
  });
  end_streams(streamed);
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(max_windows);
HWY_EXPORT(max_windows_grad);
HWY_EXPORT(max_windows_grad_at);
HWY_EXPORT(strided_max_windows);
HWY_EXPORT(strided_max_windows_grad);
HWY_EXPORT(strided_max_windows_grad_at);
HWY_EXPORT(avg_windows);
HWY_EXPORT(avg_windows_grad);

namespace {

std::int64_t planes_of(const ActivationShape& x) { return x.blocks() * x.channels; }
int plane_parts(const ActivationShape& x) {
  constexpr std::int64_t kWork = std::int64_t{1} << 15;  // floats read or written
  return parts_of(planes_of(x), x.pixels() * kLanes, kWork);
}
Range part_planes(const PoolShape& shape, int part) {
  return share_of(planes_of(shape.x), plane_parts(shape.x), part);
}
Range part_planes(const StridedPoolShape& shape, int part) {
  return share_of(planes_of(shape.x), plane_parts(shape.x), part);
}

}  // namespace

int pool_parts(const PoolShape& shape) { return plane_parts(shape.x); }
int strided_pool_parts(const StridedPoolShape& shape) { return plane_parts(shape.x); }
void strided_max_pool(const StridedPoolShape& shape, const float* x, float* y, float* place,
                      int part) {
  PODIUM_DISPATCH(strided_max_windows)(shape, part_planes(shape, part), x, y, place);
}
void strided_max_pool_grad_at(const StridedPoolShape& shape, const float* dy, const float* place,
                              float* dx, int part) {
  PODIUM_DISPATCH(strided_max_windows_grad_at)(shape, part_planes(shape, part), dy, place, dx);
}
void strided_max_pool_grad(const StridedPoolShape& shape, const float* dy, const float* x,
                           float* dx, int part) {
  PODIUM_DISPATCH(strided_max_windows_grad)(shape, part_planes(shape, part), dy, x, dx);
}
void max_pool(const PoolShape& shape, const float* x, float* y, float* place, int part) {
  PODIUM_DISPATCH(max_windows)(shape, part_planes(shape, part), x, y, place);
}
void max_pool_grad_at(const PoolShape& shape, const float* dy, const float* place, float* dx,
                      int part) {
  PODIUM_DISPATCH(max_windows_grad_at)(shape, part_planes(shape, part), dy, place, dx);
}
void max_pool_grad(const PoolShape& shape, const float* dy, const float* x, float* dx, int part) {
  PODIUM_DISPATCH(max_windows_grad)(shape, part_planes(shape, part), dy, x, dx);
}
void avg_pool(const PoolShape& shape, float share, const float* x, float* y, int part) {
  PODIUM_DISPATCH(avg_windows)(shape, part_planes(shape, part), share, x, y);
}
void avg_pool_grad(const PoolShape& shape, float share, const float* dy, float* dx, int part) {
  PODIUM_DISPATCH(avg_windows_grad)(shape, part_planes(shape, part), share, dy, dx);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
