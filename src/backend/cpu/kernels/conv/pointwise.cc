// A few pixels at a time. Their channels, which lie a plane apart and would share few sets of L1,
// are copied side by side, and then meet all output channels. Where they do not fit into L1, that
// is done for one run of channels after the other, and the sums wait in L2. The pixels that follow
// are fetched meanwhile.
#include "backend/cpu/kernels/conv/pointwise.h"

#include "backend/cpu/kernels/conv/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/conv/pointwise.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/v16-inl.h"

#ifndef PODIUM_BACKEND_CPU_KERNELS_CONV_POINTWISE_CC_
#define PODIUM_BACKEND_CPU_KERNELS_CONV_POINTWISE_CC_
#include <algorithm>

namespace podium::cpu {
namespace {

constexpr int kMaxChannelBlock = 6;    // output channels in registers
constexpr int kMaxPixels = 4;          // pixels in registers (2 where there are 16 registers)
constexpr std::int64_t kMaxRun = 128;  // channels whose pixels lie in L1: 32 KB
constexpr std::int64_t kLeastChannels = 16;
constexpr std::int64_t kPartWork = 200000;  // multiply-adds of vectors

std::int64_t channel_blocks(const PointwiseShape& s) {
  return (s.out_channels + kMaxChannelBlock - 1) / kMaxChannelBlock;
}
std::int64_t channel_runs(const PointwiseShape& s) {
  return (s.in_channels + kMaxRun - 1) / kMaxRun;
}
int pixel_groups(const PointwiseShape& s) {
  return parts_of((s.out_pixels + kMaxPixels - 1) / kMaxPixels,
                  kMaxPixels * s.in_channels * s.out_channels, kPartWork);
}

// Weights in the order of use: [block of output channels][input channel][output channel].
void pack(const PointwiseShape& s, const float* w, float* packed, std::int64_t b) {
  const Range block = share_of(s.out_channels, channel_blocks(s), b);
  float* to = packed + block.begin * s.in_channels;
  for (std::int64_t c = 0; c < s.in_channels; ++c)
    for (std::int64_t k = block.begin; k < block.end; ++k)
      *to++ = w[k * s.out_stride + c * s.in_stride];
}

}  // namespace
}  // namespace podium::cpu
#endif  // PODIUM_BACKEND_CPU_KERNELS_CONV_POINTWISE_CC_

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace {

constexpr int kPixels = HWY_TARGET == HWY_AVX2 ? 2 : kMaxPixels;

struct Product {
  const float* x;  // [channel][kPixels][lane]
  std::int64_t channels;
  const float* w;       // [channel][output channel]
  const float* before;  // [output channel][kPixels][lane], or null: chains begin
  float* after;         // output channels `plane` apart
  std::int64_t plane;
  bool streamed;
};

template <int kChannels, int kRun>
void product(const Product& t, int lane) {
  const NativeTag d;
  Native acc[kChannels][kRun];
  PODIUM_UNROLL
  for (int k = 0; k < kChannels; ++k) PODIUM_UNROLL
  for (int j = 0; j < kRun; ++j)
    acc[k][j] = t.before == nullptr ? hn::Zero(d)
                                    : hn::LoadU(d, t.before + (k * kPixels + j) * kLanes + lane);
  const float* HWY_RESTRICT x = t.x + lane;
  const float* HWY_RESTRICT w = t.w;
  for (std::int64_t c = 0; c < t.channels; ++c, x += kPixels * kLanes, w += kChannels) {
    Native v[kRun];
    PODIUM_UNROLL
    for (int j = 0; j < kRun; ++j) v[j] = hn::LoadU(d, x + j * kLanes);
    PODIUM_UNROLL
    for (int k = 0; k < kChannels; ++k) {
      const Native b = hn::Set(d, w[k]);
      PODIUM_UNROLL
      for (int j = 0; j < kRun; ++j) acc[k][j] = hn::MulAdd(v[j], b, acc[k][j]);
    }
  }
  PODIUM_UNROLL
  for (int k = 0; k < kChannels; ++k) PODIUM_UNROLL
  for (int j = 0; j < kRun; ++j)
    put_register(t.after + k * t.plane + j * kLanes + lane, acc[k][j], t.streamed);
}

using ProductFunction = void (*)(const Product&, int);
constexpr ProductFunction kProducts[kMaxChannelBlock][kMaxPixels] = {
    {product<1, 1>, product<1, 2>, product<1, 3>, product<1, 4>},
    {product<2, 1>, product<2, 2>, product<2, 3>, product<2, 4>},
    {product<3, 1>, product<3, 2>, product<3, 3>, product<3, 4>},
    {product<4, 1>, product<4, 2>, product<4, 3>, product<4, 4>},
    {product<5, 1>, product<5, 2>, product<5, 3>, product<5, 4>},
    {product<6, 1>, product<6, 2>, product<6, 3>, product<6, 4>}};

// Where the pixels of a tile lie in a plane, in floats.
struct TilePixels {
  std::int64_t count = 0;
  std::int64_t at[kMaxPixels];

  TilePixels(const PointwiseShape& s, Range pixels) : count(pixels.end - pixels.begin) {
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t p = (pixels.begin + j) / s.out_width, q = (pixels.begin + j) % s.out_width;
      at[j] = (p * s.stride_height * s.in_width + q * s.stride_width) * kLanes;
    }
  }
};

