// Pixel sums and image sums (docs/numerics.md) of batch-last images. For *.cu files only.
//
// A thread has the chains of one image in one column modulo 4, or in two neighbouring ones. It
// cannot begin a link before the one before it has ended, but it reads ahead: several tiles of four
// rows are on their way from memory while it adds. Where a replica has few images, one block takes
// all of a channel's and makes the image sum, too; otherwise a second kernel does.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/planes.h"
#include "backend/cuda/kernels/sums.h"
#include "backend/cuda/kernels/tree_total.h"
#include "backend/cuda/seeded_fault.h"
#include "backend/cuda/simt.h"

namespace podium::PODIUM_CUDA_SPACE {

// The two sums that are made together.
struct Pair {
  float a, b;
};

inline constexpr int kChains = 4;             // of a pixel sum: the columns modulo 4
inline constexpr int kTileRows = 4;           // which a chain goes down before the next column
inline constexpr int kWarpImages = 32;        // a warp has one chain of as many images
inline constexpr int kMostBlockImages = 128;  // beyond, blocks share the images of a channel

inline std::int64_t bands_of(const PlaneShape& s) { return (s.height + kBandRows - 1) / kBandRows; }
inline std::int64_t image_chunks(const PlaneShape& s) {
  return (s.images + kWarpImages - 1) / kWarpImages;
}

// A tile of four rows and one or two columns, of one image: how far behind the image's first pixel
// in the channel its own first one lies, and the first one of a plane pooled over windows of 2x2.
struct TilePlace {
  unsigned pixel, window;
  unsigned rows;  // 4, fewer at the end of a band, or 0 beyond the last tile
};

// What Terms are:
//   kWide                                 neighbouring columns of a thread: 1, or 2
//   kAhead                                as many tiles are read at once
//   struct Tile;                          what a thread reads of a tile
//   Channel channel(s, c, n, replica)     what it knows of the channel and image
//   void load(tile, channel, s, place)    leaves what lies beyond the tile's rows as it is
//   void add(sums, tile, channel, rows)   the terms, down the rows of each column

// The tiles of one thread: columns first, first + kChains, ... of rows [begin, end), in the
// contract's order.
class TileWalk {
 public:
  __device__ TileWalk(const PlaneShape& s, unsigned first, unsigned begin, unsigned end)
      : width_(static_cast<unsigned>(s.width)),
        images_(static_cast<unsigned>(s.images)),
        first_(first),
        left_(first),
        rows_(end - begin),
        line_{(begin * width_ + first) * images_, (begin / 2 * (width_ / 2) + first / 2) * images_,
              0} {
    if (first >= width_) rows_ = 0;
    place_ = line_;
  }
  __device__ TilePlace next() {
    TilePlace place = place_;
    place.rows = rows_ < kTileRows ? rows_ : kTileRows;
    left_ += kChains;
    place_.pixel += kChains * images_;
    place_.window += kChains / 2 * images_;
    if (left_ >= width_) {
      left_ = first_;
      line_.pixel += kTileRows * width_ * images_;
      line_.window += kTileRows / 2 * (width_ / 2) * images_;
      place_ = line_;
      rows_ -= place.rows;
    }
    return place;
  }

