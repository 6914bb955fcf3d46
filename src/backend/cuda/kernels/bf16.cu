// Operands are first rounded: what is gathered to x[channel][pixel][image], images filled up to
// multiples of 8; its weights to packed[phase][output][term], terms being (tap, channel), with
// channels filled up to multiples of 8, and
// terms to whole slices.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "backend/cuda/kernels/bf16.h"
#include "backend/cuda/kernels/bf16_tile.h"
#include "backend/cuda/kernels/conv/gather.h"
#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/tile.h"
#include "base/error.h"
#include "base/numerics/bf16.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

template <typename T>
PODIUM_DEVICE_FUNCTION constexpr T rounded_up(T count, T multiple) {
  return (count + multiple - 1) / multiple * multiple;
}
Halves halves_in(Floats scratch) {
  return {reinterpret_cast<Half*>(scratch.first), scratch.stride * 2};
}

// Eight numbers, which are written at once.
struct alignas(16) Octet {
  std::uint32_t pairs[4];
};
PODIUM_DEVICE_FUNCTION inline std::uint32_t pair_of(float first, float second) {
  return bf16_bits(first) | static_cast<std::uint32_t>(bf16_bits(second)) << 16;
}

// Element (n, f) of x lies at f * feature_step + n * image_step.
void round_strided(const Launch& launch, std::int64_t features, std::int64_t images,
                   std::int64_t feature_step, std::int64_t image_step, Source x, Halves to) {
  const std::int64_t octets = (images + kOctet - 1) / kOctet;
  const bool wide = image_step == 1 && images % kOctet == 0 && feature_step % 4 == 0 &&
                    !x.has_halves() && is_aligned(x.floats);
  launch_flat(launch, features * octets, [=] __device__(std::int64_t i, unsigned replica) {
    const std::int64_t f = i / octets, first = i % octets * kOctet;
    const std::int64_t from = f * feature_step + first * image_step;
    float values[kOctet];
    if (wide) {
      const float4 a = load4(x.floats.of(replica) + from),
                   b = load4(x.floats.of(replica) + from + 4);
      values[0] = a.x, values[1] = a.y, values[2] = a.z, values[3] = a.w;
      values[4] = b.x, values[5] = b.y, values[6] = b.z, values[7] = b.w;
    } else {
      for (int n = 0; n < kOctet; ++n)
        values[n] = first + n < images ? load(x, replica, from + n * image_step) : 0.0f;
    }
    Octet octet;
    for (int n = 0; n < kOctet; n += 2) octet.pairs[n / 2] = pair_of(values[n], values[n + 1]);
    *reinterpret_cast<Octet*>(to.of(replica) + i * kOctet) = octet;
  });
}

struct Gather : Reads {
  int images8, depth8;  // images and channels that are read, filled up
  int row;              // terms of a row of the packed weights, of any phase

  // Slices of a phase with so many taps.
  PODIUM_DEVICE_FUNCTION int slices(int taps) const {
    return (taps * depth8 + kTerms - 1) / kTerms;
  }
  // Whether all terms of a slice share a tap, not eight of them.
  bool is_wide() const { return depth % kTerms == 0; }
  std::int64_t weights() const { return std::int64_t{phases()} * outputs * row; }
};

Gather gather_of(const ConvShape& s, bool backward) {
  Gather g{reads_of(s, backward), 0, 0, 0};
  g.images8 = rounded_up(g.images, kOctet);
  g.depth8 = rounded_up(g.depth, kOctet);
  g.row = g.slices(g.taps()) * kTerms;
  return g;
}

