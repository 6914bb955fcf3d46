// Which pixels a convolution reads, forwards and backwards. An output is a sum over the channels of
// what is read and over the taps of the kernel that meet the image. Pixels of an input's gradient
// that lie a stride apart have the same taps: they are a phase, and each phase has tiles of its
// own. For *.cu files only.
#pragma once

#include <cstdint>
#include <utility>

#include "backend/cuda/kernels/conv/conv.h"
#include "backend/cuda/simt.h"
#include "base/numerics/device_function.h"

namespace podium::PODIUM_CUDA_SPACE {

// The kernel along one axis. Outputs i of phase a read pixel read(i) + shift(a, tap).
struct Axis {
  int kernel, stride, pad, reads, outs;
  bool backward;

  PODIUM_DEVICE_FUNCTION int phases() const { return backward ? stride : 1; }
  PODIUM_DEVICE_FUNCTION int first(int a) const { return backward ? (a + pad) % stride : 0; }
  PODIUM_DEVICE_FUNCTION int tap_step() const { return backward ? stride : 1; }
  PODIUM_DEVICE_FUNCTION int taps(int a) const {
    return first(a) < kernel ? (kernel - 1 - first(a)) / tap_step() + 1 : 0;
  }
  // That of tap 0; the others follow one pixel apart.
  PODIUM_DEVICE_FUNCTION int first_shift(int a) const {
    return backward ? (a + pad - first(a)) / stride : -pad;
  }
  PODIUM_DEVICE_FUNCTION int shift_step() const { return backward ? -1 : 1; }
  PODIUM_DEVICE_FUNCTION int shift(int a, int tap) const {
    return first_shift(a) + tap * shift_step();
  }
  PODIUM_DEVICE_FUNCTION int outputs(int a) const {
    return backward ? (outs > a ? (outs - a - 1) / stride + 1 : 0) : outs;
  }
  PODIUM_DEVICE_FUNCTION int output(int a, int i) const { return backward ? a + stride * i : i; }
  PODIUM_DEVICE_FUNCTION int read(int i) const { return backward ? i : i * stride; }
};

struct Reads {
  Axis down, across;
  int images, depth, outputs;  // channels that are read and written
  bool backward;

  PODIUM_DEVICE_FUNCTION int phases() const { return down.phases() * across.phases(); }
  // Most taps of a phase.
  int taps() const {
    const auto most = [](const Axis& axis) {
      return (axis.kernel + axis.tap_step() - 1) / axis.tap_step();
    };
    return most(down) * most(across);
  }
};

inline Reads reads_of(const ConvShape& s, bool backward) {
  const auto i = [](std::int64_t v) { return static_cast<int>(v); };
  Reads g{};
  g.down = {i(s.kernel_height), i(s.stride_height), i(s.pad_top),
            i(s.in_height),     i(s.out_height),    backward};
  g.across = {i(s.kernel_width), i(s.stride_width), i(s.pad_left),
              i(s.in_width),     i(s.out_width),    backward};
  g.images = i(s.images), g.depth = i(s.in_channels), g.outputs = i(s.out_channels);
  g.backward = backward;
  if (backward) {
    std::swap(g.down.reads, g.down.outs);
    std::swap(g.across.reads, g.across.outs);
    std::swap(g.depth, g.outputs);
  }
  return g;
}

// Some images at one pixel of a phase, neighbours in memory.
template <int kImages>
struct UnitOf {
  int h, v;          // the pixel that tap shift 0 reads; far outside beyond the last unit
  int n;             // first image
  std::int64_t out;  // pixel of the output
  bool there;

  __device__ UnitOf(const Reads& g, int a, int b, int index) {
    const int units = (g.images + kImages - 1) / kImages, width = g.across.outputs(b);
    const int pixel = index / units, i = pixel / width, j = pixel % width;
    there = i < g.down.outputs(a);
    n = index % units * kImages;
    h = there ? g.down.read(i) : -(1 << 28), v = g.across.read(j);
    out = static_cast<std::int64_t>(g.down.output(a, i)) * g.across.outs + g.across.output(b, j);
  }
  __device__ bool meets(const Reads& g, int down, int across) const {
    return static_cast<unsigned>(h + down) < static_cast<unsigned>(g.down.reads) &&
           static_cast<unsigned>(v + across) < static_cast<unsigned>(g.across.reads);
  }
};
using Unit = UnitOf<4>;

}  // namespace podium::PODIUM_CUDA_SPACE
