#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/pool.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

// Element i of a tensor [channels][height][width][images].
struct Place {
  std::int64_t n, w, h, c;
  __device__ Place(std::int64_t i, std::int64_t images, std::int64_t height, std::int64_t width) {
    n = i % images, i /= images;
    w = i % width, i /= width;
    h = i % height, c = i / height;
  }
};

// The part of window (p, q) that lies inside the image.
struct Window {
  std::int64_t top, left, bottom, right;
  __device__ Window(const PoolShape& s, std::int64_t p, std::int64_t q) {
    const std::int64_t h = p * s.stride_height - s.pad_top, w = q * s.stride_width - s.pad_left;
    top = h < 0 ? 0 : h;
    left = w < 0 ? 0 : w;
    bottom = h + s.window_height < s.height ? h + s.window_height : s.height;
    right = w + s.window_width < s.width ? w + s.window_width : s.width;
  }
};

__device__ inline std::int64_t at(const PoolShape& s, std::int64_t c, std::int64_t h,
                                  std::int64_t w, std::int64_t n) {
  return ((c * s.height + h) * s.width + w) * s.images + n;
}

struct Largest {
  std::int64_t h, w;
  float value;
};
// The first of equals, NaN larger than all.
__device__ inline Largest largest(const PoolShape& s, const Window& window, const float* x,
                                  std::int64_t c, std::int64_t n) {
  Largest best{window.top, window.left, x[at(s, c, window.top, window.left, n)]};
  for (std::int64_t h = window.top; h < window.bottom; ++h)
    for (std::int64_t w = window.left; w < window.right; ++w) {
      const float next = x[at(s, c, h, w, n)];
      if (next > best.value || next != next) best = {h, w, next};
    }
  return best;
}

std::int64_t inputs_of(const PoolShape& s) { return s.channels * s.height * s.width * s.images; }
std::int64_t outputs_of(const PoolShape& s) {
  return s.channels * s.out_height * s.out_width * s.images;
}

}  // namespace

void max_pool(const Launch& launch, const PoolShape& s, ConstFloats x, Floats y, Floats places) {
  launch_flat(launch, outputs_of(s), [=] __device__(std::int64_t i, unsigned r) {
    const Place place(i, s.images, s.out_height, s.out_width);
    const Window window(s, place.h, place.w);
    const Largest best = largest(s, window, x.of(r), place.c, place.n);
    y.of(r)[i] = best.value;
    if (places.first != nullptr)
      places.of(r)[i] = static_cast<float>((best.h - window.top) * (window.right - window.left) +
                                           (best.w - window.left));
  });
}

void max_pool_grad(const Launch& launch, const PoolShape& s, ConstFloats dy, ConstFloats x,
                   Floats dx) {
  launch_flat(launch, inputs_of(s), [=] __device__(std::int64_t i, unsigned r) {
    const Place place(i, s.images, s.height, s.width);
    // The windows that hold the pixel: from the first that ends behind it.
    const std::int64_t h = place.h + s.pad_top, w = place.w + s.pad_left;
    const std::int64_t p0 = h < s.window_height ? 0 : (h - s.window_height) / s.stride_height + 1;
    const std::int64_t q0 = w < s.window_width ? 0 : (w - s.window_width) / s.stride_width + 1;
    float sum = 0;
    for (std::int64_t p = p0; p < s.out_height && p * s.stride_height <= h; ++p)
      for (std::int64_t q = q0; q < s.out_width && q * s.stride_width <= w; ++q) {
        const Largest best = largest(s, Window(s, p, q), x.of(r), place.c, place.n);
        if (best.h != place.h || best.w != place.w) continue;
        const float gradient =
            dy.of(r)[((place.c * s.out_height + p) * s.out_width + q) * s.images + place.n];
        sum = s.tiles ? gradient : sum + gradient;
      }
    dx.of(r)[i] = sum;
  });
}

void avg_pool(const Launch& launch, const PoolShape& s, float share, ConstFloats x, Floats y) {
  launch_flat(launch, outputs_of(s), [=] __device__(std::int64_t i, unsigned r) {
    const Place place(i, s.images, s.out_height, s.out_width);
    const Window window(s, place.h, place.w);
    float sum = 0;
    for (std::int64_t h = window.top; h < window.bottom; ++h)
      for (std::int64_t w = window.left; w < window.right; ++w)
        sum = sum + x.of(r)[at(s, place.c, h, w, place.n)];
    y.of(r)[i] = sum * share;
  });
}

void avg_pool_grad(const Launch& launch, const PoolShape& s, float share, ConstFloats dy,
                   Floats dx) {
  launch_flat(launch, inputs_of(s), [=] __device__(std::int64_t i, unsigned r) {
    const Place place(i, s.images, s.height, s.width);
    const std::int64_t p = place.h / s.stride_height, q = place.w / s.stride_width;
    const bool inside = p < s.out_height && q < s.out_width;
    dx.of(r)[i] =
        inside ? dy.of(r)[((place.c * s.out_height + p) * s.out_width + q) * s.images + place.n] *
                     share
               : 0.0f;
  });
}

}  // namespace podium::PODIUM_CUDA_SPACE