// `at(output, channel, tap)` is where a weight lies.
template <typename At>
void pack_weights(const Launch& launch, const Gather& gather, Source w, Halves to, const At& at) {
  launch_flat(launch, gather.weights(), [=] __device__(std::int64_t i, unsigned replica) {
    const Gather& g = gather;
    const int term = static_cast<int>(i % g.row), output = static_cast<int>(i / g.row % g.outputs),
              phase = static_cast<int>(i / g.row / g.outputs);
    const int a = phase / g.across.phases(), b = phase % g.across.phases();
    const int tap = term / g.depth8, channel = term % g.depth8;
    Half half = 0;
    if (tap < g.down.taps(a) * g.across.taps(b) && channel < g.depth) {
      const int r = g.down.first(a) + tap / g.across.taps(b) * g.down.tap_step(),
                s = g.across.first(b) + tap % g.across.taps(b) * g.across.tap_step();
      half = bf16_bits(load(w, replica, at(output, channel, r * g.across.kernel + s)));
    }
    to.of(replica)[i] = half;
  });
}

using Octets = UnitOf<kOctet>;

// kWide: the terms of a slice share a tap, and not eight of them. There is no branch in a copy, so
// that it may go on between products.
template <typename T, bool kWide>
struct GatherSlices {
  static constexpr int kRowStep = T::kThreads / (kTerms / kOctet);
  static constexpr int kLineStep = T::kThreads / T::kLineOctets;
  static constexpr int kShare = kWide ? kTerms : kOctet;  // terms with the same tap
  static_assert(kShare % kLineStep == 0);
  const Gather& g;
  const Half *x, *packed;  // the row that this thread copies first
  int rows;                // that are there, of this thread's
  int taps_down, taps_across, first_down, first_across;
  Octets unit;  // that this thread copies
  // Of the next terms that share a tap: the first channel, the tap, where this thread's line lies.
  int channel = 0, down = 0, across = 0;
  int line_at, channel_step;

  __device__ GatherSlices(const Gather& gather, const Half* source, const Half* weights,
                          int first_output, int a, int b, const Octets& octets)
      : g(gather),
        x(source),
        taps_down(g.down.taps(a)),
        taps_across(g.across.taps(b)),
        unit(octets) {
    first_down = g.down.first_shift(a), first_across = g.across.first_shift(b);
    const int row = first_output + T::thread() / (kTerms / kOctet);
    rows = row < g.outputs ? (g.outputs - 1 - row) / kRowStep + 1 : 0;
    packed = weights + static_cast<std::int64_t>(rows > 0 ? row : 0) * g.row +
             T::thread() % (kTerms / kOctet) * kOctet;
    channel_step = g.down.reads * g.across.reads * g.images8;
    // Nobody reads beyond the last unit.
    line_at = unit.there ? T::thread() / T::kLineOctets * channel_step +
                               pixel_at(first_down, first_across) + unit.n
                         : 0;
  }
  __device__ int pixel_at(int h, int v) const {
    return ((unit.h + h) * g.across.reads + unit.v + v) * g.images8;
  }

  __device__ void copy(typename T::Stage& stage) {
    T::template for_each_octet<T::kM, kTerms / kOctet>([&](int i, int row, int octet) {
      const bool there = i < rows;
      simt::copy16(T::a_at(stage, row, octet), packed + (there ? i * kRowStep * g.row : 0), there);
    });
    packed += kTerms;
    const int first_line = T::thread() / T::kLineOctets, octet = T::thread() % T::kLineOctets;
#pragma unroll
    for (int shared = 0; shared < kTerms; shared += kShare) {
      const bool meets = unit.meets(g, first_down + down * g.down.shift_step(),
                                    first_across + across * g.across.shift_step()) &&
                         (kWide || down < taps_down);
#pragma unroll
      for (int i = 0; i < kShare; i += kLineStep) {
        const bool there = meets && (kWide || channel + i + first_line < g.depth);
        simt::copy16(T::b_at(stage, shared + i + first_line, octet),
                     x + (there ? line_at + i * channel_step : 0), there);
      }
      next_shared();
    }
  }
  __device__ void next_shared() {
    channel += kShare;
    const bool tap_ends = channel == g.depth8;
    across += tap_ends ? 1 : 0;
    const bool row_ends = across == taps_across;
    line_at += tap_ends ? g.across.shift_step() * g.images8 + (kShare - g.depth8) * channel_step
                        : kShare * channel_step;
    line_at += row_ends
                   ? (g.down.shift_step() * g.across.reads - taps_across * g.across.shift_step()) *
                         g.images8
                   : 0;
    channel = tap_ends ? 0 : channel;
    across = row_ends ? 0 : across;
    down += row_ends ? 1 : 0;
  }
};

