// conv2d_grad_weight. Wide layers: a product of dy by x at each tap, of which the columns (n / 16,
// p, q, n mod 16) are the terms. Other layers: a thread makes the chains of one image for a few
// filters and taps; then the image sum.
#include <algorithm>

#include "backend/cuda/kernels/conv/conv.h"
#include "backend/cuda/kernels/conv/weight_layer.h"
#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/sums.h"
#include "backend/cuda/kernels/tile.h"
#include "backend/cuda/kernels/tree_total.h"
#include "ops/ops.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

// Blocks that keep a GPU busy; where tiles are fewer, blocks share the runs of one.
constexpr std::int64_t kBusyBlocks = 512;
constexpr int kRunSlices = 16;  // runs of 256 columns

// Of one convolution.
struct Layer : WeightLayer {
  // Of columns, each of 16 images of one pixel.
  PODIUM_DEVICE_FUNCTION int slices() const { return (images + kSlice - 1) / kSlice * pixels(); }
  PODIUM_DEVICE_FUNCTION int runs() const { return (slices() + kRunSlices - 1) / kRunSlices; }
  PODIUM_DEVICE_FUNCTION int bands() const {
    return static_cast<int>((out_height + kBandRows - 1) / kBandRows);
  }
};

Layer layer_of(const ConvShape& s) { return {weight_layer_of(s)}; }

// --- wide layers ---

template <typename T>
struct WideSlices {
  const Layer& s;
  const float *dy, *x;
  bool vector;
  int filter, channel;  // the tile's first
  int r, t;             // the tap
  int at, last;
  int pixel = 0, first_image = 0, h = 0, v = 0;

  __device__ bool next() {
    while (++at < last) {
      pixel = at % s.pixels(), first_image = at / s.pixels() * kSlice;
      h = pixel / s.out_width * s.stride_height + r - s.pad_top;
      v = pixel % s.out_width * s.stride_width + t - s.pad_left;
      if (h >= 0 && h < s.in_height && v >= 0 && v < s.in_width) return true;
    }
    return false;
  }
  __device__ int run() const { return at / kRunSlices; }
  __device__ int terms() const {
    return s.images - first_image < kSlice ? s.images - first_image : kSlice;
  }
  __device__ float4 images(const float* from, int term) const {
    const int left = s.images - first_image - term;
    float4 four = zero4();
    if (left <= 0) return four;
    from += first_image + term;
    if (vector) return load4(from);
    four.x = from[0];
    if (left > 1) four.y = from[1];
    if (left > 2) four.z = from[2];
    if (left > 3) four.w = from[3];
    return four;
  }
  __device__ void fetch(typename T::Ahead& ahead) const {
    T::fetch_terms(ahead.a, [&](int term, int row) {
      const int k = filter + row;
      return k < s.out_channels
                 ? images(dy + (static_cast<std::int64_t>(k) * s.pixels() + pixel) * s.images, term)
                 : zero4();
    });
    T::fetch_terms(ahead.b, [&](int term, int row) {
      const std::int64_t c = channel + row;
      return c < s.in_channels
                 ? images(x + ((c * s.in_height + h) * s.in_width + v) * s.images, term)
                 : zero4();
    });
  }
  __device__ void put(const typename T::Ahead& ahead, typename T::Shared& shared,
                      int buffer) const {
    T::put_terms(ahead.a, shared.a[buffer]);
    T::put_terms(ahead.b, shared.b[buffer]);
  }
};

// Blocks x: tiles of filters by channels; y: taps, and of each parts of so many runs. With one part
// the result is dw, otherwise sums[run][tap][filter][channel].
template <typename T, bool kParts>
__global__ void __launch_bounds__(T::kThreads, 1)
    wide_kernel(Layer s, bool vector, int part_runs, ConstFloats dy, ConstFloats x, Floats result) {
  auto& shared = simt::shared<typename T::Shared>();
  const int across = (s.in_channels + T::kN - 1) / T::kN;
  const int filter = static_cast<int>(blockIdx.x) / across * T::kM,
            channel = static_cast<int>(blockIdx.x) % across * T::kN;
  const int tap = static_cast<int>(blockIdx.y) % s.taps(),
            part = static_cast<int>(blockIdx.y) / s.taps();
  const int first = part * part_runs, runs = s.runs(),
            last = first + part_runs < runs ? first + part_runs : runs;
  const int all = s.slices();
  WideSlices<T> slices{s,
                       dy.of(blockIdx.z),
                       x.of(blockIdx.z),
                       vector,
                       filter,
                       channel,
                       tap / s.kernel_width,
                       tap % s.kernel_width,
                       first * kRunSlices - 1,
                       last * kRunSlices < all ? last * kRunSlices : all};
  float* const to = result.of(blockIdx.z);
  const auto write = [&](float* from, std::int64_t filter_step, int step,
                         const typename T::Sums& sums) {
    T::for_each_four(sums, [&](int i, int j, const float4& four) {
      const int k = filter + i, c = channel + j, left = s.in_channels - c;
      if (k >= s.out_channels || left <= 0) return;
      float* const p = from + k * filter_step + static_cast<std::int64_t>(c) * step;
      p[0] = four.x;
      if (left > 1) p[step] = four.y;
      if (left > 2) p[2 * step] = four.z;
      if (left > 3) p[3 * step] = four.w;
    });
  };
  if constexpr (kParts) {
    const auto end_run = [&](int run, const typename T::Sums& sums) {
      const std::int64_t matrix = static_cast<std::int64_t>(s.out_channels) * s.in_channels;
      write(to + (static_cast<std::int64_t>(run) * s.taps() + tap) * matrix, s.in_channels, 1,
            sums);
    };
    sum_runs<T>(shared, slices, first, last, end_run);
  } else {
    RunTotal<T> total;
    sum_runs<T>(shared, slices, first, last, total);
    write(to + tap, static_cast<std::int64_t>(s.in_channels) * s.taps(), s.taps(), total.total);
  }
}

