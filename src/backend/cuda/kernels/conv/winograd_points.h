// From images, or the gradients to outputs, to the points of their tiles: what winograd.cu and
// winograd_grad_weight.cu share. A thread transforms one tile of one image and channel in its
// registers; its neighbours have the same tile of other images, so that they read and write side by
// side. The points lie [point][channel][column]. For *.cu files only.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "backend/cuda/kernels/conv/winograd.h"
#include "backend/cuda/kernels/conv/winograd_transforms.h"
#include "backend/cuda/kernels/tile.h"

namespace podium::PODIUM_CUDA_SPACE {

// The most floats of points that a replica's scratch memory has. All replicas are at work at the
// same time. So launches are large enough to fill a GPU, whose memory is fast enough to hold the
// points from the kernel that writes them to the one that reads them: staying in its cache would
// take launches of a few microseconds.
#ifdef PODIUM_CUDA_EMULATED  // so that a test's shapes take several turns
inline constexpr std::int64_t kMostPointFloats = std::int64_t{6} << 20;
#else
inline constexpr std::int64_t kMostPointFloats = std::int64_t{20} << 20;
#endif

inline constexpr int kTransformThreads = 64;
// Blocks of a multiprocessor, whose registers they share.
constexpr int transform_blocks(int m) { return m == 8 ? 4 : m == 6 ? 6 : 8; }

// The same for the products.
template <typename T>
constexpr int product_blocks() {
  return (T::kSumsM == 8 && T::kSumsN == 8 && T::kThreads < 256 ? 384 : 512) / T::kThreads;
}

struct WinogradLayer {
  int images, channels, in_height, in_width, filters, out_height, out_width;
  int stride_down, stride_across, pad_top, pad_left;

  PODIUM_DEVICE_FUNCTION int phases() const { return stride_down * stride_across; }
  // Phased channel e = (a * stride_across + b) * channels + c.
  PODIUM_DEVICE_FUNCTION int phased() const { return phases() * channels; }
  PODIUM_DEVICE_FUNCTION int down_of(int e) const { return e / channels / stride_across; }
  PODIUM_DEVICE_FUNCTION int across_of(int e) const { return e / channels % stride_across; }
  PODIUM_DEVICE_FUNCTION std::int64_t weight(int k, int e, int r, int t) const {
    return (static_cast<std::int64_t>(k) * channels + e % channels) * (9 * phases()) +
           (stride_down * r + down_of(e)) * (3 * stride_across) + stride_across * t + across_of(e);
  }
  int tile_outputs(int rows, int columns) const {
    return winograd::tile_outputs(rows, columns, phased(), filters);
  }
};

inline WinogradLayer winograd_layer(const ConvShape& s) {
  const auto i = [](std::int64_t v) { return static_cast<int>(v); };
  return {i(s.images),       i(s.in_channels), i(s.in_height), i(s.in_width),
          i(s.out_channels), i(s.out_height),  i(s.out_width), i(s.stride_height),
          i(s.stride_width), i(s.pad_top),     i(s.pad_left)};
}

// A tile of an image, and the memory of its column; `step` floats between two channels.
struct Column {
  unsigned replica;
  int i, j, n;
  bool inside;  // whether there is such an image; otherwise +0 takes its place
  float* memory;
  int step;

  __device__ float& at(int point, int channel, int channels) const {
    return memory[static_cast<std::int64_t>(point * channels + channel) * step];
  }
};

// --- what is transformed: read(column, channel, top, left, d) gives pixels (top + i, left + j)
//
// What lies outside the image is +0. No load waits for another one or is skipped: outside, one of
// the nearest pixel is made.

// Some indices of an axis of an image: `first`, and those that follow `stride` apart.
template <int kCount>
struct AxisPixels {
  unsigned offsets[kCount];     // floats from the plane's first
  std::uint32_t masks[kCount];  // all ones inside the image, else 0

