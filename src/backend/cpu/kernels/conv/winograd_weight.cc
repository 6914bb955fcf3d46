// Winograd convolution, gradient to the weights. A part is a group of images and half the points:
// it transforms the gradients of all tiles, then a few channels of the input at a time, and at each
// point multiplies over the tiles with 4x4 channels in registers and adds up the lanes. A second
// phase adds the groups and transforms back.
#include "backend/cpu/kernels/conv/winograd_weight.h"

#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/conv/winograd_shape.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/conv/winograd_weight.cc"
#include "backend/cpu/kernels/foreach_target.h"

#ifndef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_WEIGHT_CC_
#define PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_WEIGHT_CC_
namespace podium::cpu {
namespace {

constexpr int kTile = 4;             // larger tiles are for wide layers
constexpr std::int64_t kSquare = 4;  // channels of either side in registers
constexpr std::int64_t kPlaces = kSquare * kSquare;

struct WeightProblem : WeightGeometry {
  using WeightGeometry::WeightGeometry;

  std::int64_t half_points() const { return points() / 2; }
  std::int64_t groups() const { return (blocks_of(s.images) + kGroupBlocks - 1) / kGroupBlocks; }
  std::int64_t blocks_of_group() const { return std::min(kGroupBlocks, blocks_of(s.images)); }
  // Tiles of a group, block by block, row by row.
  std::int64_t columns() const { return blocks_of_group() * tiles_of_block(); }
  std::int64_t out_blocks() const { return (s.out_channels + kSquare - 1) / kSquare; }
  std::int64_t in_blocks() const { return (in.logical() + kSquare - 1) / kSquare; }
  // Input channels whose tiles are held at a time.
  std::int64_t in_run() const {
    return std::clamp<std::int64_t>(kCacheFloats / (columns() * half_points() * kLanes), kSquare,
                                    in_blocks() * kSquare) /
           kSquare * kSquare;
  }
  std::int64_t in_plane() const { return (in_run() * columns() | 1) * kLanes; }
  std::int64_t out_plane() const { return (s.out_channels * columns() | 1) * kLanes; }
  std::int64_t zeros() const { return zeros_floats(in.step_w * kLanes); }
  // [point][out block][in block][in channel][out channel]
  std::int64_t group_sums() const {
    return points() * out_blocks() * in_blocks() * kSquare * kSquare;
  }
};

}  // namespace
}  // namespace podium::cpu
#endif  // PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_WEIGHT_CC_

#include "backend/cpu/kernels/conv/lane_sums-inl.h"
#include "backend/cpu/kernels/conv/winograd_join-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace {

using namespace winograd;

// The rows of points of the first half and of the second, and the first of them.
template <bool kSecond>
constexpr int kHalfRows = kSecond ? 2 * kPairRows | kLastRow : kFirstRow | kPairRows;
template <bool kSecond>
constexpr int kHalfBegin = kSecond ? kAxis<kTile> / 2 : 0;

// Sums in registers: kSquare output channels of kIn input channels.
constexpr int kIn = HWY_TARGET == HWY_AVX2 ? 2 : 4;

// Transforms logical channels [begin, end) of all tiles of the group's blocks:
// out[point][channel][tile].
template <bool kSecond, bool kGradient>
void transform_channels(const WeightProblem& p, const Phased& side, const float* base,
                        std::int64_t first_block, std::int64_t begin, std::int64_t end,
                        const float* zeros, float* out, std::int64_t plane) {
  const NativeTag d;
  const std::int64_t columns = p.columns();
  float* origin = out - kHalfBegin<kSecond> * kAxis<kTile> * plane;
  const std::int64_t blocks = std::min(p.blocks_of_group(), blocks_of(p.s.images) - first_block);
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t images = p.s.images - (first_block + block) * kLanes;
    const float* block_base = base + (first_block + block) * side.block();
    for (std::int64_t row = 0; row < p.down.count; ++row)
      for (std::int64_t column = 0; column < p.across.count; ++column) {
        const std::int64_t tile = (block * p.down.count + row) * p.across.count + column;
        // Where the tile stands among those that have a last row, a last column, both.
        const std::int64_t below = (block * p.down.whole + row) * p.across.count + column;
        const std::int64_t beside = (block * p.down.count + row) * p.across.whole + column;
        const std::int64_t corner = (block * p.down.whole + row) * p.across.whole + column;
        const Shifts shifts = {(below - tile) * kLanes, (beside - tile) * kLanes,
                               (corner - tile) * kLanes};
        const bool whole_down = p.down.is_whole(row), whole_across = p.across.is_whole(column);
        const int height = (whole_down ? kTile : kTile - 1) + (kGradient ? 0 : 2);
        for (std::int64_t e = begin; e < end;) {
          const std::int64_t phase = e / side.channels, c = e % side.channels;
          const std::int64_t stop = std::min(end, e - c + side.channels);
          Patch patch = patch_at(side, block_base + c * side.plane(), phase / side.phases_w,
                                 phase % side.phases_w, p.down.begin(row), p.across.begin(column),
                                 height, kTile + 2, zeros);
          for (; e < stop; ++e) {
            float* to = origin + ((e - begin) * columns + tile) * kLanes;
            for (int lane = 0; lane < kLanes; lane += kNative) {
              const Present present{hn::FirstN(d, static_cast<std::size_t>(std::clamp<std::int64_t>(
                                                      images - lane, 0, kNative)))};
              const auto transform = [&](const auto& read) HWY_ATTR {
                if constexpr (kGradient)
                  transform_gradient<kTile, kHalfRows<kSecond>>(
                      patch, whole_down, whole_across, lane, read, to + lane, plane, shifts);
                else
                  transform_patch<kTile, kHalfRows<kSecond>>(patch, whole_down, whole_across, lane,
                                                             read, to + lane, plane, shifts);
              };
              if (images >= kLanes)
                transform(Plain());
              else
                transform(present);
            }
            for (const float*& r : patch.rows)
              if (r != zeros) r += side.plane();
          }
        }
      }
  }
}

