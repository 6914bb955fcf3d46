// From images, or the gradients to outputs, to the points of their tiles: what winograd.cu and
// winograd_grad_weight.cu share. A thread transforms one tile of one image and channel in its
// registers; its neighbours have the same tile of other images, so that they read and write side by
// side. The points lie [point][channel][column]. For *.cu files only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/cuda/kernels/tile.h"
#include "backend/cuda/kernels/winograd.h"
#include "backend/cuda/kernels/winograd_transforms.h"

namespace podium::PODIUM_CUDA_SPACE {

// The points of as many columns as are at work at the same time should stay in the L2 cache, from
// the kernel that writes them to the one that reads them.
inline constexpr std::int64_t kCachedFloats = std::int64_t{6} << 20;

inline constexpr int kTransformThreads = 64;

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

inline WinogradLayer winograd_layer(const WinogradShape& s) {
  const auto i = [](std::int64_t v) { return static_cast<int>(v); };
  return {i(s.images),       i(s.in_channels), i(s.in_height), i(s.in_width),
          i(s.out_channels), i(s.out_height),  i(s.out_width), i(s.stride_height),
          i(s.stride_width), i(s.pad_top),     i(s.pad_left)};
}

// --- what is transformed: view(replica, channel, n, there).at(i, j) is +0 outside

template <bool kNormalises>
struct ImageSource {
  WinogradLayer s;
  ConstFloats x, affine;
  Activation activation;

  struct View {
    const ImageSource& source;
    const float* plane;
    int down, across;  // where index 0 lies
    float scale, shift;
    bool there;

    __device__ float at(int i, int j) const {
      const WinogradLayer& layer = source.s;
      const int h = layer.stride_down * i + down, v = layer.stride_across * j + across;
      if (!there || h < 0 || h >= layer.in_height || v < 0 || v >= layer.in_width) return 0;
      const float pixel = plane[(static_cast<std::int64_t>(h) * layer.in_width + v) * layer.images];
      if constexpr (!kNormalises) return pixel;
      const float normal = std::fma(pixel, scale, shift);
      // Of the activations that cost little (ops/conv2d_winograd.cc, W7).
      if (source.activation.kind == ActivationKind::kRelu)
        return normal > 0 || normal != normal ? normal : 0.0f;
      if (source.activation.kind == ActivationKind::kLeakyRelu)
        return normal > 0 ? normal : source.activation.slope * normal;
      return normal;
    }
  };
  __device__ View view(unsigned replica, int e, int n, bool there) const {
    const int c = e % s.channels;
    View view{
        *this,
        x.of(replica) + static_cast<std::int64_t>(c) * s.in_height * s.in_width * s.images + n,
        s.down_of(e) - s.pad_top,
        s.across_of(e) - s.pad_left,
        0,
        0,
        there};
    if constexpr (kNormalises) {
      view.scale = affine.of(replica)[c];
      view.shift = affine.of(replica)[s.channels + c];
    }
    return view;
  }
};

// With kPools, a gradient of pooled outputs at the places of their maxima.
template <bool kPools>
struct GradientSource {
  WinogradLayer s;
  ConstFloats dy, places;
  int top, left;  // the pixel at index 0

  struct View {
    const GradientSource& source;
    const float *plane, *places;
    bool there;

    __device__ float at(int i, int j) const {
      const WinogradLayer& layer = source.s;
      const int p = source.top + i, q = source.left + j;
      if (!there || p < 0 || p >= layer.out_height || q < 0 || q >= layer.out_width) return 0;
      if constexpr (!kPools) {
        return plane[(static_cast<std::int64_t>(p) * layer.out_width + q) * layer.images];
      } else {
        const std::int64_t window =
            (static_cast<std::int64_t>(p / 2) * (layer.out_width / 2) + q / 2) * layer.images;
        const int place = p % 2 * 2 + q % 2;
        return places[window] == static_cast<float>(place) ? plane[window] : 0.0f;
      }
    }
  };
  __device__ View view(unsigned replica, int k, int n, bool there) const {
    const int share = kPools ? 4 : 1;
    const std::int64_t at =
        static_cast<std::int64_t>(k) * (s.out_height * s.out_width / share) * s.images + n;
    return {*this, dy.of(replica) + at, kPools ? places.of(replica) + at : nullptr, there};
  }
};

// --- where columns stand

// A tile of an image, and the memory of its column; `step` floats between two channels.
struct Column {
  unsigned replica;
  int i, j, n;
  bool inside;  // whether there is such an image; otherwise +0 takes its place
  float* memory;
  std::int64_t step;
};

template <int kM, typename Source, typename Columns>
__global__ void __launch_bounds__(kTransformThreads, 1)
    patch_points_kernel(Source source, Columns columns) {
  const int local = static_cast<int>(blockIdx.x * kTransformThreads + threadIdx.x);
  if (local >= columns.count) return;
  const int channel = static_cast<int>(blockIdx.y), channels = static_cast<int>(gridDim.y);
  Column column;
  if (!columns.at(local, column)) return;
  const bool whole_down = columns.down.is_whole(column.i),
             whole_across = columns.across.is_whole(column.j);
  const int top = static_cast<int>(columns.down.begin(column.i)),
            left = static_cast<int>(columns.across.begin(column.j));
  const auto view = source.view(column.replica, channel, column.n, column.inside);
  constexpr int kPoints = kM + 2;
  float d[kPoints][kPoints];
#pragma unroll
  for (int i = 0; i < kPoints; ++i)
#pragma unroll
    for (int j = 0; j < kPoints; ++j) d[i][j] = view.at(top + i, left + j);
  Transforms2d<kM>::b(d, whole_down, whole_across);
#pragma unroll
  for (int i = 0; i < kPoints; ++i)
#pragma unroll
    for (int j = 0; j < kPoints; ++j)
      if ((i <= kM || whole_down) && (j <= kM || whole_across))
        column.memory[(static_cast<std::int64_t>(i * kPoints + j) * channels + channel) *
                      column.step] = d[i][j];
}

}  // namespace podium::PODIUM_CUDA_SPACE