// How a column's sums are written: output o of image n at pixel p goes to o * output_step +
// p * images + n * image_step.
struct Written {
  std::int64_t output_step, image_step;
  bool two;   // neighbouring images at once
  bool adds;  // to what the floats hold
};

template <typename T, bool kWide>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks)
    gather_bf16_kernel(Gather g, Written written, ConstHalves x, ConstHalves packed, Result y) {
  if constexpr (T::kWarpgroups && !simt::kHasWarpgroups) return simt::stop();
  auto& shared = simt::shared<typename T::Shared>();
  const int output_tiles = (g.outputs + T::kM - 1) / T::kM;
  const int phase = static_cast<int>(blockIdx.y) / output_tiles,
            first_output = static_cast<int>(blockIdx.y) % output_tiles * T::kM;
  const int a = phase / g.across.phases(), b = phase % g.across.phases();
  const int units = g.images8 / kOctet * g.down.outputs(a) * g.across.outputs(b);
  const int first_unit = static_cast<int>(blockIdx.x) * T::kLineOctets;
  if (first_unit >= units) return;
  GatherSlices<T, kWide> slices(
      g, x.of(blockIdx.z),
      packed.of(blockIdx.z) + static_cast<std::int64_t>(phase) * g.outputs * g.row, first_output, a,
      b, Octets(g, a, b, first_unit + T::thread() % T::kLineOctets));
  typename T::Sums sums;
  // use(place, whether there is another beside it, one, other) of the sums that are there.
  const auto for_each_there = [&](const auto& use) {
    T::for_each_two(sums, [&](int column) {
      const Octets unit(g, a, b, first_unit + column / kOctet);
      const int n = unit.n + column % kOctet;
      const bool there = unit.there && n < g.images, other = there && n + 1 < g.images;
      const std::int64_t at = unit.out * g.images + n * written.image_step;
      return [&, there, other, at](int row, float& first, float& second) {
        const int output = first_output + row;
        if (output < g.outputs && there)
          use(at + output * written.output_step, other, first, second);
      };
    });
  };
  T::clear(sums);
  if (written.adds)
    for_each_there([&](std::int64_t place, bool other, float& first, float& second) {
      first = y.floats.of(blockIdx.z)[place];
      if (other) second = y.floats.of(blockIdx.z)[place + written.image_step];
    });
  T::add(shared, slices, g.slices(slices.taps_down * slices.taps_across), sums);
  for_each_there([&](std::int64_t place, bool other, float first, float second) {
    if (written.two) return store_pack<2>(y, blockIdx.z, place, {first, second});
    store(y, blockIdx.z, place, first);
    if (other) store(y, blockIdx.z, place + written.image_step, second);
  });
}

template <typename T, bool kWide>
void launch_gather(const Launch& launch, const Gather& g, const Written& written, ConstHalves x,
                   ConstHalves packed, const Result& y) {
  const std::int64_t units = std::int64_t{g.images8 / kOctet} * g.down.outputs(0) *
                             g.across.outputs(0);  // no phase has more
  simt::launch(gather_bf16_kernel<T, kWide>,
               {.blocks = {blocks_of(units, T::kLineOctets),
                           blocks_of(g.outputs, T::kM) * static_cast<unsigned>(g.phases()),
                           static_cast<unsigned>(launch.replicas)},
                .threads = {T::kThreads, 1, 1},
                .shared_bytes = sizeof(typename T::Shared)},
               launch.stream, g, written, x, packed, y);
}
template <typename T>
void launch_gather(const Launch& launch, const Gather& g, const Written& written, ConstHalves x,
                   ConstHalves packed, const Result& y) {
  with_constant(g.is_wide(), [&](auto wide) {
    launch_gather<T, decltype(wide)::value>(launch, g, written, x, packed, y);
  });
}

