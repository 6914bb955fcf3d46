// Each operation first makes pairs of BF16 numbers of its operands, and then multiplies tiles of
// them. What is gathered lies as x[channel / 2][pixel][image], a pair of channels, and its weights
// as packed[phase][term / 2][output]; the terms are (tap, channel), channels filled up to multiples
// of 16. Gradients to the weights have pairs of images: x[channel][pixel][image / 2].
#include <algorithm>
#include <cstdint>
#include <utility>

#include "backend/cuda/kernels/bf16.h"
#include "backend/cuda/kernels/bf16_tile.h"
#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/gather.h"
#include "backend/cuda/kernels/tile.h"
#include "backend/cuda/kernels/weight_layer.h"
#include "base/bf16.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

using Pairs = Each<Pair>;
using ConstPairs = Each<const Pair>;

PODIUM_DEVICE_FUNCTION inline Pair pair_of(float first, float second) {
  return bf16_bits(first) | static_cast<Pair>(bf16_bits(second)) << 16;
}
constexpr int rounded_up(int count, int multiple) {
  return (count + multiple - 1) / multiple * multiple;
}
constexpr std::int64_t rounded_up(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}
Pairs pairs_in(Floats scratch) { return {reinterpret_cast<Pair*>(scratch.first), scratch.stride}; }

// --- what is gathered ---

struct Gather : Reads {
  int images4;    // images, a multiple of 4
  int chunks;     // of 16 channels
  int row;        // pairs between terms of the packed weights
  int most_taps;  // of a phase

  PODIUM_DEVICE_FUNCTION int halves(int taps) const { return taps * chunks; }
  // Rows of pairs of a phase's weights, whole slices.
  PODIUM_DEVICE_FUNCTION int rows(int taps) const { return (halves(taps) + 1) / 2 * kPairs; }
  PODIUM_DEVICE_FUNCTION int pairs() const { return (depth + 1) / 2; }
  std::int64_t read_pixels() const { return std::int64_t{down.reads} * across.reads; }
  std::int64_t source() const { return pairs() * read_pixels() * images4; }
  std::int64_t weights() const { return std::int64_t{phases()} * rows(most_taps) * row; }
};

Gather gather_of(const ConvShape& s, bool backward) {
  Gather g{reads_of(s, backward), 0, 0, 0, 0};
  g.most_taps = g.taps();
  g.images4 = rounded_up(g.images, 4);
  g.chunks = (g.depth + kHalf - 1) / kHalf;
  g.row = rounded_up(g.outputs, 4);
  return g;
}

// Pairs of channels; +0 for images and channels beyond the last.
void pack_source(const Launch& launch, const Gather& gather, std::int64_t channel_step,
                 std::int64_t image_step, ConstFloats x, Pairs to) {
  const std::int64_t pixels = gather.read_pixels();
  launch_flat(launch, gather.source(), [=] __device__(std::int64_t i, unsigned replica) {
    const Gather& g = gather;
    const std::int64_t n = i % g.images4, pixel = i / g.images4 % pixels,
                       channel = i / g.images4 / pixels * 2;
    Pair pair = 0;
    if (n < g.images) {
      const float* const from =
          x.of(replica) + channel * channel_step + pixel * g.images + n * image_step;
      pair = pair_of(from[0], channel + 1 < g.depth ? from[channel_step] : 0.0f);
    }
    to.of(replica)[i] = pair;
  });
}

// `at(output, channel, tap)` is where a weight lies.
template <typename At>
void pack_weights(const Launch& launch, const Gather& gather, ConstFloats w, Pairs to,
                  const At& at) {
  const int rows = gather.rows(gather.most_taps);
  launch_flat(launch, gather.weights(), [=] __device__(std::int64_t i, unsigned replica) {
    const Gather& g = gather;
    const int output = static_cast<int>(i % g.row), line = static_cast<int>(i / g.row % rows),
              phase = static_cast<int>(i / g.row / rows);
    const int a = phase / g.across.phases(), b = phase % g.across.phases();
    const int half = line / (kHalf / 2), tap = half / g.chunks,
              channel = half % g.chunks * kHalf + line % (kHalf / 2) * 2;
    Pair pair = 0;
    if (output < g.outputs && tap < g.down.taps(a) * g.across.taps(b) && channel < g.depth) {
      const int r = g.down.first(a) + tap / g.across.taps(b) * g.down.tap_step(),
                s = g.across.first(b) + tap % g.across.taps(b) * g.across.tap_step();
      const int number = r * g.across.kernel + s;
      const float* const from = w.of(replica);
      pair = pair_of(from[at(output, channel, number)],
                     channel + 1 < g.depth ? from[at(output, channel + 1, number)] : 0.0f);
    }
    to.of(replica)[i] = pair;
  });
}