  __device__ AxisPixels(int first, int stride, int length, int floats) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int at = first + stride * i;
      masks[i] = at >= 0 && at < length ? ~0u : 0u;
      offsets[i] = static_cast<unsigned>((at < 0 ? 0 : at < length ? at : length - 1) * floats);
    }
  }
};

template <int kDown, int kAcross, int kRows, int kColumns>
__device__ void load(float (&d)[kRows][kColumns], const float* plane, const AxisPixels<kDown>& rows,
                     const AxisPixels<kAcross>& columns) {
#pragma unroll
  for (int i = 0; i < kDown; ++i) {
    const float* const row = plane + rows.offsets[i];
#pragma unroll
    for (int j = 0; j < kAcross; ++j) d[i][j] = row[columns.offsets[j]];
  }
}
// +0 outside.
__device__ inline float masked(float x, std::uint32_t down, std::uint32_t across) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & down & across);
}
template <int kDown, int kAcross, int kRows, int kColumns>
__device__ void mask(float (&d)[kRows][kColumns], const AxisPixels<kDown>& rows,
                     const AxisPixels<kAcross>& columns, bool there) {
#pragma unroll
  for (int i = 0; i < kDown; ++i) {
    const std::uint32_t row = there ? rows.masks[i] : 0u;
#pragma unroll
    for (int j = 0; j < kAcross; ++j) d[i][j] = masked(d[i][j], row, columns.masks[j]);
  }
}

template <bool kNormalises>
struct ImageSource {
  WinogradLayer s;
  ConstFloats x, affine;
  Activation activation;

  template <int kCount, int kPoints>
  __device__ void read(const Column& column, int e, int top, int left,
                       float (&d)[kPoints][kPoints]) const {
    const int c = e % s.channels;
    const float* const plane = x.of(column.replica) +
                               static_cast<std::int64_t>(c) * s.in_height * s.in_width * s.images +
                               (column.inside ? column.n : 0);
    const AxisPixels<kCount> rows(s.stride_down * top + s.down_of(e) - s.pad_top, s.stride_down,
                                  s.in_height, s.in_width * s.images),
        columns(s.stride_across * left + s.across_of(e) - s.pad_left, s.stride_across, s.in_width,
                s.images);
    load(d, plane, rows, columns);
    if constexpr (kNormalises) {
      const float scale = affine.of(column.replica)[c],
                  shift = affine.of(column.replica)[s.channels + c];
      const auto each = [&](const auto& activate) {
#pragma unroll
        for (int i = 0; i < kCount; ++i)
#pragma unroll
          for (int j = 0; j < kCount; ++j) d[i][j] = activate(std::fma(d[i][j], scale, shift));
      };
      // Of the activations that cost little (ops/images/conv2d_winograd.cc, W7).
      if (activation.kind == ActivationKind::kRelu)
        each([](float v) { return v > 0 || v != v ? v : 0.0f; });
      else if (activation.kind == ActivationKind::kLeakyRelu)
        each([&](float v) { return v > 0 ? v : activation.slope * v; });
      else
        each([](float v) { return v; });
    }
    mask(d, rows, columns, column.inside);
  }
};

// Calls f with two constants, 0 or 1.
template <typename F>
__device__ void with_parities(int down, int across, const F& f) {
  using Even = std::integral_constant<int, 0>;
  using Odd = std::integral_constant<int, 1>;
  if (down == 0 && across == 0)
    f(Even(), Even());
  else if (down == 0)
    f(Even(), Odd());
  else if (across == 0)
    f(Odd(), Even());
  else
    f(Odd(), Odd());
}

// With kPools, a gradient of pooled outputs at the places of their maxima.
template <bool kPools>
struct GradientSource {
  WinogradLayer s;
  ConstFloats dy, places;
  int top, left;  // the pixel at index 0