template <typename F>
void with_wide_tile(const Layer& s, const F& f) {
  if (s.out_channels >= 128 && s.in_channels >= 128)
    f(Tile<128, 64, 8, 8>());
  else if (s.out_channels > 32 && s.in_channels > 32)
    f(Tile<64, 64, 8, 4>());
  else
    f(Tile<32, 32, 4, 4>());
}

// How many blocks share the runs of a tile.
std::int64_t parts_of(const Layer& s) {
  std::int64_t tiles = 0;
  with_wide_tile(s, [&](auto tile) {
    using T = decltype(tile);
    tiles =
        std::int64_t{blocks_of(s.out_channels, T::kM)} * blocks_of(s.in_channels, T::kN) * s.taps();
  });
  return std::clamp<std::int64_t>(kBusyBlocks / tiles, 1, s.runs());
}

template <typename T, bool kParts>
void launch_wide(const Launch& launch, const Layer& s, std::int64_t parts, ConstFloats x,
                 ConstFloats dy, Floats result) {
  const std::int64_t each = (s.runs() + parts - 1) / parts;
  const bool vector = s.images % 4 == 0 && is_aligned(x) && is_aligned(dy);
  simt::launch(wide_kernel<T, kParts>,
               {.blocks = {blocks_of(s.out_channels, T::kM) * blocks_of(s.in_channels, T::kN),
                           static_cast<unsigned>(s.taps()) * blocks_of(s.runs(), each),
                           static_cast<unsigned>(launch.replicas)},
                .threads = {T::kThreads, 1, 1},
                .shared_bytes = sizeof(typename T::Shared)},
               launch.stream, s, vector, static_cast<int>(each), dy, x, result);
}

void add_runs(const Launch& launch, const Layer& layer, ConstFloats sums, Floats dw) {
  launch_flat(launch, layer.weights(), [=] __device__(std::int64_t i, unsigned replica) {
    const Layer& s = layer;
    const float* const from = sums.of(replica) + i;
    float total = from[0];
    for (std::int64_t run = 1; run < s.runs(); ++run) total = total + from[run * s.weights()];
    const std::int64_t matrix = static_cast<std::int64_t>(s.out_channels) * s.in_channels;
    dw.of(replica)[i % matrix * s.taps() + i / matrix] = total;
  });
}

void wide(const Launch& launch, const Layer& s, ConstFloats x, ConstFloats dy, Floats dw,
          Floats scratch) {
  const std::int64_t parts = parts_of(s);
  with_wide_tile(s, [&](auto tile) {
    using T = decltype(tile);
    if (parts == 1)
      launch_wide<T, false>(launch, s, parts, x, dy, dw);
    else
      launch_wide<T, true>(launch, s, parts, x, dy, scratch);
  });
  if (parts > 1) add_runs(launch, s, scratch, dw);
}

// --- other layers ---

// With fewer blocks, a GPU has room for more.
constexpr std::int64_t kManyBlocks = 200;
constexpr int kImages = 32;         // of a block, one a thread
constexpr int kMostRowsOfTaps = 9;  // of a block, which read the same gradients

// What a thread has: the chains of some filters and of some taps of a row. What some pixels need is
// on its way from memory at the same time.
template <int kChainFilters, int kChainTaps>
struct Chains {
  static constexpr int kFilters = kChainFilters, kTaps = kChainTaps;
};

