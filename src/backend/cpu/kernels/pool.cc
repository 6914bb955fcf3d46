#include "backend/cpu/kernels/pool.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/pool.cc"
#include "backend/cpu/kernels/foreach_target.h"
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

// Whether the next value takes the place of the one held: where it is larger, not where it is
// equal, and where it is NaN.
HWY_INLINE auto replaces(Native next, Native held) {
  return hn::Or(hn::Gt(next, held), hn::IsNaN(next));
}

void max_windows(const PoolShape& s, Range planes, const float* x, float* y) {
  const NativeTag d;
  for_each_window(s, planes, [&](int64_t out, int64_t in) HWY_ATTR {
    for (int64_t lane = 0; lane < kLanes; lane += kNative) {
      const float* corner = x + in + lane;
      Native held = hn::LoadU(d, corner);
      for (int64_t r = 0; r < s.window_height; ++r) {
        const float* row = corner + r * s.x.width * kLanes;
        for (int64_t t = 0; t < s.window_width; ++t) {
          hwy::Prefetch(row + t * kLanes + kReadAhead);
          const Native next = hn::LoadU(d, row + t * kLanes);
          held = hn::IfThenElse(replaces(next, held), next, held);
        }
      }
      hn::StoreU(held, d, y + out + lane);
    }
  });
}

// Gradients of a tensor that is streamed or not. A part of a line is never streamed.
template <bool kStream>
void max_gradients(const PoolShape& s, Range planes, const float* dy, const float* x, float* dx) {
  const NativeTag d;
  clear_uncovered(s, planes, dx);
  for_each_window(s, planes, [&](int64_t out, int64_t in) HWY_ATTR {
    for (int64_t lane = 0; lane < kLanes; lane += kNative) {
      const float* corner = x + in + lane;
      Native held = hn::LoadU(d, corner);
      Native place = hn::Zero(d);  // in the window, row-major
      float next_place = 0;
      for (int64_t r = 0; r < s.window_height; ++r) {
        const float* row = corner + r * s.x.width * kLanes;
        for (int64_t t = 0; t < s.window_width; ++t) {
          hwy::Prefetch(row + t * kLanes + kReadAhead);
          const Native next = hn::LoadU(d, row + t * kLanes);
          const auto replace = replaces(next, held);
          held = hn::IfThenElse(replace, next, held);
          place = hn::IfThenElse(replace, hn::Set(d, next_place), place);
          next_place += 1;
        }
      }
      const Native gradient = hn::LoadU(d, dy + out + lane);
      next_place = 0;
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
void max_windows_grad(const PoolShape& s, Range planes, const float* dy, const float* x,
                      float* dx) {
  if (kRegisters == 1 && streams(dx, s.x.floats()))
    max_gradients<kRegisters == 1>(s, planes, dy, x, dx);
  else
    max_gradients<false>(s, planes, dy, x, dx);
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
HWY_EXPORT(avg_windows);
HWY_EXPORT(avg_windows_grad);

namespace {

std::int64_t planes_of(const PoolShape& shape) { return shape.x.blocks() * shape.x.channels; }
Range part_planes(const PoolShape& shape, int part) {
  return share_of(planes_of(shape), pool_parts(shape), part);
}

}  // namespace

int pool_parts(const PoolShape& shape) {
  constexpr std::int64_t kWork = std::int64_t{1} << 15;  // floats read or written
  return parts_of(planes_of(shape), shape.x.pixels() * kLanes, kWork);
}
void max_pool(const PoolShape& shape, const float* x, float* y, int part) {
  PODIUM_DISPATCH(max_windows)(shape, part_planes(shape, part), x, y);
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
