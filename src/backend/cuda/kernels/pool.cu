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

// A PoolShape in fewer registers: sides of images are below 2^31.
struct Windows {
  int height, width, out_height, out_width, window_height, window_width, stride_height,
      stride_width, pad_top, pad_left;
  unsigned images;
  bool tiles;
};
Windows windows_of(const PoolShape& s) {
  const auto as_int = [](std::int64_t side) { return static_cast<int>(side); };
  return {as_int(s.height),
          as_int(s.width),
          as_int(s.out_height),
          as_int(s.out_width),
          as_int(s.window_height),
          as_int(s.window_width),
          as_int(s.stride_height),
          as_int(s.stride_width),
          as_int(s.pad_top),
          as_int(s.pad_left),
          static_cast<unsigned>(s.images),
          s.tiles};
}

// The part of window (p, q) that lies inside the image, which begins at (first_row, first_column).
struct Window {
  int first_row, first_column, top, left, bottom, right;
  __device__ Window(const Windows& s, int p, int q) {
    const int h = p * s.stride_height - s.pad_top, w = q * s.stride_width - s.pad_left;
    first_row = h, first_column = w;
    top = h < 0 ? 0 : h;
    left = w < 0 ? 0 : w;
    bottom = h + s.window_height < s.height ? h + s.window_height : s.height;
    right = w + s.window_width < s.width ? w + s.window_width : s.width;
  }
  // A pixel's number in the whole window, row by row.
  __device__ int place_of(const Windows& s, int h, int w) const {
    return (h - first_row) * s.window_width + w - first_column;
  }
};

// The largest pixel of a window of kWidth images, the first of equals, NaN larger than all.
template <int kWidth>
struct Largest {
  Pack<kWidth> values;
  int places[kWidth];
};
// `plane`: the channel's first pixel of the first of these images.
template <int kWidth>
__device__ Largest<kWidth> largest(const Windows& s, const Window& window, const SourceAt& plane) {
  Largest<kWidth> best;
  bool first = true;
#pragma unroll 1
  for (int h = window.top; h < window.bottom; ++h)
    for (int w = window.left; w < window.right; ++w) {
      const int place = window.place_of(s, h, w);
      const Pack<kWidth> next =
          plane.pack<kWidth>(static_cast<unsigned>(h * s.width + w) * s.images);
#pragma unroll
      for (int j = 0; j < kWidth; ++j)
        if (first || next.v[j] > best.values.v[j] || next.v[j] != next.v[j])
          best.values.v[j] = next.v[j], best.places[j] = place;
      first = false;
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
void pool_squares(const Launch& launch, const PoolShape& s, Source x, const Result& y,
                  Floats places) {
  const std::int64_t inner = input_inner(s), out_inner = output_inner(s);
  const Places windows(s.images / kWidth, s.out_width);
  const auto images = static_cast<unsigned>(s.images), width = static_cast<unsigned>(s.width);
  launch_rows(launch, s.channels, out_inner / kWidth,
              [=] __device__(std::int64_t c, unsigned i, unsigned r) {
                const Place at = windows(i);
                const SourceAt from(
                    x, r, c * inner + (2 * at.h * width + 2 * at.w) * images + at.n * kWidth);
                Pack<kWidth> in[4], out, place;
#pragma unroll
                for (unsigned k = 0; k < 4; ++k)
                  in[k] = from.pack<kWidth>((k / 2 * width + k % 2) * images);
#pragma unroll
                for (int j = 0; j < kWidth; ++j)
                  place.v[j] = static_cast<float>(largest_of_four(in, j, out.v[j]));
                const std::int64_t to = c * out_inner + std::int64_t{i} * kWidth;
                store_pack(y, r, to, out);
                if (places.first != nullptr) store_pack(places.of(r) + to, place);
              });
}

// Gradients are made from x, or, with kPlaces, from the places of its maxima.

// The rows and columns that fill no window have windows in part, whose pixels are +0.
template <int kWidth, bool kPlaces>
void pool_squares_grad(const Launch& launch, const PoolShape& s, Source dy, Source from,
                       const Result& dx) {
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
                  const std::int64_t window =
                      c * out_inner + (at.h * (width / 2) + at.w) * images + at.n * kWidth;
                  Pack<kWidth> in[4], place;
                  if (kPlaces) {
                    place = load_pack<kWidth>(from, r, window);
                  } else {
#pragma unroll
                    for (unsigned k = 0; k < 4; ++k)
                      in[k] = load_pack<kWidth>(from, r, first + (k / 2 * width + k % 2) * images);
                  }
                  const Pack<kWidth> gradient = load_pack<kWidth>(dy, r, window);
#pragma unroll
                  for (int j = 0; j < kWidth; ++j) {
                    float value = 0;
                    const int best =
                        kPlaces ? static_cast<int>(place.v[j]) : largest_of_four(in, j, value);
#pragma unroll
                    for (int k = 0; k < 4; ++k) out[k].v[j] = k == best ? gradient.v[j] : 0.0f;
                  }
                }
                store_pack(dx, r, first, out[0]);
                if (beside) store_pack(dx, r, first + images, out[1]);
                if (below) store_pack(dx, r, first + width * images, out[2]);
                if (below && beside) store_pack(dx, r, first + (width + 1) * images, out[3]);
              });
}