// sums[in][out] = tree over the lanes of the chain over `tiles` tiles of u[out] v[in].
HWY_INLINE void square(const float* const* u, const float* const* v, std::int64_t tiles,
                       float* HWY_RESTRICT sums) {
  const NativeTag d;
  for (int in = 0; in < kSquare; in += kIn) {
    constexpr int kGroups = kIn * kSquare / kNative;
    Native parts[kRegisters][kGroups];
    PODIUM_UNROLL
    for (int r = 0; r < kRegisters; ++r) {
      Native acc[kIn * kSquare];
      PODIUM_UNROLL
      for (int i = 0; i < kIn * kSquare; ++i) acc[i] = hn::Zero(d);
      for (std::int64_t t = 0; t < tiles; ++t) {
        const std::int64_t at = t * kLanes + r * kNative;
        Native g[kSquare];
        PODIUM_UNROLL
        for (int k = 0; k < kSquare; ++k) g[k] = hn::LoadU(d, u[k] + at);
        PODIUM_UNROLL
        for (int e = 0; e < kIn; ++e) {
          const Native x = hn::LoadU(d, v[in + e] + at);
          PODIUM_UNROLL
          for (int k = 0; k < kSquare; ++k)
            acc[e * kSquare + k] = hn::MulAdd(g[k], x, acc[e * kSquare + k]);
        }
      }
      PODIUM_UNROLL
      for (int i = 0; i < kGroups; ++i) parts[r][i] = native_sums(acc + i * kNative);
    }
    PODIUM_UNROLL
    for (int n = kRegisters; n > 1; n /= 2) PODIUM_UNROLL
    for (int r = 0; r < n / 2; ++r) PODIUM_UNROLL
    for (int i = 0; i < kGroups; ++i) parts[r][i] = hn::Add(parts[2 * r][i], parts[2 * r + 1][i]);
    PODIUM_UNROLL
    for (int i = 0; i < kGroups; ++i) hn::StoreU(parts[0][i], d, sums + in * kSquare + i * kNative);
  }
}

// The squares of up to kSquare output channels and `inputs` input channels, `step` floats apart;
// a square's channels beyond the last are the last again.
HWY_INLINE void squares(const float* u, std::int64_t outputs, const float* v, std::int64_t inputs,
                        std::int64_t step, std::int64_t tiles, float* HWY_RESTRICT sums) {
  const float *gradients[kSquare], *channels[kSquare];
  for (std::int64_t i = 0; i < kSquare; ++i) gradients[i] = u + std::min(i, outputs - 1) * step;
  for (std::int64_t e = 0; e < inputs; e += kSquare, sums += kPlaces) {
    for (std::int64_t i = 0; i < kSquare; ++i) channels[i] = v + std::min(e + i, inputs - 1) * step;
    square(gradients, channels, tiles, sums);
  }
}