// The slices of a tile: halves of a slice, one after the other, each a tap and 16 channels.
template <typename T>
struct GatherSlices {
  const Gather& g;
  const Pair *x, *packed;
  int first_output, taps_down, taps_across, first_down, first_across;
  Unit unit;  // that this thread fetches
  int slices, slice = -1;
  // Of the first half of the next slice.
  int down = 0, across = 0, chunk = 0;

  __device__ bool next() { return ++slice < slices; }

  __device__ void step() {
    if (++chunk < g.chunks) return;
    chunk = 0;
    if (++across == taps_across) across = 0, ++down;
  }
  __device__ Pair4 columns(int in_half) const {
    const int pair = chunk * (kHalf / 2) + in_half, h = first_down + down * g.down.shift_step(),
              v = first_across + across * g.across.shift_step();
    if (down >= taps_down || pair >= g.pairs() || !unit.meets(g, h, v)) return {};
    return load_pairs(
        x +
        ((static_cast<std::int64_t>(pair) * g.down.reads + unit.h + h) * g.across.reads + unit.v +
         v) *
            g.images4 +
        unit.n);
  }
  template <typename A, typename B>
  __device__ void fetch(A& a, B& b) {
    a.fetch([&](int row, int pair) -> Pair4 {
      if (first_output + row >= g.row) return {};
      return load_pairs(packed + (static_cast<std::int64_t>(slice) * kPairs + pair) * g.row +
                        first_output + row);
    });
    // A thread's loads are of one unit, the first of the first half, the second of the second.
    static_assert(B::kLoads == 2 && T::kThreads == 2 * T::kN);
    const int in_half = T::thread() / (T::kN / 4);
    b.values[0] = columns(in_half);
    step();
    b.values[1] = columns(in_half);
    step();
  }
};

// How a column's sums are written: output o of image n at pixel p goes to o * output_step +
// p * images + n * image_step.
struct Written {
  std::int64_t output_step, image_step;
  bool two;  // neighbouring images at once
};

template <typename T>
__global__ void __launch_bounds__(T::kThreads)
    gather_bf16_kernel(Gather g, Written written, ConstPairs x, ConstPairs packed, Floats y) {
  auto& shared = simt::shared<typename T::Shared>();
  const int output_tiles = (g.outputs + T::kM - 1) / T::kM;
  const int phase = static_cast<int>(blockIdx.y) / output_tiles,
            first_output = static_cast<int>(blockIdx.y) % output_tiles * T::kM;
  const int a = phase / g.across.phases(), b = phase % g.across.phases();
  const int units = (g.images + 3) / 4 * g.down.outputs(a) * g.across.outputs(b);
  constexpr int kUnits = T::kN / 4;
  const int first_unit = static_cast<int>(blockIdx.x) * kUnits;
  if (first_unit >= units) return;
  const int taps_down = g.down.taps(a), taps_across = g.across.taps(b);
  GatherSlices<T> slices{
      g,
      x.of(blockIdx.z),
      packed.of(blockIdx.z) + static_cast<std::int64_t>(phase) * g.rows(g.most_taps) * g.row,
      first_output,
      taps_down,
      taps_across,
      g.down.first_shift(a),
      g.across.first_shift(b),
      Unit(g, a, b, first_unit + T::thread() % kUnits),
      (g.halves(taps_down * taps_across) + 1) / 2};
  typename T::Sums sums;
  sum_slices<T>(shared, slices, sums);
  float* const to = y.of(blockIdx.z);
  T::for_each_two(sums, [&](int row, int column, float first, float second) {
    const int output = first_output + row;
    const Unit unit(g, a, b, first_unit + column / 4);
    const int n = unit.n + column % 4;
    if (output >= g.outputs || !unit.there || n >= g.images) return;
    float* const p =
        to + output * written.output_step + unit.out * g.images + n * written.image_step;
    if (written.two) {
      *reinterpret_cast<float2*>(p) = {first, second};
      return;
    }
    p[0] = first;
    if (n + 1 < g.images) p[written.image_step] = second;
  });
}

