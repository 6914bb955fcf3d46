#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/pool.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

// Element i of the planes of a channel, [height][width][images].
struct Place {
  unsigned n, w, h;
};
class Places {
 public:
  Places(std::int64_t images, std::int64_t width) : images_(images), width_(width) {}
  __device__ Place operator()(unsigned i) const {
    Place place{};
    place.n = images_.split(i);
    place.w = width_.split(i);
    place.h = i;
    return place;
  }

 private:
  Divisor images_, width_;
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

std::int64_t input_inner(const PoolShape& s) { return s.height * s.width * s.images; }
std::int64_t output_inner(const PoolShape& s) { return s.out_height * s.out_width * s.images; }

bool is_square_of_two(const PoolShape& s) {
  return s.tiles && s.window_height == 2 && s.window_width == 2;
}

// Which of four pixels is the largest: the first of equals, NaN larger than all.
template <int kWidth>
__device__ int largest_of_four(const Pack<kWidth> (&in)[4], int j, float& value) {
  int best = 0;
  value = in[0].v[j];
#pragma unroll
  for (int k = 1; k < 4; ++k)
    if (in[k].v[j] > value || in[k].v[j] != in[k].v[j]) best = k, value = in[k].v[j];
  return best;
}

// Windows of 2x2 that tile the image: a thread has one of them, of kWidth images.
template <int kWidth>
void pool_squares(const Launch& launch, const PoolShape& s, ConstFloats x, Floats y,
                  Floats places) {
  const std::int64_t inner = input_inner(s), out_inner = output_inner(s);
  const Places windows(s.images / kWidth, s.out_width);
  const auto images = static_cast<unsigned>(s.images), width = static_cast<unsigned>(s.width);
  launch_rows(launch, s.channels, out_inner / kWidth,
              [=] __device__(std::int64_t c, unsigned i, unsigned r) {
                const Place at = windows(i);
                const float* const from =
                    x.of(r) + c * inner + (2 * at.h * width + 2 * at.w) * images + at.n * kWidth;
                Pack<kWidth> in[4], out, place;
#pragma unroll
                for (unsigned k = 0; k < 4; ++k)
                  in[k] = load_pack<kWidth>(from + (k / 2 * width + k % 2) * images);
#pragma unroll
                for (int j = 0; j < kWidth; ++j)
                  place.v[j] = static_cast<float>(largest_of_four(in, j, out.v[j]));
                const std::int64_t to = c * out_inner + std::int64_t{i} * kWidth;
                store_pack(y.of(r) + to, out);
                if (places.first != nullptr) store_pack(places.of(r) + to, place);
              });
}

// The rows and columns that fill no window have windows in part, whose pixels are +0.
template <int kWidth>
void pool_squares_grad(const Launch& launch, const PoolShape& s, ConstFloats dy, ConstFloats x,
                       Floats dx) {
  const std::int64_t inner = input_inner(s), out_inner = output_inner(s);
  const std::int64_t rows = (s.height + 1) / 2, columns = (s.width + 1) / 2;
  const Places windows(s.images / kWidth, columns);
  const auto images = static_cast<unsigned>(s.images), width = static_cast<unsigned>(s.width),
             height = static_cast<unsigned>(s.height);
  launch_rows(launch, s.channels, rows * columns * (s.images / kWidth),
              [=] __device__(std::int64_t c, unsigned i, unsigned r) {
                const Place at = windows(i);
                const std::int64_t first =
                    c * inner + (2 * at.h * width + 2 * at.w) * images + at.n * kWidth;
                const bool below = 2 * at.h + 1 < height, beside = 2 * at.w + 1 < width;
                Pack<kWidth> out[4] = {};
                if (below && beside) {
                  Pack<kWidth> in[4];
#pragma unroll
                  for (unsigned k = 0; k < 4; ++k)
                    in[k] = load_pack<kWidth>(x.of(r) + first + (k / 2 * width + k % 2) * images);
                  const Pack<kWidth> gradient =
                      load_pack<kWidth>(dy.of(r) + c * out_inner +
                                        (at.h * (width / 2) + at.w) * images + at.n * kWidth);
#pragma unroll
                  for (int j = 0; j < kWidth; ++j) {
                    float value = 0;
                    const int best = largest_of_four(in, j, value);
#pragma unroll
                    for (int k = 0; k < 4; ++k) out[k].v[j] = k == best ? gradient.v[j] : 0.0f;
                  }
                }
                float* const to = dx.of(r) + first;
                store_pack(to, out[0]);
                if (beside) store_pack(to + images, out[1]);
                if (below) store_pack(to + width * images, out[2]);
                if (below && beside) store_pack(to + (width + 1) * images, out[3]);
              });
}

}  // namespace