// Sums are the same in any tile. Small tiles where large ones would be few.
void multiply(const Launch& launch, const Gather& g, const Written& written, ConstHalves x,
              ConstHalves packed, const Result& y) {
  constexpr std::int64_t kFew = 1 << 20;
  PODIUM_CHECK(
      std::int64_t{g.depth} * g.down.reads * g.across.reads * g.images8 < std::int64_t{1} << 31,
      "a product of BF16 operands of 2^31 elements or more");
  const std::int64_t sums =
      std::int64_t{g.outputs} * g.images8 * g.down.outs * g.across.outs * launch.replicas;
  if (launch.warpgroups && g.outputs > 32) {
    if (g.outputs > 64 && sums < 2 * kFew && g.is_wide())
      return launch_gather<WarpgroupTile<128, 128, true>, true>(launch, g, written, x, packed, y);
    if (g.outputs > 64)
      return launch_gather<WarpgroupTile<128, 256, true>>(launch, g, written, x, packed, y);
    if (sums < kFew)
      return launch_gather<WarpgroupTile<64, 128, true>>(launch, g, written, x, packed, y);
    return launch_gather<WarpgroupTile<64, 256, true>>(launch, g, written, x, packed, y);
  }
  // Of terms that share no tap, these tiles would spill registers on compute capability 10.0.
  if (g.outputs > 64 && sums < 2 * kFew && g.is_wide())
    launch_gather<TensorTile<128, 128, 2, 2, true>, true>(launch, g, written, x, packed, y);
  else if (g.outputs > 64)
    launch_gather<TensorTile<128, 256, 2, 4, true>>(launch, g, written, x, packed, y);
  else if (g.outputs > 32 && sums < kFew)
    launch_gather<TensorTile<64, 128, 1, 4, true>>(launch, g, written, x, packed, y);
  else if (g.outputs > 32)
    launch_gather<TensorTile<64, 256, 1, 4, true>>(launch, g, written, x, packed, y);
  else if (g.outputs > 16)
    launch_gather<TensorTile<32, 256, 1, 4, true>>(launch, g, written, x, packed, y);
  else
    launch_gather<TensorTile<16, 256, 1, 4, true>>(launch, g, written, x, packed, y);
}

// The floats of the packed weights.
std::int64_t packed_floats(const Gather& g) { return rounded_up(g.weights(), std::int64_t{8}) / 2; }

// Replicas that share an operand share what is made of it. Returns how that is launched.
Launch launch_of(const Launch& launch, const Source& from, Halves& to) {
  Launch once = launch;
  if ((from.has_halves() ? from.halves.stride : from.floats.stride) == 0)
    once.replicas = 1, to.stride = 0;
  return once;
}
template <typename At>
Halves packed_in(const Launch& launch, const Gather& g, Source w, Halves packed, const At& at) {
  const Launch packing = launch_of(launch, w, packed);
  pack_weights(packing, g, w, packed, at);
  return packed;
}

// Whether two floats can be written at once. Halves always can: they begin where 16 bytes do.
bool writes_two(const Floats& y) {
  return reinterpret_cast<std::uintptr_t>(y.first) % 8 == 0 && y.stride % 2 == 0;
}

