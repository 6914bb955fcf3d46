// A matrix product whose reduction runs over columns, images and pixels. Of sixteen pixels by
// sixteen images at a time, a run, one operand is turned, so that its channels lie in the lanes;
// values of the other are broadcast. Registers hold sums of up to 64 by 6 channels for the length
// of a run, which then join the sums of the part, in L2.
#include "backend/cpu/kernels/conv/direct_weight_wide.h"

#include "backend/cpu/kernels/conv/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/conv/direct_weight_wide.cc"
#include "backend/cpu/kernels/foreach_target.h"

#ifndef PODIUM_BACKEND_CPU_KERNELS_CONV_DIRECT_WEIGHT_WIDE_CC_
#define PODIUM_BACKEND_CPU_KERNELS_CONV_DIRECT_WEIGHT_WIDE_CC_
#include <algorithm>

namespace podium::cpu {
namespace {

constexpr std::int64_t kRunPixels = 16;
constexpr std::int64_t kRows = 6;           // broadcast channels in registers
constexpr std::int64_t kGroup = 4;          // turned channels in registers, in vectors of sixteen
constexpr std::int64_t kMaxTurned = 256;    // turned channels of a part
constexpr std::int64_t kMaxSums = 1 << 16;  // floats of a part

// Which channels are turned: those of dy, or, where the kernel is one pixel and x has fewer, those
// of x. A part is a block of turned and a block of broadcast channels, with all taps.
struct WidePlan {
  bool turns_x;
  std::int64_t turned_channels, cast_channels, turned_blocks, cast_blocks;
  std::int64_t turned, cast;  // channels of the largest part
  std::int64_t taps;

  explicit WidePlan(const ConvShape& s) : taps(s.taps()) {
    turns_x = taps == 1 && s.in_channels % kLanes == 0 && s.in_channels < s.out_channels;
    turned_channels = turns_x ? s.in_channels : s.out_channels;
    cast_channels = turns_x ? s.out_channels : s.in_channels;
    const std::int64_t most = taps == 1 ? kMaxTurned : kMaxTurned / 2;
    turned_blocks = (turned_channels + most - 1) / most;
    turned = largest_share(turned_channels / kLanes, turned_blocks) * kLanes;
    const std::int64_t most_cast = std::max<std::int64_t>(kMaxSums / (turned * taps), kRows);
    cast_blocks = (cast_channels + most_cast - 1) / most_cast;
    cast = largest_share(cast_channels, cast_blocks);
  }
  static std::int64_t largest_share(std::int64_t total, std::int64_t parts) {
    return (total + parts - 1) / parts;
  }
  Range turned_range(std::int64_t part) const {
    const Range r = share_of(turned_channels / kLanes, turned_blocks, part / cast_blocks);
    return {r.begin * kLanes, r.end * kLanes};
  }
  Range cast_range(std::int64_t part) const {
    return share_of(cast_channels, cast_blocks, part % cast_blocks);
  }
  std::int64_t cast_tiles() const { return (cast + kRows - 1) / kRows; }
  std::int64_t sums_floats() const { return taps * cast * turned; }
  std::int64_t turned_floats() const { return kRunPixels * kLanes * turned; }
  std::int64_t cast_floats() const { return kRunPixels * kLanes * cast_tiles() * kRows; }
};

// The pixels of a run that meet a tap.
struct RunPixels {
  std::int64_t count = 0;
  std::int64_t of_run[kRunPixels];  // which pixel of the run
  std::int64_t images[kRunPixels];
};

}  // namespace
}  // namespace podium::cpu
#endif  // PODIUM_BACKEND_CPU_KERNELS_CONV_DIRECT_WEIGHT_WIDE_CC_

#include "backend/cpu/kernels/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace {

// Registers of turned channels that are summed at a time.
constexpr int kWidth = HWY_TARGET == HWY_AVX2 ? 2 : 4;