 private:
  unsigned width_, images_, first_, left_;
  unsigned rows_;   // from this tile's first one on
  TilePlace line_;  // of the first tile beside this one
  TilePlace place_;
};

// Adds all of them. While some are added, the next ones are on their way.
template <typename Terms>
__device__ void add_tiles(Pair (&sums)[Terms::kWide], const PlaneShape& s, const Terms& terms,
                          const typename Terms::Channel& channel, unsigned first, unsigned begin,
                          unsigned end) {
  TileWalk walk(s, first, begin, end);
  typename Terms::Tile next[Terms::kAhead] = {};
  unsigned next_rows[Terms::kAhead];
#pragma unroll
  for (int k = 0; k < Terms::kAhead; ++k) {
    const TilePlace place = walk.next();
    terms.load(next[k], channel, s, place);
    next_rows[k] = place.rows;
  }
  while (next_rows[0] > 0) {
    typename Terms::Tile tile[Terms::kAhead];
    unsigned rows[Terms::kAhead];
#pragma unroll
    for (int k = 0; k < Terms::kAhead; ++k) {
      tile[k] = next[k], rows[k] = next_rows[k];
      const TilePlace place = walk.next();
      terms.load(next[k], channel, s, place);
      next_rows[k] = place.rows;
    }
#pragma unroll
    for (int k = 0; k < Terms::kAhead; ++k) terms.add(sums, tile[k], channel, rows[k]);
  }
}

// The sums of the four chains of as many images as a block has.
template <int kImages>
struct ChainSums {
  Pair of[kChains][kImages];
  __device__ Pair pixel_sum(unsigned i) const {
    return {(of[0][i].a + of[1][i].a) + (of[2][i].a + of[3][i].a),
            (of[0][i].b + of[1][i].b) + (of[2][i].b + of[3][i].b)};
  }
};

// Writes what a thread has summed, threadIdx.y being its column or pair of columns.
template <typename Terms, int kImages>
__device__ void sum_chains(ChainSums<kImages>& shared, const PlaneShape& s, const Terms& terms,
                           std::int64_t c, std::int64_t n, unsigned begin, unsigned end) {
  const unsigned first = threadIdx.y * Terms::kWide;
  Pair sums[Terms::kWide] = {};
  if (n < s.images)
    add_tiles(sums, s, terms, terms.channel(s, c, n, blockIdx.z), first, begin, end);
#pragma unroll
  for (int j = 0; j < Terms::kWide; ++j)
    if (first + j < s.width || !seeded(SeededFault::kSharedUnwritten))
      shared.of[first + j][threadIdx.x] = sums[j];
}

// How many blocks of pixel_sums_kernel() a multiprocessor must have room for. Left to itself (0),
// ptxas makes room for six, and then spills registers except on compute capability 9.0.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 900
inline constexpr int kPixelSumBlocks = 4;
#else
inline constexpr int kPixelSumBlocks = 0;
#endif

// partial[(channel * bands + band) * images + n] and, as far behind as there are of these, the
// second sum: pixel sums of one band of each plane.
template <typename Terms>
__global__ void __launch_bounds__(kChains* kWarpImages, kPixelSumBlocks)
    pixel_sums_kernel(PlaneShape s, Terms terms, Floats partial) {
  auto& shared = simt::shared<ChainSums<kWarpImages>>();
  const auto chunks = static_cast<unsigned>((s.images + kWarpImages - 1) / kWarpImages);
  const std::int64_t c = blockIdx.x / chunks;
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x % chunks) * kWarpImages + threadIdx.x;
  const std::int64_t bands = gridDim.y;
  const auto height = static_cast<unsigned>(s.height);
  const unsigned begin = blockIdx.y * kBandRows,
                 end = begin + kBandRows < height ? begin + kBandRows : height;
  sum_chains(shared, s, terms, c, n, begin, end);
  __syncthreads();
  if (threadIdx.y != 0 || n >= s.images) return;
  const Pair sum = shared.pixel_sum(threadIdx.x);
  float* const to = partial.of(blockIdx.z) + (c * bands + blockIdx.y) * s.images + n;
  to[0] = sum.a;
  if (seeded(SeededFault::kScratchUnwritten)) return;
  to[s.channels * bands * s.images] = sum.b;
}

// Gives finish() the image sums from their lanes, on one thread: half of the warp has those of the
// first sum, the other half those of the second.
template <typename Finish>
__device__ void finish_channel(float lane, std::int64_t c, const Finish& finish) {
  const float sum = lane_tree(lane);
  const unsigned mask = seeded(SeededFault::kLaneMissingInMask) ? 0xffffu : ~0u;
  const float other = __shfl_xor_sync(mask, sum, kLanes);
  if (threadIdx.x == 0) finish(Pair{sum, other}, c, blockIdx.z);
}