  template <int kCount, int kPoints>
  __device__ void read(const Column& column, int k, int first_i, int first_j,
                       float (&d)[kPoints][kPoints]) const {
    const int p = top + first_i, q = left + first_j;
    if constexpr (kPools) {
      with_parities(p & 1, q & 1, [&](auto down, auto across) {
        read_windows<kCount, decltype(down)::value, decltype(across)::value>(column, k, p >> 1,
                                                                             q >> 1, d);
      });
    } else {
      const float* const plane =
          dy.of(column.replica) + offset(column, k, s.out_height, s.out_width);
      const AxisPixels<kCount> rows(p, 1, s.out_height, s.out_width * s.images),
          columns(q, 1, s.out_width, s.images);
      load(d, plane, rows, columns);
      mask(d, rows, columns, column.inside);
    }
  }

 private:
  __device__ std::int64_t offset(const Column& column, int k, int height, int width) const {
    return static_cast<std::int64_t>(k) * height * width * s.images +
           (column.inside ? column.n : 0);
  }
  // Each window of 2x2 pixels once. Pixel 0 is in row kDown and column kAcross of the first.
  template <int kCount, int kDown, int kAcross, int kPoints>
  __device__ void read_windows(const Column& column, int k, int first, int first_across,
                               float (&d)[kPoints][kPoints]) const {
    const int height = s.out_height / 2, width = s.out_width / 2;
    const std::int64_t at = offset(column, k, height, width);
    const float *const plane = dy.of(column.replica) + at, *const places_plane =
                                                               places.of(column.replica) + at;
    constexpr int kRows = (kCount + kDown + 1) / 2, kColumns = (kCount + kAcross + 1) / 2;
    const AxisPixels<kRows> rows(first, 1, height, width * s.images);
    const AxisPixels<kColumns> columns(first_across, 1, width, s.images);
    float most[kRows][kColumns], place[kRows][kColumns];
    load(most, plane, rows, columns);
    load(place, places_plane, rows, columns);
    mask(most, rows, columns, column.inside);
#pragma unroll
    for (int i = 0; i < kCount; ++i)
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const int a = (i + kDown) / 2, b = (j + kAcross) / 2;
        const int here = (i + kDown) % 2 * 2 + (j + kAcross) % 2;
        d[i][j] = place[a][b] == static_cast<float>(here) ? most[a][b] : 0.0f;
      }
  }
};

// Of patches, or of the gradients to a tile's outputs.
enum class PointsOf { kPatches, kGradients };
template <int kM, PointsOf kOf, typename Source, typename Columns>
__global__ void __launch_bounds__(kTransformThreads, transform_blocks(kM))
    points_kernel(Source source, Columns columns) {
  const int local = static_cast<int>(blockIdx.x * kTransformThreads + threadIdx.x);
  if (local >= columns.count) return;
  const int channel = static_cast<int>(blockIdx.y), channels = static_cast<int>(gridDim.y);
  Column column;
  if (!columns.at(local, column)) return;
  const bool whole_down = columns.down.is_whole(column.i),
             whole_across = columns.across.is_whole(column.j);
  const int top = static_cast<int>(columns.down.begin(column.i)),
            left = static_cast<int>(columns.across.begin(column.j));
  constexpr int kPoints = kM + 2;
  float d[kPoints][kPoints];
  if constexpr (kOf == PointsOf::kPatches) {
    source.template read<kPoints>(column, channel, top, left, d);
    Transforms2d<kM>::b(d, whole_down, whole_across);
  } else {
    source.template read<kM>(column, channel, top, left, d);
    Transforms2d<kM>::a(d, whole_down, whole_across);
  }
#pragma unroll
  for (int i = 0; i < kPoints; ++i)
#pragma unroll
    for (int j = 0; j < kPoints; ++j)
      if ((i <= kM || whole_down) && (j <= kM || whole_across))
        column.at(i * kPoints + j, channel, channels) = d[i][j];
}

}  // namespace podium::PODIUM_CUDA_SPACE