// Other windows: a thread has one of them, of kWidth images.
template <int kWidth>
void pool_windows(const Launch& launch, const PoolShape& shape, Source x, const Result& y,
                  Floats places) {
  const std::int64_t inner = input_inner(shape), out_inner = output_inner(shape);
  const Places windows(shape.images / kWidth, shape.out_width);
  const Windows s = windows_of(shape);
  launch_rows<4>(
      launch, shape.channels, out_inner / kWidth,
      [=] __device__(std::int64_t c, unsigned i, unsigned r) {
        const Place at = windows(i);
        const Window window(s, static_cast<int>(at.h), static_cast<int>(at.w));
        const Largest<kWidth> best = largest<kWidth>(s, window, {x, r, c * inner + at.n * kWidth});
        const std::int64_t to = c * out_inner + std::int64_t{i} * kWidth;
        store_pack(y, r, to, best.values);
        if (places.first == nullptr) return;
        Pack<kWidth> place;
#pragma unroll
        for (int j = 0; j < kWidth; ++j) place.v[j] = static_cast<float>(best.places[j]);
        store_pack(places.of(r) + to, place);
      });
}

// A thread has one pixel of kWidth images, and adds what comes from the windows that hold it.
template <int kWidth, bool kPlaces>
void pool_windows_grad(const Launch& launch, const PoolShape& shape, Source dy, Source from,
                       const Result& dx) {
  const std::int64_t inner = input_inner(shape), out_inner = output_inner(shape);
  const Places inputs(shape.images / kWidth, shape.width);
  const Divisor down(shape.stride_height), across(shape.stride_width);
  const Windows s = windows_of(shape);
  launch_rows<4>(launch, shape.channels, inner / kWidth,
                 [=] __device__(std::int64_t c, unsigned i, unsigned r) {
                   const Place at = inputs(i);
                   const auto h = static_cast<int>(at.h), w = static_cast<int>(at.w);
                   const SourceAt plane(from, r, c * (kPlaces ? out_inner : inner) + at.n * kWidth),
                       gradients(dy, r, c * out_inner + at.n * kWidth);
                   const auto window_of = [](const Divisor& stride, int pixel) {
                     return static_cast<int>(stride.quotient(static_cast<unsigned>(pixel)));
                   };
                   const auto smaller = [](int a, int b) { return a < b ? a : b; };
                   // Those that end behind the pixel and begin before it.
                   const int above = h + s.pad_top - s.window_height,
                             before = w + s.pad_left - s.window_width;
                   const int q0 = before < 0 ? 0 : window_of(across, before) + 1,
                             q_end = smaller(window_of(across, w + s.pad_left) + 1, s.out_width),
                             p_end = smaller(window_of(down, h + s.pad_top) + 1, s.out_height);
                   Pack<kWidth> sum = {};
#pragma unroll 1
                   for (int p = above < 0 ? 0 : window_of(down, above) + 1; p < p_end; ++p)
#pragma unroll 1
                     for (int q = q0; q < q_end; ++q) {
                       const Window window(s, p, q);
                       const int own = window.place_of(s, h, w);
                       const unsigned out = static_cast<unsigned>(p * s.out_width + q) * s.images;
                       bool here[kWidth];
                       if (kPlaces) {
                         const Pack<kWidth> place = plane.pack<kWidth>(out);
#pragma unroll
                         for (int j = 0; j < kWidth; ++j)
                           here[j] = place.v[j] == static_cast<float>(own);
                       } else {
                         const Largest<kWidth> best = largest<kWidth>(s, window, plane);
#pragma unroll
                         for (int j = 0; j < kWidth; ++j) here[j] = best.places[j] == own;
                       }
                       const Pack<kWidth> gradient = gradients.pack<kWidth>(out);
#pragma unroll
                       for (int j = 0; j < kWidth; ++j)
                         if (here[j]) sum.v[j] = s.tiles ? gradient.v[j] : sum.v[j] + gradient.v[j];
                     }
                   store_pack(dx, r, c * inner + std::int64_t{i} * kWidth, sum);
                 });
}

}  // namespace