// The sums of one group at half the points.
template <bool kSecond>
void half_group(const WeightProblem& p, const float* dy, const float* x, float* sums,
                float* scratch, std::int64_t group) {
  float* zeros = scratch;
  float* u = zeros + p.zeros();
  float* v = u + p.half_points() * p.out_plane();
  std::fill(zeros, u, 0.0f);
  const std::int64_t first_block = group * kGroupBlocks;
  const std::int64_t blocks = std::min(kGroupBlocks, blocks_of(p.s.images) - first_block);
  const std::int64_t channels = p.in.logical(), columns = p.columns();
  transform_channels<kSecond, true>(p, p.out, dy, first_block, 0, p.s.out_channels, zeros, u,
                                    p.out_plane());
  for (std::int64_t begin = 0; begin < channels; begin += p.in_run()) {
    const std::int64_t end = std::min(channels, begin + p.in_run());
    transform_channels<kSecond, false>(p, p.in, x, first_block, begin, end, zeros, v, p.in_plane());
    for (int half_point = 0; half_point < p.half_points(); ++half_point) {
      const int row = kHalfBegin<kSecond> + half_point / kAxis<kTile>;
      const int column = half_point % kAxis<kTile>, point = row * kAxis<kTile> + column;
      const std::int64_t tiles = blocks * (row == kTile + 1 ? p.down.whole : p.down.count) *
                                 (column == kTile + 1 ? p.across.whole : p.across.count);
      const std::int64_t step = columns * kLanes;
      const float* u_point = u + half_point * p.out_plane();
      const float* v_point = v + half_point * p.in_plane();
      float* to = sums + (point * p.out_blocks() * p.in_blocks() + begin / kSquare) * kPlaces;
      for (std::int64_t k = 0; k < p.s.out_channels; k += kSquare, to += p.in_blocks() * kPlaces)
        squares(u_point + k * step, std::min(kSquare, p.s.out_channels - k), v_point, end - begin,
                step, tiles, to);
    }
  }
}

void weight_sums(const WeightProblem& p, const float* dy, const float* x, float* shared,
                 float* scratch, int part) {
  float* sums = shared + part / 2 * p.group_sums();
  (part % 2 == 0 ? half_group<false> : half_group<true>)(p, dy, x, sums, scratch, part / 2);
}

// Adds the groups and transforms back, for one block of output channels.
void weight_join(const WeightProblem& p, const float* shared, float* dw, int part) {
  const ConvShape& s = p.s;
  const std::int64_t plane = p.out_blocks() * p.in_blocks() * kSquare * kSquare;
  for (std::int64_t block = 0; block < p.in_blocks(); ++block) {
    const float* from = shared + (part * p.in_blocks() + block) * kSquare * kSquare;
    static_assert(kSquare * kSquare == kLanes);
    HWY_ALIGN float w[9][kLanes];
    for (int lane = 0; lane < kLanes; lane += kNative)
      join_groups<kTile>(from + lane, plane, p.group_sums(), p.groups(), w[0] + lane);
    for (std::int64_t i = 0; i < kSquare; ++i) {
      const std::int64_t e = block * kSquare + i;
      if (e >= p.in.logical()) break;
      for (std::int64_t l = 0; l < kSquare; ++l) {
        const std::int64_t k = part * kSquare + l;
        if (k >= s.out_channels) break;
        float* to = dw + k * s.in_channels * s.taps() + first_tap(s, e);
        for (int r = 0; r < 3; ++r)
          for (int t = 0; t < 3; ++t)
            to[r * s.stride_height * s.kernel_width + t * s.stride_width] =
                w[3 * r + t][i * kSquare + l];
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(weight_sums);
HWY_EXPORT(weight_join);

ConvWork conv_winograd_grad_weight_work(const ConvShape& s) {
  if (wide_weight_applies(s)) return wide_weight_work(s);
  const WeightProblem p(s);
  ConvWork work;
  work.phases = 2;
  work.parts[0] = static_cast<int>(2 * p.groups());
  work.parts[1] = static_cast<int>(p.out_blocks());
  work.shared = p.groups() * p.group_sums();
  work.scratch = p.zeros() + p.half_points() * (p.in_plane() + p.out_plane());
  return work;
}

void conv_winograd_grad_weight(const ConvShape& s, const float* dy, const float* x, float* dw,
                               float* shared, float* scratch, int phase, int part) {
  if (wide_weight_applies(s))
    return wide_weight(s, {.dy = dy, .x = x, .dw = dw}, shared, scratch, phase, part);
  const WeightProblem p(s);
  if (phase == 0)
    PODIUM_DISPATCH(weight_sums)(p, dy, x, shared, scratch, part);
  else
    PODIUM_DISPATCH(weight_join)(p, shared, dw, part);
}

bool conv_winograd_grad_weight_is_wide(const ConvShape& s) { return wide_weight_applies(s); }
void conv_winograd_fused_grad_weight(const ConvShape& s, const ConvGradWeight& tensors,
                                     float* shared, float* scratch, int phase, int part) {
  wide_weight(s, tensors, shared, scratch, phase, part);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