// sums[row][...] += one chain over the run, for kWide registers of turned channels and kCount rows.
// `turned` is [pixel of the run][image][stride], `cast` [pixel][row][image].
template <int kWide, int kCount>
void sum_run(const RunPixels& at, const float* HWY_RESTRICT turned, std::int64_t stride,
             const float* HWY_RESTRICT cast, float* HWY_RESTRICT sums, std::int64_t sums_stride,
             bool first) {
  const NativeTag d;
  Native acc[kCount][kWide];
  PODIUM_UNROLL
  for (int u = 0; u < kCount; ++u) PODIUM_UNROLL
  for (int v = 0; v < kWide; ++v) acc[u][v] = hn::Zero(d);
  for (std::int64_t m = 0; m < at.count; ++m) {
    const float* t = turned + at.of_run[m] * kLanes * stride;
    const float* c = cast + m * kRows * kLanes;
    for (std::int64_t n = 0; n < at.images[m]; ++n, t += stride, ++c) {
      Native w[kWide];
      PODIUM_UNROLL
      for (int v = 0; v < kWide; ++v) w[v] = hn::LoadU(d, t + v * kNative);
      PODIUM_UNROLL
      for (int u = 0; u < kCount; ++u) {
        const Native b = hn::Set(d, c[u * kLanes]);
        PODIUM_UNROLL
        for (int v = 0; v < kWide; ++v) acc[u][v] = hn::MulAdd(w[v], b, acc[u][v]);
      }
    }
  }
  PODIUM_UNROLL
  for (int u = 0; u < kCount; ++u) {
    float* to = sums + u * sums_stride;
    PODIUM_UNROLL
    for (int v = 0; v < kWide; ++v) {
      const Native sum = first ? acc[u][v] : hn::Add(hn::LoadU(d, to + v * kNative), acc[u][v]);
      hn::StoreU(sum, d, to + v * kNative);
    }
  }
}

using SumFunction = void (*)(const RunPixels&, const float*, std::int64_t, const float*, float*,
                             std::int64_t, bool);
template <int kWide>
const SumFunction* sum_functions() {
  static constexpr SumFunction kTable[kRows] = {sum_run<kWide, 1>, sum_run<kWide, 2>,
                                                sum_run<kWide, 3>, sum_run<kWide, 4>,
                                                sum_run<kWide, 5>, sum_run<kWide, 6>};
  return kTable;
}

// All turned channels of a group of vectors, for one tile of rows.
void sum_group(const RunPixels& at, const float* turned, std::int64_t vectors, const float* cast,
               std::int64_t rows, float* sums, std::int64_t sums_stride, bool first) {
  const std::int64_t stride = vectors * kLanes;
  const auto run = [&](const SumFunction* functions, std::int64_t from) {
    functions[rows - 1](at, turned + from, stride, cast, sums + from, sums_stride, first);
  };
  if constexpr (kRegisters > 1) {
    for (std::int64_t from = 0; from < stride; from += kWidth * kNative)
      run(sum_functions<kWidth>(), from);
  } else {
    switch (vectors) {
      case 1: return run(sum_functions<1>(), 0);
      case 2: return run(sum_functions<2>(), 0);
      case 3: return run(sum_functions<3>(), 0);
      default: return run(sum_functions<4>(), 0);
    }
  }
}

// An operand: where sixteen images of channel 0 begin at a pixel, and the distance of channels.
struct Operand {
  const float* data;
  std::int64_t channels, pixels;
  const float* at(std::int64_t block, std::int64_t channel, std::int64_t pixel) const {
    return data + ((block * channels + channel) * pixels + pixel) * kLanes;
  }
  std::int64_t plane() const { return pixels * kLanes; }
};

