// The gradient to the weights is a product of filters by columns, a column being a channel and a
// tap. Its terms are the pixels and images of the output, images filled up to multiples of 8. Both
// operands have a row's terms side by side: dy[filter][pixel][image], and for a column what its tap
// meets of x[channel][pixel][image].
#include <algorithm>
#include <cstdint>

#include "backend/cuda/kernels/bf16.h"
#include "backend/cuda/kernels/bf16_tile.h"
#include "backend/cuda/kernels/conv/weight_layer.h"
#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/tile.h"
#include "base/error.h"
#include "base/numerics/tensor_core.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

constexpr int kSliceOctets = kTerms / kOctet;

struct Layer : WeightLayer {
  int octets;  // of a pixel's images

  PODIUM_DEVICE_FUNCTION int columns() const { return taps() * in_channels; }
  PODIUM_DEVICE_FUNCTION int row() const { return pixels() * octets; }  // octets of a row
  PODIUM_DEVICE_FUNCTION int slices() const { return (row() + kSliceOctets - 1) / kSliceOctets; }
};

Layer layer_of(const ConvShape& s) {
  const WeightLayer layer = weight_layer_of(s);
  return {layer, (layer.images + kOctet - 1) / kOctet};
}

// kMany: a pixel has a slice of images or more. There is no branch in a copy then, so that it may
// go on between products.
template <typename T, bool kMany>
struct WeightSlices {
  static constexpr int kStep = T::kThreads / kSliceOctets;  // between the lines of a thread
  static constexpr int kColumns = (T::kN + kStep - 1) / kStep;
  static constexpr int kNowhere = -32768;  // a shift to above any image
  const Layer& s;
  const Half *dy, *x;
  int dy_at;                // of the row that this thread copies first, the next octet
  int x_at;                 // of channel 0 with tap shift 0
  int rows;                 // that are there, of this thread's
  int left;                 // octets to the end of a row
  int octet, down, across;  // the next one's place: of the images, the pixel
  // The columns that this thread copies: where they lie beyond x, and what their taps shift, down
  // in the upper 16 bits and across in the lower ones, which saves registers.
  int column_at[kColumns], shifts[kColumns];

  __device__ WeightSlices(const Layer& layer, const Half* gradients, const Half* images,
                          int first_filter, int first_column, int first_slice)
      : s(layer), dy(gradients), x(images) {
    const int at = first_slice * kSliceOctets + T::thread() % kSliceOctets,
              row = first_filter + T::thread() / kSliceOctets;
    rows = row < s.out_channels ? (s.out_channels - 1 - row) / kStep + 1 : 0;
    dy_at = ((rows > 0 ? row : 0) * s.row() + at) * kOctet;
    left = s.row() - at;
    octet = at % s.octets;
    down = at / s.octets / s.out_width;
    across = at / s.octets % s.out_width;
    x_at = ((down * s.stride_height * s.in_width + across * s.stride_width) * s.octets + octet) *
           kOctet;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const int column = first_column + i * kStep + T::thread() / kSliceOctets;
      const int channel = column / s.taps(), tap = column % s.taps();
      const int r = tap / s.kernel_width - s.pad_top, t = tap % s.kernel_width - s.pad_left;
      column_at[i] = (channel * s.in_pixels() + r * s.in_width + t) * s.octets * kOctet;
      // Beyond the last column, nothing is met.
      shifts[i] = (channel < s.in_channels ? r : kNowhere) * 65536 + (t & 65535);
    }
  }

  __device__ void copy(typename T::Stage& stage) {
    T::template for_each_octet<T::kM, kSliceOctets>([&](int i, int row, int place) {
      const bool there = i < rows && left > 0;
      simt::copy16(T::a_at(stage, row, place),
                   dy + (there ? dy_at + i * kStep * s.row() * kOctet : 0), there);
    });
    const int h0 = down * s.stride_height, v0 = across * s.stride_width;
    T::template for_each_octet<T::kN, kSliceOctets>([&](int i, int row, int place) {
      const bool there =
          left > 0 &&
          static_cast<unsigned>(h0 + (shifts[i] >> 16)) < static_cast<unsigned>(s.in_height) &&
          static_cast<unsigned>(v0 + static_cast<std::int16_t>(shifts[i])) <
              static_cast<unsigned>(s.in_width);
      simt::copy16(T::b_at(stage, row, place), x + (there ? x_at + column_at[i] : 0), there);
    });
    dy_at += kSliceOctets * kOctet;
    left -= kSliceOctets;
    octet += kSliceOctets;
    x_at += kSliceOctets * kOctet;
    if constexpr (kMany) {
      next_pixel();
    } else {
      while (octet >= s.octets) next_pixel();
    }
  }
  // Goes on to the next pixel after the last image of this.
  __device__ void next_pixel() {
    const bool ends = octet >= s.octets;
    octet -= ends ? s.octets : 0;
    across += ends ? 1 : 0;
    x_at += ends ? (s.stride_width - 1) * s.octets * kOctet : 0;
    const bool row_ends = across == s.out_width;
    across = row_ends ? 0 : across;
    down += row_ends ? 1 : 0;
    x_at += row_ends
                ? (s.stride_height * s.in_width - s.out_width * s.stride_width) * s.octets * kOctet
                : 0;
  }
};