void max_pool(const Launch& launch, const PoolShape& s, ConstFloats x, Floats y, Floats places) {
  if (is_square_of_two(s)) {
    if (has_packs(s.images, {x, y, places}))
      pool_squares<4>(launch, s, x, y, places);
    else
      pool_squares<1>(launch, s, x, y, places);
    return;
  }
  const std::int64_t inner = output_inner(s);
  const Places outputs(s.images, s.out_width);
  launch_rows(launch, s.channels, inner, [=] __device__(std::int64_t c, unsigned i, unsigned r) {
    const Place place = outputs(i);
    const Window window(s, place.h, place.w);
    const Largest best = largest(s, window, x.of(r), c, place.n);
    y.of(r)[c * inner + i] = best.value;
    if (places.first != nullptr)
      places.of(r)[c * inner + i] = static_cast<float>(
          (best.h - window.top) * (window.right - window.left) + (best.w - window.left));
  });
}

void max_pool_grad(const Launch& launch, const PoolShape& s, ConstFloats dy, ConstFloats x,
                   Floats dx) {
  if (is_square_of_two(s)) {
    if (has_packs(s.images, {x, dy, dx}))
      pool_squares_grad<4>(launch, s, dy, x, dx);
    else
      pool_squares_grad<1>(launch, s, dy, x, dx);
    return;
  }
  const std::int64_t inner = input_inner(s), out_inner = output_inner(s);
  const Places inputs(s.images, s.width);
  const Divisor down(s.stride_height), across(s.stride_width);
  launch_rows(launch, s.channels, inner, [=] __device__(std::int64_t c, unsigned i, unsigned r) {
    const Place place = inputs(i);
    // The windows that hold the pixel: from the first that ends behind it.
    const std::int64_t h = place.h + s.pad_top, w = place.w + s.pad_left;
    const std::int64_t p0 =
        h < s.window_height ? 0 : down.quotient(static_cast<unsigned>(h - s.window_height)) + 1;
    const std::int64_t q0 =
        w < s.window_width ? 0 : across.quotient(static_cast<unsigned>(w - s.window_width)) + 1;
    float sum = 0;
    for (std::int64_t p = p0; p < s.out_height && p * s.stride_height <= h; ++p)
      for (std::int64_t q = q0; q < s.out_width && q * s.stride_width <= w; ++q) {
        const Largest best = largest(s, Window(s, p, q), x.of(r), c, place.n);
        if (best.h != place.h || best.w != place.w) continue;
        const float gradient = dy.of(r)[c * out_inner + (p * s.out_width + q) * s.images + place.n];
        sum = s.tiles ? gradient : sum + gradient;
      }
    dx.of(r)[c * inner + i] = sum;
  });
}

void avg_pool(const Launch& launch, const PoolShape& s, float share, ConstFloats x, Floats y) {
  const std::int64_t inner = output_inner(s);
  const Places outputs(s.images, s.out_width);
  launch_rows(launch, s.channels, inner, [=] __device__(std::int64_t c, unsigned i, unsigned r) {
    const Place place = outputs(i);
    const Window window(s, place.h, place.w);
    float sum = 0;
    for (std::int64_t h = window.top; h < window.bottom; ++h)
      for (std::int64_t w = window.left; w < window.right; ++w)
        sum = sum + x.of(r)[at(s, c, h, w, place.n)];
    y.of(r)[c * inner + i] = sum * share;
  });
}

void avg_pool_grad(const Launch& launch, const PoolShape& s, float share, ConstFloats dy,
                   Floats dx) {
  const std::int64_t inner = input_inner(s), out_inner = output_inner(s);
  const Places inputs(s.images, s.width);
  const Divisor down(s.stride_height), across(s.stride_width);
  launch_rows(launch, s.channels, inner, [=] __device__(std::int64_t c, unsigned i, unsigned r) {
    const Place place = inputs(i);
    const unsigned p = down.quotient(place.h), q = across.quotient(place.w);
    const bool inside = p < s.out_height && q < s.out_width;
    dx.of(r)[c * inner + i] =
        inside ? dy.of(r)[c * out_inner + (p * s.out_width + q) * s.images + place.n] * share
               : 0.0f;
  });
}

}  // namespace podium::PODIUM_CUDA_SPACE