void weight_part(const ConvShape& s, const float* dy, const float* x, float* dw, float* scratch,
                 int part) {
  const WidePlan plan(s);
  const Range turned = plan.turned_range(part), cast = plan.cast_range(part);
  const std::int64_t wide = turned.end - turned.begin, rows = cast.end - cast.begin;
  float* sums = scratch;  // [tap][cast channel][turned channel]
  float* turned_run = sums + plan.sums_floats();
  float* cast_run = turned_run + plan.turned_floats();
  const Operand gradients{dy, s.out_channels, s.out_pixels()},
      images{x, s.in_channels, s.in_pixels()};
  const std::int64_t pixels = s.out_pixels(), all = blocks_of(s.images) * pixels;

  for (std::int64_t begin = 0; begin < all; begin += kRunPixels) {
    const std::int64_t end = std::min(begin + kRunPixels, all);
    for (std::int64_t tap = 0; tap < plan.taps; ++tap) {
      const std::int64_t r = tap / s.kernel_width, t = tap % s.kernel_width;
      RunPixels at;
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t block = i / pixels, pixel = i % pixels;
        const std::int64_t h = pixel / s.out_width * s.stride_height + r - s.pad_top,
                           w = pixel % s.out_width * s.stride_width + t - s.pad_left;
        const bool meets = h >= 0 && h < s.in_height && w >= 0 && w < s.in_width;
        const float* own_image = images.at(block, 0, h * s.in_width + w);
        const float* own_gradient = gradients.at(block, 0, pixel);
        if (tap == 0 && (meets || !plan.turns_x)) {
          const Operand& source = plan.turns_x ? images : gradients;
          const float* from = plan.turns_x ? own_image : own_gradient;
          for (std::int64_t v = 0; v < wide; v += kGroup * kLanes) {
            const std::int64_t stride = std::min(kGroup * kLanes, wide - v);
            float* to = turned_run + v * kRunPixels * kLanes + (i - begin) * kLanes * stride;
            for (std::int64_t j = 0; j < stride; j += kLanes)
              transpose16(from + (turned.begin + v + j) * source.plane(), source.plane(), to + j,
                          stride);
          }
        }
        if (!meets) continue;
        const Operand& source = plan.turns_x ? gradients : images;
        const float* from = (plan.turns_x ? own_gradient : own_image) + cast.begin * source.plane();
        float* to = cast_run + at.count * kRows * kLanes;
        for (std::int64_t u = 0; u < rows; u += kRows, to += kRunPixels * kRows * kLanes)
          for (std::int64_t j = 0; j < std::min(kRows, rows - u); ++j, from += source.plane())
            store16(to + j * kLanes, load16(from));
        at.of_run[at.count] = i - begin;
        at.images[at.count++] = std::min<std::int64_t>(kLanes, s.images - block * kLanes);
      }
      for (std::int64_t v = 0; v < wide; v += kGroup * kLanes) {
        const std::int64_t vectors = std::min(kGroup, (wide - v) / kLanes);
        for (std::int64_t u = 0; u < rows; u += kRows)
          sum_group(at, turned_run + v * kRunPixels * kLanes, vectors,
                    cast_run + u * kRunPixels * kLanes, std::min(kRows, rows - u),
                    sums + (tap * rows + u) * wide + v, wide, begin == 0);
      }
    }
  }

  if (plan.turns_x) {
    for (std::int64_t u = 0; u < rows; ++u)
      std::copy_n(sums + u * wide, wide, dw + (cast.begin + u) * s.in_channels + turned.begin);
    return;
  }
  for (std::int64_t v = 0; v < wide; ++v) {
    float* to = dw + ((turned.begin + v) * s.in_channels + cast.begin) * plan.taps;
    for (std::int64_t u = 0; u < rows; ++u)
      for (std::int64_t tap = 0; tap < plan.taps; ++tap) *to++ = sums[(tap * rows + u) * wide + v];
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(weight_part);

ConvWork direct_weight_wide_work(const ConvShape& s) {
  const WidePlan plan(s);
  ConvWork work;
  work.phases = 1;
  work.parts[0] = static_cast<int>(plan.turned_blocks * plan.cast_blocks);
  work.scratch = plan.sums_floats() + plan.turned_floats() + plan.cast_floats();
  return work;
}

void direct_weight_wide(const ConvShape& s, const float* dy, const float* x, float* dw,
                        float* scratch, int part) {
  PODIUM_DISPATCH(weight_part)(s, dy, x, dw, scratch, part);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