// Blocks x: tiles of filters by columns; y: parts of so many slices. Result
// [part][filter][column].
template <typename T, bool kMany>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks)
    weight_bf16_kernel(Layer s, int part_slices, ConstHalves dy, ConstHalves x, Floats result) {
  if constexpr (T::kWarpgroups && !simt::kHasWarpgroups) return simt::stop();
  auto& shared = simt::shared<typename T::Shared>();
  const int tiles_across = (s.columns() + T::kN - 1) / T::kN;
  const int filter = static_cast<int>(blockIdx.x) / tiles_across * T::kM,
            column = static_cast<int>(blockIdx.x) % tiles_across * T::kN;
  const int part = static_cast<int>(blockIdx.y), first = part * part_slices,
            left = s.slices() - first;
  WeightSlices<T, kMany> slices(s, dy.of(blockIdx.z), x.of(blockIdx.z), filter, column, first);
  typename T::Sums sums;
  T::clear(sums);
  T::add(shared, slices, left < part_slices ? left : part_slices, sums);
  float* const to = result.of(blockIdx.z) + part * s.weights();
  T::for_each_two(sums, [&](int at) {
    const int q = column + at;
    return [&, q](int row, float one, float other) {
      const std::int64_t k = filter + row;
      if (k >= s.out_channels || q >= s.columns()) return;
      float* const p = to + k * s.columns() + q;
      p[0] = one;
      if (q + 1 < s.columns()) p[1] = other;
    };
  });
}

// Blocks of one replica; where tiles are fewer, blocks share the slices of one.
constexpr std::int64_t kBusyBlocks = 96;
constexpr std::int64_t kLeastSlices = 16;  // of a part

struct Parts {
  int count, slices;
};
// Of a part, where tiles are these.
template <typename T>
std::int64_t slices_in(const Layer& s, const T&) {
  const std::int64_t tiles =
      std::int64_t{blocks_of(s.out_channels, T::kM)} * blocks_of(s.columns(), T::kN);
  const std::int64_t most = (s.slices() + kLeastSlices - 1) / kLeastSlices,
                     wanted = std::clamp<std::int64_t>(kBusyBlocks / tiles, 1, most);
  return (s.slices() + wanted - 1) / wanted;
}

// Calls f(tile, parts). Sums depend on the parts, which follow from the shape alone, and not on the
// tile.
template <typename F>
void with_weight_tile(const Layer& s, bool warpgroups, const F& f) {
  const auto slices = static_cast<int>(bf16_part_runs(s.out_channels, s.columns(), s.slices()));
  const Parts parts{(s.slices() + slices - 1) / slices, slices};
  const auto with = [&](auto tile) { f(tile, parts); };
  constexpr TensorTile<128, 256, 2, 4, false> kLargest;
  const bool large = s.out_channels > 64 && slices_in(s, kLargest) >= bf16_many_slices();
  if (warpgroups && large)
    with(WarpgroupTile<128, 256, false>());
  else if (warpgroups && s.out_channels > 64)
    with(WarpgroupTile<128, 128, false>());
  else if (warpgroups && s.out_channels > 32 && s.columns() > 32)
    with(WarpgroupTile<64, 128, false>());
  else if (large)
    with(kLargest);
  else if (s.out_channels > 64)
    with(TensorTile<128, 128, 2, 2, false>());
  else if (s.columns() <= 32)
    with(TensorTile<64, 32, 4, 1, false>());
  else if (s.out_channels > 32)
    with(TensorTile<64, 128, 1, 4, false>());
  else if (s.out_channels > 16)
    with(TensorTile<32, 128, 1, 4, false>());
  else
    with(TensorTile<16, 128, 1, 4, false>());
}

}  // namespace

std::int64_t conv2d_bf16_grad_weight_scratch(const ConvShape& shape) {
  const Layer s = layer_of(shape);
  std::int64_t floats = 0;
  with_weight_tile(s, false, [&](auto, const Parts& parts) {
    floats = parts.count == 1 ? 0 : parts.count * s.weights();
  });
  return floats;
}

void conv2d_bf16_grad_weight(const Launch& launch, const ConvShape& shape, ConstHalves x,
                             ConstHalves dy, Floats dw, Floats scratch) {
  const Layer s = layer_of(shape);
  constexpr std::int64_t kMostElements = std::int64_t{1} << 31;  // that an int can number
  PODIUM_CHECK(
      s.in_height < 32768 && s.in_width < 32768 &&
          std::int64_t{s.in_channels} * s.in_pixels() * s.octets * kOctet < kMostElements &&
          std::int64_t{s.out_channels} * s.row() * kOctet < kMostElements,
      "a convolution of BF16 operands of 2^31 elements or more, or of images of 2^15 pixels a "
      "side");
  int count = 0;
  with_weight_tile(s, launch.warpgroups, [&](auto tile, const Parts& parts) {
    using T = decltype(tile);
    count = parts.count;
    with_constant(s.octets >= kSliceOctets, [&](auto many) {
      simt::launch(
          weight_bf16_kernel<T, decltype(many)::value>,
          {.blocks = {blocks_of(s.out_channels, T::kM) * blocks_of(s.columns(), T::kN),
                      static_cast<unsigned>(parts.count), static_cast<unsigned>(launch.replicas)},
           .threads = {T::kThreads, 1, 1},
           .shared_bytes = sizeof(typename T::Shared)},
          launch.stream, s, parts.slices, dy, x, parts.count == 1 ? dw : scratch);
    });
  });
  if (count == 1) return;
  const std::int64_t weights = s.weights();
  launch_flat(launch, weights, [=] __device__(std::int64_t i, unsigned replica) {
    const float* const from = scratch.of(replica) + i;
    float total = from[0];
    for (int part = 1; part < count; ++part) total = total + from[part * weights];
    dw.of(replica)[i] = total;
  });
}

}  // namespace podium::PODIUM_CUDA_SPACE