// Pixels that are asked for at the same time: as many as the registers of no GPU from sm_75 to
// sm_120 are too few for.
template <typename T>
constexpr int ahead(bool dense) {
  if (dense) return T::kFilters == 2 ? 16 : T::kTaps == 3 ? 6 : 8;
  return T::kFilters == 2 ? (T::kTaps == 3 ? 6 : 8) : T::kTaps == 3 ? 8 : 6;
}

// partial[weight][band][image], the chains of one band of each image. With kDense the stride across
// is 1, and a tap reads what its neighbour reads at the next pixel.
template <typename T, bool kDense>
__global__ void __launch_bounds__(kImages* kMostRowsOfTaps)
    image_chains_kernel(Layer s, ConstFloats dy, ConstFloats x, Floats partial) {
  constexpr int kFilters = T::kFilters, kTaps = T::kTaps, kAhead = ahead<T>(kDense);
  const int chunks = (s.images + kImages - 1) / kImages, band = static_cast<int>(blockIdx.y);
  const int n = static_cast<int>(blockIdx.x) % chunks * kImages + static_cast<int>(threadIdx.x);
  // In the order taps of a row, rows of taps, channels; then filters.
  const int taps_across = (s.kernel_width + kTaps - 1) / kTaps;
  const int tap_rows = taps_across * s.kernel_height * s.in_channels,
            tap_blocks =
                (tap_rows + static_cast<int>(blockDim.y) - 1) / static_cast<int>(blockDim.y);
  const int tile = static_cast<int>(blockIdx.x) / chunks, k0 = tile / tap_blocks * kFilters;
  const int tap_row =
      tile % tap_blocks * static_cast<int>(blockDim.y) + static_cast<int>(threadIdx.y);
  const int t0 = tap_row % taps_across * kTaps, r = tap_row / taps_across % s.kernel_height,
            c = tap_row / taps_across / s.kernel_height;
  if (n >= s.images || tap_row >= tap_rows) return;
  const int step = s.images, filter_step = s.pixels() * step;
  const float* const gradients =
      dy.of(blockIdx.z) + static_cast<std::int64_t>(k0) * filter_step + n;
  const float* const plane =
      x.of(blockIdx.z) + static_cast<std::int64_t>(c) * s.in_height * s.in_width * step + n;
  // Chains beyond the last filter or tap are of the last one, and of anything; nobody writes them.
  int filter[kFilters];
#pragma unroll
  for (int i = 0; i < kFilters; ++i)
    filter[i] = (k0 + i < s.out_channels ? i : s.out_channels - 1 - k0) * filter_step;
  float chains[kFilters][kTaps];
#pragma unroll
  for (int i = 0; i < kFilters; ++i)
#pragma unroll
    for (int j = 0; j < kTaps; ++j) chains[i][j] = 0;
  const int begin = band * static_cast<int>(kBandRows);
  const int end = begin + static_cast<int>(kBandRows) < s.out_height
                      ? begin + static_cast<int>(kBandRows)
                      : s.out_height;
  const int first_v = t0 - s.pad_left, stride = kDense ? 1 : s.stride_width;
  const auto within = [](int i, int length) { return i < 0 ? 0 : i < length ? i : length - 1; };
#pragma unroll 1
  for (int p = begin; p < end; ++p) {
    const int h = p * s.stride_height + r - s.pad_top;
    if (h < 0 || h >= s.in_height) continue;
    const float* const row = plane + static_cast<std::int64_t>(h) * s.in_width * step;
    const float* const from = gradients + static_cast<std::int64_t>(p) * s.out_width * step;
#pragma unroll 1
    for (int q0 = 0; q0 < s.out_width; q0 += kAhead) {
      const int v0 = q0 * stride + first_v;
      float g[kAhead][kFilters];
#pragma unroll
      for (int q = 0; q < kAhead; ++q)
#pragma unroll
        for (int i = 0; i < kFilters; ++i)
          g[q][i] = from[filter[i] + within(q0 + q, s.out_width) * step];
      constexpr int kPixels = kDense ? kAhead + kTaps - 1 : kAhead * kTaps;
      float pixels[kPixels];
#pragma unroll
      for (int i = 0; i < kPixels; ++i) {
        const int v = v0 + (kDense ? i : i / kTaps * stride + i % kTaps);
        pixels[i] = row[within(v, s.in_width) * step];
      }
      const auto pixel = [&](int q, int j) { return pixels[kDense ? q + j : q * kTaps + j]; };
      // Where all taps of all of these pixels meet the image nothing needs to be asked.
      if (v0 >= 0 && v0 + (kAhead - 1) * stride + kTaps <= s.in_width &&
          q0 + kAhead <= s.out_width) {
#pragma unroll
        for (int q = 0; q < kAhead; ++q)
#pragma unroll
          for (int j = 0; j < kTaps; ++j)
#pragma unroll
            for (int i = 0; i < kFilters; ++i)
              chains[i][j] = std::fma(g[q][i], pixel(q, j), chains[i][j]);
      } else {
#pragma unroll
        for (int q = 0; q < kAhead; ++q)
#pragma unroll
          for (int j = 0; j < kTaps; ++j) {
            const int v = v0 + q * stride + j;
            if (q0 + q >= s.out_width || v < 0 || v >= s.in_width) continue;
#pragma unroll
            for (int i = 0; i < kFilters; ++i)
              chains[i][j] = std::fma(g[q][i], pixel(q, j), chains[i][j]);
          }
      }
    }
  }
  float* const to = partial.of(blockIdx.z);
#pragma unroll
  for (int i = 0; i < kFilters; ++i)
#pragma unroll
    for (int j = 0; j < kTaps; ++j) {
      if (k0 + i >= s.out_channels || t0 + j >= s.kernel_width) continue;
      const std::int64_t weight =
          ((static_cast<std::int64_t>(k0 + i) * s.in_channels + c) * s.kernel_height + r) *
              s.kernel_width +
          t0 + j;
      to[(weight * s.bands() + band) * step + n] = chains[i][j];
    }
}