template <typename T>
void launch_gather(const Launch& launch, const Gather& g, const Written& written, ConstPairs x,
                   ConstPairs packed, Floats y) {
  const std::int64_t units = std::int64_t{(g.images + 3) / 4} * g.down.outputs(0) *
                             g.across.outputs(0);  // no phase has more
  simt::launch(gather_bf16_kernel<T>,
               {.blocks = {blocks_of(units * 4, T::kN),
                           blocks_of(g.outputs, T::kM) * static_cast<unsigned>(g.phases()),
                           static_cast<unsigned>(launch.replicas)},
                .threads = {T::kThreads, 1, 1},
                .shared_bytes = sizeof(typename T::Shared)},
               launch.stream, g, written, x, packed, y);
}

void multiply(const Launch& launch, const Gather& g, const Written& written, ConstPairs x,
              ConstPairs packed, Floats y) {
  if (g.outputs > 64)
    launch_gather<TensorTile<128, 128, 2, 4, true>>(launch, g, written, x, packed, y);
  else if (g.outputs > 16)
    launch_gather<TensorTile<64, 128, 2, 4, true>>(launch, g, written, x, packed, y);
  else
    launch_gather<TensorTile<16, 128, 1, 8, true>>(launch, g, written, x, packed, y);
}

std::int64_t gather_scratch(const Gather& g) {
  return rounded_up(g.source(), std::int64_t{4}) + g.weights();
}

void gather(const Launch& launch, const ConvShape& s, bool backward, ConstFloats x, ConstFloats w,
            Floats y, Floats scratch) {
  const Gather g = gather_of(s, backward);
  const Pairs source = pairs_in(scratch);
  Pairs packed = source.from(rounded_up(g.source(), std::int64_t{4}));
  pack_source(launch, g, g.read_pixels() * g.images, 1, x, source);
  // Replicas that share weights share what is made of them.
  Launch packing = launch;
  if (w.stride == 0) packing.replicas = 1, packed.stride = 0;
  const std::int64_t taps = s.kernel_height * s.kernel_width, in_channels = s.in_channels;
  pack_weights(packing, g, w, packed, [=] PODIUM_DEVICE_FUNCTION(int output, int channel, int tap) {
    const std::int64_t in = backward ? output : channel, out = backward ? channel : output;
    return (out * in_channels + in) * taps + tap;
  });
  const bool two =
      g.images % 2 == 0 && reinterpret_cast<std::uintptr_t>(y.first) % 8 == 0 && y.stride % 2 == 0;
  multiply(launch, g, {std::int64_t{g.down.outs} * g.across.outs * g.images, 1, two}, source,
           packed, y);
}

// --- gradients to the weights ---

struct Layer : WeightLayer {
  int chunks;  // of 16 images

  PODIUM_DEVICE_FUNCTION int slices() const { return (pixels() * chunks + 1) / 2; }
  // Pairs of a pixel of a channel.
  PODIUM_DEVICE_FUNCTION int pairs() const { return chunks * (kHalf / 2); }
};

Layer layer_of(const ConvShape& s) {
  const WeightLayer layer = weight_layer_of(s);
  return {layer, (layer.images + kHalf - 1) / kHalf};
}

// Pairs of images of `count` pixels of all channels; +0 beyond the last image.
void pack_images(const Launch& launch, const Layer& layer, std::int64_t count, ConstFloats x,
                 Pairs to) {
  launch_flat(launch, count * layer.pairs(), [=] __device__(std::int64_t i, unsigned replica) {
    const Layer& s = layer;
    const std::int64_t pixel = i / s.pairs(), n = i % s.pairs() * 2;
    const float* const from = x.of(replica) + pixel * s.images + n;
    to.of(replica)[i] = n >= s.images ? 0 : pair_of(from[0], n + 1 < s.images ? from[1] : 0.0f);
  });
}

template <typename T>
struct WeightSlices {
  const Layer& s;
  const Pair *dy, *x;
  int filter, channel;  // the tile's first
  int r, t;             // the tap
  int slice, last;

