// The filters of a Winograd correlation, transformed and packed. Included once for each target.
#if defined(PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_FILTERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_FILTERS_INL_H_
#undef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_FILTERS_INL_H_
#else
#define PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_FILTERS_INL_H_
#endif

#include <algorithm>

#include "backend/cpu/kernels/conv/transpose-inl.h"
#include "backend/cpu/kernels/conv/winograd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace winograd {

inline constexpr std::int64_t kTaps = 9;
// Input channels whose filters are transformed together: point by point, so that their stores to
// the plane of a point follow each other.
inline constexpr std::int64_t kFilterRun = 8;

// Of some input channels, g[channel][tap][16], to[point][channel][output channel], `size` of them;
// `room` is how many floats there are up to the end of the block's last channel.
template <int kM>
HWY_INLINE void pack_run(const float* g, std::int64_t channels, std::int64_t size,
                         std::int64_t room, float* to, std::int64_t plane) {
  const NativeTag d;
  constexpr int kColumns = 3 * kAxis<kM> * kNative;  // of some lanes: [row][column][lanes]
  HWY_ALIGN float between[kFilterRun * kRegisters * kColumns];
  float* next = between;
  for (std::int64_t c = 0; c < channels; ++c)
    for (int lane = 0; lane < size; lane += kNative, next += kColumns) {
      PODIUM_KEEP_LOOP
      for (int t = 0; t < 3; ++t) {
        const float* taps = g + (c * kTaps + t) * kLanes + lane;
        Native u[kAxis<kM>];
        transform_g<kM>(hn::LoadU(d, taps), hn::LoadU(d, taps + 3 * kLanes),
                        hn::LoadU(d, taps + 6 * kLanes), u);
        PODIUM_UNROLL
        for (int i = 0; i < kAxis<kM>; ++i) hn::Store(u[i], d, next + (3 * i + t) * kNative);
      }
    }
  for (int i = 0; i < kAxis<kM>; ++i) {
    float* row = to + kAxis<kM> * i * plane;
    const float* from = between + 3 * i * kNative;
    std::int64_t rest = room;
    for (std::int64_t c = 0; c < channels; ++c, row += size, rest -= size)
      for (int lane = 0; lane < size; lane += kNative, from += kColumns) {
        Native u[kAxis<kM>];
        transform_g<kM>(hn::Load(d, from), hn::Load(d, from + kNative),
                        hn::Load(d, from + 2 * kNative), u);
        // A whole vector, of which the next channel's filters take the rest; the last has no next.
        const bool whole = rest - lane >= kNative;
        PODIUM_UNROLL
        for (int j = 0; j < kAxis<kM>; ++j) {
          if (whole)
            hn::StoreU(u[j], d, row + j * plane + lane);
          else
            store_first(u[j], rest - lane, row + j * plane + lane);
        }
      }
  }
}

// Transforms the filters of one block of output channels: to[point][input channel][output channel].
template <int kM>
void pack_block(const ConvShape& s, const Correlation& p, const float* w, float* to,
                std::int64_t block) {
  const Range outputs = p.channel_block(block);
  const std::int64_t size = outputs.end - outputs.begin;
  const std::int64_t plane = p.filter_plane(), inputs = p.in.logical();
  // The phased channel is the input of the forward pass and the output of the gradient.
  const Phased& phased = p.flipped ? p.out : p.in;
  const auto gather = [&](std::int64_t in, float* g) {
    for (std::int64_t l = 0; l < size; ++l) {
      const std::int64_t out = outputs.begin + l;
      const std::int64_t k = p.flipped ? in : out, e = p.flipped ? out : in;
      const std::int64_t c = e % phased.channels, phase = e / phased.channels;
      const std::int64_t a = phase / phased.phases_w, b = phase % phased.phases_w;
      const float* from = w + (k * s.in_channels + c) * s.taps() + a * s.kernel_width + b;
      for (int r = 0; r < 3; ++r)
        for (int t = 0; t < 3; ++t)
          g[(p.flipped ? 8 - 3 * r - t : 3 * r + t) * kLanes + l] =
              from[s.stride_height * r * s.kernel_width + s.stride_width * t];
    }
  };
  // Where a filter has nine taps in a row, sixteen floats of each output channel at a time; the
  // last filters have no sixteen.
  const bool in_a_row = s.taps() == kTaps;
  const auto row = [&](std::int64_t i) { return outputs.begin + std::min(i, size - 1); };
  HWY_ALIGN float g[kLanes * kTaps * kLanes] = {};
  for (std::int64_t in = 0; in < inputs; in += kLanes) {
    const std::int64_t channels = std::min<std::int64_t>(kLanes, inputs - in);
    if (in_a_row && !p.flipped && channels == kLanes) {
      for (int i = 0; i < kTaps; ++i)
        transpose16([&](int l) { return w + (row(l) * inputs + in) * kTaps + i * kLanes; },
                    g + i * kLanes * kLanes);
    } else {
      for (std::int64_t c = 0; c < channels; ++c) {
        float* to_channel = g + c * kTaps * kLanes;
        if (in_a_row && p.flipped && in + c + 1 < inputs) {
          HWY_ALIGN float turned[kLanes * kLanes];
          transpose16([&](int l) { return w + ((in + c) * p.out.logical() + row(l)) * kTaps; },
                      turned);
          for (int tap = 0; tap < kTaps; ++tap)
            store16(to_channel + (kTaps - 1 - tap) * kLanes, load16(turned + tap * kLanes));
        } else {
          gather(in + c, to_channel);
        }
      }
    }
    for (std::int64_t c = 0; c < channels; c += kFilterRun)
      pack_run<kM>(g + c * kTaps * kLanes, std::min(kFilterRun, channels - c), size,
                   (inputs - in - c) * size, to + (in + c) * size, plane);
  }
}

}  // namespace winograd
}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#endif  // PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_FILTERS_INL_H_