constexpr int kSumsEach = 16;  // of a block; each by the 16 lanes of half a warp

__global__ void __launch_bounds__(kSumsEach* kLanes)
    image_sums_kernel(Layer s, ConstFloats partial, Floats dw) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const std::int64_t weight =
      static_cast<std::int64_t>(blockIdx.x) * kSumsEach + threadIdx.x / kLanes;
  float sum = 0;
  if (weight < s.weights()) {
    const float* const from = partial.of(blockIdx.z) + weight * s.bands() * s.images;
    for (int n = lane; n < s.images; n += kLanes) {
      float image = from[n];
      if (s.bands() > 1) {
        TreeTotal bands;
        for (int band = 0; band < s.bands(); ++band)
          bands.add(from[static_cast<std::int64_t>(band) * s.images + n]);
        image = bands.total();
      }
      sum = sum + image;
    }
  }
  sum = lane_tree(sum);
  if (lane == 0 && weight < s.weights()) dw.of(blockIdx.z)[weight] = sum;
}

void by_images(const Launch& launch, const Layer& s, ConstFloats x, ConstFloats dy, Floats dw,
               Floats scratch) {
  const auto replicas = static_cast<unsigned>(launch.replicas);
  const auto chains = [&](auto kind, auto dense) {
    using T = decltype(kind);
    const unsigned rows = blocks_of(s.kernel_width, T::kTaps) *
                          static_cast<unsigned>(s.kernel_height * s.in_channels),
                   each = std::min<unsigned>(rows, kMostRowsOfTaps);
    simt::launch(image_chains_kernel<T, decltype(dense)::value>,
                 {.blocks = {blocks_of(s.images, kImages) * blocks_of(rows, each) *
                                 blocks_of(s.out_channels, T::kFilters),
                             static_cast<unsigned>(s.bands()), replicas},
                  .threads = {kImages, each, 1}},
                 launch.stream, s, dy, x, scratch);
  };
  with_constant(s.stride_width == 1, [&](auto dense) {
    // Few filters for each thread where threads are few.
    const bool few = std::int64_t{blocks_of(s.images, kImages)} * blocks_of(s.out_channels, 4) *
                         replicas * s.bands() <
                     kManyBlocks;
    if (s.kernel_width <= 3 && few)
      chains(Chains<2, 3>(), dense);
    else if (s.kernel_width <= 3)
      chains(Chains<4, 3>(), dense);
    else if (few)
      chains(Chains<2, 4>(), dense);
    else
      chains(Chains<4, 4>(), dense);
  });
  simt::launch(image_sums_kernel,
               {.blocks = {blocks_of(s.weights(), kSumsEach), 1, replicas},
                .threads = {kSumsEach * kLanes, 1, 1}},
               launch.stream, s, scratch, dw);
}

bool is_wide(const Layer& s) { return conv2d_is_wide(s.in_channels, s.out_channels); }

}  // namespace

std::int64_t conv2d_grad_weight_scratch(const ConvShape& shape) {
  const Layer s = layer_of(shape);
  if (!is_wide(s)) return s.weights() * s.bands() * s.images;
  return parts_of(s) > 1 ? s.weights() * s.runs() : 0;
}

void conv2d_grad_weight(const Launch& launch, const ConvShape& shape, ConstFloats x, ConstFloats dy,
                        Floats dw, Floats scratch) {
  const Layer s = layer_of(shape);
  if (is_wide(s))
    wide(launch, s, x, dy, dw, scratch);
  else
    by_images(launch, s, x, dy, dw, scratch);
}

}  // namespace podium::PODIUM_CUDA_SPACE