  __device__ bool next() { return ++slice < last; }
  template <typename A, typename B>
  __device__ void fetch(A& a, B& b) const {
    // A half of a slice is a pixel and 16 images.
    const auto place = [&](int pair, int& pixel, int& first) {
      const int half = slice * 2 + pair / (kHalf / 2);
      pixel = half / s.chunks;
      first = half % s.chunks * (kHalf / 2) + pair % (kHalf / 2);
      return pixel < s.pixels();
    };
    int pixel = 0, first = 0;
    a.fetch([&](int row, int pair) -> Pair4 {
      const std::int64_t k = filter + row;
      if (k >= s.out_channels || !place(pair, pixel, first)) return {};
      return load_pairs(dy + (k * s.pixels() + pixel) * s.pairs() + first);
    });
    b.fetch([&](int row, int pair) -> Pair4 {
      const std::int64_t c = channel + row;
      if (c >= s.in_channels || !place(pair, pixel, first)) return {};
      const int h = pixel / s.out_width * s.stride_height + r - s.pad_top,
                v = pixel % s.out_width * s.stride_width + t - s.pad_left;
      if (h < 0 || h >= s.in_height || v < 0 || v >= s.in_width) return {};
      return load_pairs(x + ((c * s.in_height + h) * s.in_width + v) * s.pairs() + first);
    });
  }
};

// Blocks x: tiles of filters by channels; y: taps, and of each parts of so many slices. Result
// [part][filter][channel][tap].
template <typename T>
__global__ void __launch_bounds__(T::kThreads)
    weight_bf16_kernel(Layer s, int part_slices, ConstPairs dy, ConstPairs x, Floats result) {
  auto& shared = simt::shared<typename T::Shared>();
  const int across = (s.in_channels + T::kN - 1) / T::kN;
  const int filter = static_cast<int>(blockIdx.x) / across * T::kM,
            channel = static_cast<int>(blockIdx.x) % across * T::kN;
  const int tap = static_cast<int>(blockIdx.y) % s.taps(),
            part = static_cast<int>(blockIdx.y) / s.taps();
  const int first = part * part_slices, all = s.slices();
  WeightSlices<T> slices{s,
                         dy.of(blockIdx.z),
                         x.of(blockIdx.z),
                         filter,
                         channel,
                         tap / s.kernel_width,
                         tap % s.kernel_width,
                         first - 1,
                         first + part_slices < all ? first + part_slices : all};
  typename T::Sums sums;
  sum_slices<T>(shared, slices, sums);
  float* const to = result.of(blockIdx.z) + part * s.weights() + tap;
  T::for_each_two(sums, [&](int row, int column, float one, float two) {
    const std::int64_t k = filter + row, c = channel + column;
    if (k >= s.out_channels || c >= s.in_channels) return;
    float* const p = to + (k * s.in_channels + c) * s.taps();
    p[0] = one;
    if (c + 1 < s.in_channels) p[s.taps()] = two;
  });
}

template <typename F>
void with_weight_tile(const Layer& s, const F& f) {
  if (s.out_channels > 64 && s.in_channels > 64)
    f(TensorTile<128, 128, 2, 4, false>());
  else if (s.in_channels > 16)
    f(TensorTile<64, 64, 2, 2, false>());
  else
    f(TensorTile<64, 16, 4, 1, false>());
}

// Blocks that keep a GPU busy; where tiles are fewer, blocks share the slices of one. A function of
// the shape alone, since sums depend on it.
constexpr std::int64_t kBusyBlocks = 512;
constexpr std::int64_t kLeastSlices = 8;  // of a part

struct Parts {
  int count, slices;
};
Parts parts_of(const Layer& s) {
  std::int64_t tiles = 0;
  with_weight_tile(s, [&](auto tile) {
    using T = decltype(tile);
    tiles = std::int64_t{(s.out_channels + T::kM - 1) / T::kM} *
            ((s.in_channels + T::kN - 1) / T::kN) * s.taps();
  });
  const std::int64_t most = (s.slices() + kLeastSlices - 1) / kLeastSlices,
                     wanted = std::clamp<std::int64_t>(kBusyBlocks / tiles, 1, most);
  const auto slices = static_cast<int>((s.slices() + wanted - 1) / wanted);
  return {(s.slices() + slices - 1) / slices, slices};
}