void gather(const Launch& launch, const ConvShape& s, bool backward, ConstHalves x, ConstFloats w,
            const Result& y, Floats scratch) {
  const Gather g = gather_of(s, backward);
  const std::int64_t taps = s.kernel_height * s.kernel_width, in_channels = s.in_channels;
  const Halves packed = packed_in(launch, g, w, halves_in(scratch),
                                  [=] PODIUM_DEVICE_FUNCTION(int output, int channel, int tap) {
                                    const std::int64_t in = backward ? output : channel,
                                                       out = backward ? channel : output;
                                    return (out * in_channels + in) * taps + tap;
                                  });
  multiply(launch, g,
           {std::int64_t{g.down.outs} * g.across.outs * g.images, 1,
            g.images % 2 == 0 && writes_two(y.floats), false},
           x, packed, y);
}

// The product y = a b as a convolution of one pixel: b's rows are channels, its columns images.
ConvShape as_convolution(const MatmulShape& s) {
  return {.images = s.columns,
          .in_channels = s.depth,
          .in_height = 1,
          .in_width = 1,
          .out_channels = s.rows,
          .out_height = 1,
          .out_width = 1,
          .kernel_height = 1,
          .kernel_width = 1};
}

}  // namespace

std::int64_t rounded_bytes(std::int64_t features, std::int64_t images) {
  return features * rounded_up(images, std::int64_t{kOctet}) * 2;
}
void round_images(const Launch& launch, std::int64_t features, std::int64_t images, ConstFloats x,
                  Halves to) {
  round_strided(launch, features, images, images, 1, x, to);
}

std::int64_t conv2d_bf16_scratch(const ConvShape& s) { return packed_floats(gather_of(s, false)); }
std::int64_t conv2d_bf16_grad_input_scratch(const ConvShape& s) {
  return packed_floats(gather_of(s, true));
}
std::int64_t matmul_bf16_scratch(const MatmulShape& s) {
  const auto scratch = [](const MatmulShape& shape) {
    return packed_floats(gather_of(as_convolution(shape), false)) +
           rounded_bytes(shape.depth, shape.columns) / 4;
  };
  return std::max(scratch(s), scratch(transposed(s)));
}

void conv2d_bf16(const Launch& launch, const ConvShape& s, ConstHalves x, ConstFloats w,
                 const Result& y, Floats scratch) {
  gather(launch, s, false, x, w, y, scratch);
}
void conv2d_bf16_grad_input(const Launch& launch, const ConvShape& s, ConstHalves dy, ConstFloats w,
                            const Result& dx, Floats scratch) {
  gather(launch, s, true, dy, w, dx, scratch);
}

void matmul_bf16(const Launch& launch, const MatmulShape& s, Source a, Source b, const Result& y,
                 Floats scratch) {
  // The transposed product, if that has its columns side by side.
  if (s.y.row == 1 && s.y.column != 1) return matmul_bf16(launch, transposed(s), b, a, y, scratch);
  const Gather g = gather_of(as_convolution(s), false);
  // Halves that lie as the kernel reads them are read where they are.
  const auto lies = [](const Source& x, const MatrixLayout& layout, std::int64_t row) {
    return x.has_halves() && layout.column == 1 && layout.row == row;
  };
  const MatrixLayout layout = s.a;
  const ConstHalves packed =
      lies(a, s.a, g.row) ? a.halves
                          : packed_in(launch, g, a, halves_in(scratch),
                                      [=] PODIUM_DEVICE_FUNCTION(int output, int channel, int) {
                                        return output * layout.row + channel * layout.column;
                                      });
  ConstHalves source = b.halves;
  if (!lies(b, s.b, g.images8)) {
    Halves made = halves_in(scratch.from(packed_floats(g)));
    const Launch rounding = launch_of(launch, b, made);
    round_strided(rounding, s.depth, s.columns, s.b.row, s.b.column, b, made);
    source = made;
  }
  multiply(
      launch, g,
      {s.y.row, s.y.column,
       s.y.column == 1 && s.y.row % 2 == 0 && s.columns % 2 == 0 && writes_two(y.floats), s.adds},
      source, packed, y);
}

}  // namespace podium::PODIUM_CUDA_SPACE