void max_pool(const Launch& launch, const PoolShape& s, Source x, const Result& y, Floats places) {
  const bool packs = has_packs(s.images, {x, y.floats, places});
  if (is_square_of_two(s))
    packs ? pool_squares<4>(launch, s, x, y, places) : pool_squares<1>(launch, s, x, y, places);
  else
    packs ? pool_windows<4>(launch, s, x, y, places) : pool_windows<1>(launch, s, x, y, places);
}

void max_pool_grad(const Launch& launch, const PoolShape& s, bool places, Source dy, Source from,
                   const Result& dx) {
  const bool packs = has_packs(s.images, {from, dy, dx.floats});
  with_constant(places, [&](auto from_places) {
    constexpr bool kPlaces = decltype(from_places)::value;
    if (is_square_of_two(s))
      packs ? pool_squares_grad<4, kPlaces>(launch, s, dy, from, dx)
            : pool_squares_grad<1, kPlaces>(launch, s, dy, from, dx);
    else
      packs ? pool_windows_grad<4, kPlaces>(launch, s, dy, from, dx)
            : pool_windows_grad<1, kPlaces>(launch, s, dy, from, dx);
  });
}

void avg_pool(const Launch& launch, const PoolShape& shape, float share, Source x,
              const Result& y) {
  const std::int64_t inner = input_inner(shape), out_inner = output_inner(shape);
  const Places outputs(shape.images, shape.out_width);
  const Windows s = windows_of(shape);
  launch_rows(
      launch, shape.channels, out_inner, [=] __device__(std::int64_t c, unsigned i, unsigned r) {
        const Place at = outputs(i);
        const Window window(s, static_cast<int>(at.h), static_cast<int>(at.w));
        const std::int64_t plane = c * inner + at.n;
        float sum = 0;
        for (int h = window.top; h < window.bottom; ++h)
          for (int w = window.left; w < window.right; ++w)
            sum = sum + load(x, r, plane + static_cast<unsigned>(h * s.width + w) * s.images);
        store(y, r, c * out_inner + i, sum * share);
      });
}

void avg_pool_grad(const Launch& launch, const PoolShape& s, float share, Source dy,
                   const Result& dx) {
  const std::int64_t inner = input_inner(s), out_inner = output_inner(s);
  const Places inputs(s.images, s.width);
  const Divisor down(s.stride_height), across(s.stride_width);
  launch_rows(launch, s.channels, inner, [=] __device__(std::int64_t c, unsigned i, unsigned r) {
    const Place place = inputs(i);
    const unsigned p = down.quotient(place.h), q = across.quotient(place.w);
    const bool inside = p < s.out_height && q < s.out_width;
    const std::int64_t window = c * out_inner + (p * s.out_width + q) * s.images + place.n;
    store(dx, r, c * inner + i, inside ? load(dy, r, window) * share : 0.0f);
  });
}

}  // namespace podium::PODIUM_CUDA_SPACE