std::int64_t gradient_pairs(const Layer& s) {
  return rounded_up(std::int64_t{s.out_channels} * s.pixels() * s.pairs(), std::int64_t{4});
}
std::int64_t image_pairs(const Layer& s) {
  return rounded_up(std::int64_t{s.in_channels} * s.in_pixels() * s.pairs(), std::int64_t{4});
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

std::int64_t conv2d_bf16_scratch(const ConvShape& s) { return gather_scratch(gather_of(s, false)); }
std::int64_t conv2d_bf16_grad_input_scratch(const ConvShape& s) {
  return gather_scratch(gather_of(s, true));
}
std::int64_t conv2d_bf16_grad_weight_scratch(const ConvShape& shape) {
  const Layer s = layer_of(shape);
  const Parts parts = parts_of(s);
  return gradient_pairs(s) + image_pairs(s) + (parts.count > 1 ? parts.count * s.weights() : 0);
}
std::int64_t matmul_bf16_scratch(const MatmulShape& s) {
  const auto scratch = [](const MatmulShape& shape) {
    return gather_scratch(gather_of(as_convolution(shape), false));
  };
  return std::max(scratch(s), scratch(transposed(s)));
}

void conv2d_bf16(const Launch& launch, const ConvShape& s, ConstFloats x, ConstFloats w, Floats y,
                 Floats scratch) {
  gather(launch, s, false, x, w, y, scratch);
}
void conv2d_bf16_grad_input(const Launch& launch, const ConvShape& s, ConstFloats dy, ConstFloats w,
                            Floats dx, Floats scratch) {
  gather(launch, s, true, dy, w, dx, scratch);
}

void conv2d_bf16_grad_weight(const Launch& launch, const ConvShape& shape, ConstFloats x,
                             ConstFloats dy, Floats dw, Floats scratch) {
  const Layer s = layer_of(shape);
  const Parts parts = parts_of(s);
  const Pairs gradients = pairs_in(scratch), images = gradients.from(gradient_pairs(s));
  const Floats sums = scratch.from(gradient_pairs(s) + image_pairs(s));
  pack_images(launch, s, std::int64_t{s.out_channels} * s.pixels(), dy, gradients);
  pack_images(launch, s, std::int64_t{s.in_channels} * s.in_pixels(), x, images);
  with_weight_tile(s, [&](auto tile) {
    using T = decltype(tile);
    simt::launch(weight_bf16_kernel<T>,
                 {.blocks = {blocks_of(s.out_channels, T::kM) * blocks_of(s.in_channels, T::kN),
                             static_cast<unsigned>(s.taps() * parts.count),
                             static_cast<unsigned>(launch.replicas)},
                  .threads = {T::kThreads, 1, 1},
                  .shared_bytes = sizeof(typename T::Shared)},
                 launch.stream, s, parts.slices, gradients, images, parts.count > 1 ? sums : dw);
  });
  if (parts.count == 1) return;
  const std::int64_t weights = s.weights();
  launch_flat(launch, weights, [=] __device__(std::int64_t i, unsigned replica) {
    const float* const from = sums.of(replica) + i;
    float total = from[0];
    for (int part = 1; part < parts.count; ++part) total = total + from[part * weights];
    dw.of(replica)[i] = total;
  });
}

void matmul_bf16(const Launch& launch, const MatmulShape& s, ConstFloats a, ConstFloats b, Floats y,
                 Floats scratch) {
  // The transposed product, if that has its columns side by side.
  if (s.y.row == 1 && s.y.column != 1) return matmul_bf16(launch, transposed(s), b, a, y, scratch);
  const Gather g = gather_of(as_convolution(s), false);
  const Pairs source = pairs_in(scratch);
  Pairs packed = source.from(rounded_up(g.source(), std::int64_t{4}));
  pack_source(launch, g, s.b.row, s.b.column, b, source);
  Launch packing = launch;
  if (a.stride == 0) packing.replicas = 1, packed.stride = 0;
  const MatrixLayout layout = s.a;
  pack_weights(packing, g, a, packed, [=] PODIUM_DEVICE_FUNCTION(int output, int channel, int) {
    return output * layout.row + channel * layout.column;
  });
  const bool two = s.y.column == 1 && s.y.row % 2 == 0 && s.columns % 2 == 0 &&
                   reinterpret_cast<std::uintptr_t>(y.first) % 8 == 0 && y.stride % 2 == 0;
  multiply(launch, g, {s.y.row, s.y.column, two}, source, packed, y);
}

}  // namespace podium::PODIUM_CUDA_SPACE