// The image sums of channel blockIdx.x, given to finish(sums, c, replica).
template <typename Finish>
__global__ void __launch_bounds__(2 * kLanes)
    image_sums_kernel(PlaneShape s, std::int64_t bands, ConstFloats partial, Finish finish) {
  const std::int64_t c = blockIdx.x;
  const unsigned lane = threadIdx.x % kLanes, which = threadIdx.x / kLanes;
  const float* const from = partial.of(blockIdx.z) + (which * s.channels + c) * bands * s.images;
  const float sum = bands == 1 ? image_lane(s.images, lane, [&](std::int64_t n) { return from[n]; })
                               : image_lane(s.images, lane, [&](std::int64_t n) {
                                   TreeTotal plane;
                                   for (std::int64_t band = 0; band < bands; ++band)
                                     plane.add(from[band * s.images + n]);
                                   return plane.total();
                                 });
  finish_channel(sum, c, finish);
}

// Both for the whole of channel blockIdx.x, which has one band and few images.
struct ChannelShared {
  ChainSums<kMostBlockImages> chains;
  float pixel_sums[2][kMostBlockImages];
};
template <typename Terms, typename Finish>
__global__ void __launch_bounds__(kChains* kMostBlockImages / Terms::kWide)
    channel_sums_kernel(PlaneShape s, Terms terms, Finish finish) {
  auto& shared = simt::shared<ChannelShared>();
  const std::int64_t c = blockIdx.x;
  sum_chains(shared.chains, s, terms, c, threadIdx.x, 0, static_cast<unsigned>(s.height));
  __syncthreads();
  if (threadIdx.y == 0 && threadIdx.x < s.images) {
    const Pair sum = shared.chains.pixel_sum(threadIdx.x);
    shared.pixel_sums[0][threadIdx.x] = sum.a;
    if (!seeded(SeededFault::kScratchUnwritten)) shared.pixel_sums[1][threadIdx.x] = sum.b;
  }
  __syncthreads();
  if (threadIdx.y != 0 || threadIdx.x >= 2 * kLanes) return;
  const float* const from = shared.pixel_sums[threadIdx.x / kLanes];
  finish_channel(
      image_lane(s.images, threadIdx.x % kLanes, [&](std::int64_t n) { return from[n]; }), c,
      finish);
}

// Whether channel_sums_kernel() does it; otherwise scratch memory is needed.
inline bool sums_channels_at_once(const PlaneShape& s) {
  return bands_of(s) == 1 && s.images <= kMostBlockImages;
}

template <typename Terms, typename Finish>
void plane_sums(const Launch& launch, const PlaneShape& s, Floats scratch, const Terms& terms,
                const Finish& finish) {
  const auto replicas = static_cast<unsigned>(launch.replicas),
             channels = static_cast<unsigned>(s.channels),
             chunks = static_cast<unsigned>(image_chunks(s)),
             bands = static_cast<unsigned>(bands_of(s));
  constexpr unsigned kGroups = kChains / Terms::kWide;
  PODIUM_CHECK(s.inner() < std::int64_t{1} << 31, "a channel of ", s.inner(),
               " floats is too long");
  if (sums_channels_at_once(s)) {
    simt::launch(channel_sums_kernel<Terms, Finish>,
                 {.blocks = {channels, 1, replicas},
                  .threads = {chunks * kWarpImages, kGroups, 1},
                  .shared_bytes = sizeof(ChannelShared)},
                 launch.stream, s, terms, finish);
    return;
  }
  simt::launch(pixel_sums_kernel<Terms>,
               {.blocks = {channels * chunks, bands, replicas},
                .threads = {kWarpImages, kGroups, 1},
                .shared_bytes = sizeof(ChainSums<kWarpImages>)},
               launch.stream, s, terms, scratch);
  simt::launch(image_sums_kernel<Finish>,
               {.blocks = {channels, 1, replicas}, .threads = {2 * kLanes, 1, 1}}, launch.stream, s,
               std::int64_t{bands}, scratch, finish);
}

}  // namespace podium::PODIUM_CUDA_SPACE