void products(const PointwiseShape& s, const float* in, const float* packed, float* out,
              float* scratch, std::int64_t block, int group, int groups) {
  const std::int64_t plane = s.in_pixels * kLanes, out_plane = s.out_pixels * kLanes,
                     tiles = (s.out_pixels + kPixels - 1) / kPixels, blocks = channel_blocks(s),
                     runs = channel_runs(s);
  const Range own = share_of(tiles, groups, group);
  const float* const x = in + block * s.in_channels * plane;
  float* const y = out + block * s.out_channels * out_plane;
  // A register that is not a whole line would leave lines half written.
  const bool streamed = kRegisters == 1 && streams(out, s.blocks * s.out_channels * out_plane);
  float* const sums = scratch;  // [output channel][kPixels][lane]
  float* const run_x = scratch + (runs > 1 ? s.out_channels * kMaxPixels * kLanes : 0);
  for (std::int64_t tile = own.begin; tile < own.end; ++tile) {
    const Range pixels = share_of(s.out_pixels, tiles, tile);
    const TilePixels here(s, pixels),
        next(s, share_of(s.out_pixels, tiles, std::min(tile + 1, tiles - 1)));
    for (std::int64_t r = 0; r < runs; ++r) {
      const Range run = share_of(s.in_channels, runs, r);
      for (std::int64_t c = run.begin; c < run.end; ++c)
        for (std::int64_t j = 0; j < here.count; ++j)
          store16(run_x + ((c - run.begin) * kPixels + j) * kLanes,
                  load16(x + c * plane + here.at[j]));
      for (std::int64_t b = 0; b < blocks; ++b) {
        if (tile + 1 < tiles) {
          const Range fetched = share_of(run.end - run.begin, blocks, b);
          for (std::int64_t c = run.begin + fetched.begin; c < run.begin + fetched.end; ++c)
            for (std::int64_t j = 0; j < next.count; ++j) fetch_to_l2(x + c * plane + next.at[j]);
        }
        const Range channels = share_of(s.out_channels, blocks, b);
        const std::int64_t count = channels.end - channels.begin;
        float* const waiting = sums + channels.begin * kPixels * kLanes;
        const bool last = r + 1 == runs;
        const Product t{
            .x = run_x,
            .channels = run.end - run.begin,
            .w = packed + channels.begin * s.in_channels + run.begin * count,
            .before = r == 0 ? nullptr : waiting,
            .after = last ? y + channels.begin * out_plane + pixels.begin * kLanes : waiting,
            .plane = last ? out_plane : kPixels * kLanes,
            .streamed = last && streamed};
        const ProductFunction function = kProducts[count - 1][here.count - 1];
        for (int lane = 0; lane < kLanes; lane += kNative) function(t, lane);
      }
    }
  }
  end_streams(streamed);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(products);

bool is_pointwise_forward(const ConvShape& s) {
  return s.taps() == 1 && s.pad_top == 0 && s.pad_left == 0 &&
         (s.out_height - 1) * s.stride_height < s.in_height &&
         (s.out_width - 1) * s.stride_width < s.in_width && s.out_pixels() > 0 &&
         s.in_channels >= kLeastChannels && s.out_channels >= kLeastChannels;
}

bool is_pointwise_grad_input(const ConvShape& s) {
  return is_pointwise_forward(s) && s.stride_height == 1 && s.stride_width == 1 &&
         s.in_pixels() == s.out_pixels();
}

PointwiseShape pointwise_forward(const ConvShape& s) {
  return {.blocks = blocks_of(s.images),
          .in_channels = s.in_channels,
          .in_width = s.in_width,
          .in_pixels = s.in_pixels(),
          .out_channels = s.out_channels,
          .out_width = s.out_width,
          .out_pixels = s.out_pixels(),
          .stride_height = s.stride_height,
          .stride_width = s.stride_width,
          .out_stride = s.in_channels,
          .in_stride = 1};
}

PointwiseShape pointwise_grad_input(const ConvShape& s) {
  return {.blocks = blocks_of(s.images),
          .in_channels = s.out_channels,
          .in_width = s.out_width,
          .in_pixels = s.out_pixels(),
          .out_channels = s.in_channels,
          .out_width = s.in_width,
          .out_pixels = s.in_pixels(),
          .out_stride = 1,
          .in_stride = s.in_channels};
}

ConvWork pointwise_work(const PointwiseShape& s) {
  ConvWork work;
  work.phases = 2;
  work.parts[0] = static_cast<int>(channel_blocks(s));
  work.parts[1] = static_cast<int>(s.blocks) * pixel_groups(s);
  work.shared = s.in_channels * s.out_channels;
  work.scratch = ((channel_runs(s) > 1 ? s.out_channels : 0) + std::min(s.in_channels, kMaxRun)) *
                 kMaxPixels * kLanes;
  return work;
}

void pointwise(const PointwiseShape& s, const float* in, const float* w, float* out, float* shared,
               float* scratch, int phase, int part) {
  if (phase == 0) return pack(s, w, shared, part);
  const int groups = pixel_groups(s);
  PODIUM_DISPATCH(products)(s, in, shared, out, scratch, part / groups, part % groups, groups);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
