// The filters of a Winograd correlation, transformed and packed. Included once for each target.
#if defined(PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_FILTERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_FILTERS_INL_H_
#undef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_FILTERS_INL_H_
#else
#define PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_FILTERS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "backend/cpu/kernels/conv/transpose-inl.h"
#include "backend/cpu/kernels/conv/winograd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace winograd {

// u = G g, of one axis.
template <int kM>
HWY_INLINE void transform_g(const Native g0, const Native g1, const Native g2, Native* u) {
  using C = Constants<kM>;
  if constexpr (kM == 4) {
    const Native ea = fma(C::kGa2, g2, mul(C::kGa0, g0)), eb = fma(C::kGb2, g2, mul(C::kGb0, g0));
    u[0] = mul(C::kG0, g0);
    u[1] = fma(C::kGa1, g1, ea);
    u[2] = fma(-C::kGa1, g1, ea);
    u[3] = fma(C::kGb1, g1, eb);
    u[4] = fma(-C::kGb1, g1, eb);
  } else {
    u[0] = mul(C::kG0, g0);
    PODIUM_UNROLL
    for (int i = 0; i < kPairs<kM>; ++i) {
      const Native e = fma(C::kN2[i], g2, mul(C::kN0[i], g0));
      u[2 * i + 1] = fma(C::kN1[i], g1, e);
      u[2 * i + 2] = fma(-C::kN1[i], g1, e);
    }
  }
  u[kM + 1] = g2;
}

inline constexpr std::int64_t kTaps = 9;
// Filters that are transformed together: point by point, so that their stores to the plane of a
// point follow each other.
inline constexpr std::int64_t kFilterRun = 6 * kLanes;
// Input channels by which filters that do not lie one after the other are fetched ahead.
inline constexpr std::int64_t kAheadFilters = 8;
// Filters of one block of output channels and up to sixteen input channels: g[tap][input channel *
// size of the block + output channel]. Sixteen more are written beyond the last.
inline constexpr std::int64_t kTapStep = (kLanes + 1) * kLanes;

// `count` of these filters, to[point][filter].
template <int kM>
HWY_INLINE void pack_run(const float* HWY_RESTRICT g, std::int64_t count, float* HWY_RESTRICT to,
                         std::int64_t plane) {
  const NativeTag d;
  constexpr int kColumns = 3 * kAxis<kM> * kNative;  // of a vector: [row][column][lanes]
  HWY_ALIGN float between[kFilterRun / kNative * kColumns];
  float* next = between;
  for (std::int64_t i = 0; i < count; i += kNative, next += kColumns) {
    PODIUM_KEEP_LOOP
    for (int t = 0; t < 3; ++t) {
      const float* taps = g + t * kTapStep + i;
      Native u[kAxis<kM>];
      transform_g<kM>(hn::Load(d, taps), hn::Load(d, taps + 3 * kTapStep),
                      hn::Load(d, taps + 6 * kTapStep), u);
      PODIUM_UNROLL
      for (int row = 0; row < kAxis<kM>; ++row)
        hn::Store(u[row], d, next + (3 * row + t) * kNative);
    }
  }
  for (int row = 0; row < kAxis<kM>; ++row) {
    const float* from = between + 3 * row * kNative;
    float* out = to + kAxis<kM> * row * plane;
    for (std::int64_t i = 0; i < count; i += kNative, from += kColumns, out += kNative) {
      Native u[kAxis<kM>];
      transform_g<kM>(hn::Load(d, from), hn::Load(d, from + kNative),
                      hn::Load(d, from + 2 * kNative), u);
      PODIUM_UNROLL
      for (int j = 0; j < kAxis<kM>; ++j) {
        if (count - i >= kNative)
          hn::StoreU(u[j], d, out + j * plane);
        else
          store_first(u[j], count - i, out + j * plane);
      }
    }
  }
}

// Transforms the filters of one block of output channels and of the input channels `run`:
// to[point][input channel of the run][output channel].
template <int kM>
void pack_block(const ConvShape& s, const Correlation& p, const float* w, float* to,
                std::int64_t block, const Range& run) {
  const Range outputs = p.channel_block(block);
  const std::int64_t size = outputs.end - outputs.begin;
  const std::int64_t plane = p.filter_plane(), inputs = p.in.logical();
  const std::int64_t row_step = s.stride_height * s.kernel_width, filter = s.in_channels * s.taps();
  // Channels of the input run by phases: those of a forward pass's `in`, of a gradient's outputs.
  const auto gather = [&](std::int64_t in, float* g) {
    const float* filters = w + (p.flipped ? in : outputs.begin) * filter;
    std::int64_t e = p.flipped ? outputs.begin : in;
    std::int64_t rest = s.in_channels - e % s.in_channels;  // of the phase
    const float* from = filters + first_tap(s, e);
    for (std::int64_t l = 0; l < size; ++l) {
      for (int r = 0; r < 3; ++r)
        for (int t = 0; t < 3; ++t)
          g[(p.flipped ? 8 - 3 * r - t : 3 * r + t) * kTapStep + l] =
              from[r * row_step + t * s.stride_width];
      if (!p.flipped) {
        from += filter;
      } else if (++e, --rest > 0) {
        from += s.taps();
      } else {
        from = filters + first_tap(s, e);
        rest = s.in_channels;
      }
    }
  };
  // Where a filter has nine taps in a row, sixteen floats of each output channel at a time; the
  // last filters have no sixteen.
  const bool in_a_row = s.taps() == kTaps;
  const auto row = [&](std::int64_t i) { return outputs.begin + std::min(i, size - 1); };
  HWY_ALIGN float g[kTaps * kTapStep] = {};
  HWY_ALIGN float turned[kLanes * kLanes];
  for (std::int64_t in = run.begin; in < run.end; in += kLanes) {
    const std::int64_t channels = std::min<std::int64_t>(kLanes, run.end - in);
    // From the first channel to the last: the lanes beyond `size` are those of the next.
    float* to_channel = g;
    if (in_a_row && !p.flipped && channels == kLanes) {
      int tap = 0;
      for (int i = 0; i < kTaps; ++i) {
        transpose16([&](int l) { return w + (row(l) * inputs + in) * kTaps + i * kLanes; }, turned);
        for (int j = 0; j < kLanes; ++j) {
          store16(to_channel + tap * kTapStep, load16(turned + j * kLanes));
          if (++tap == kTaps) tap = 0, to_channel += size;
        }
      }
    } else {
      for (std::int64_t c = 0; c < channels; ++c, to_channel += size) {
        if (in_a_row && p.flipped && in + c + 1 < inputs) {
          const float* ahead =
              w + ((in + c + kAheadFilters) * p.out.logical() + outputs.begin) * kTaps;
          for (std::int64_t i = 0; i < size * kTaps; i += kLanes) hwy::Prefetch(ahead + i);
          transpose16([&](int l) { return w + ((in + c) * p.out.logical() + row(l)) * kTaps; },
                      turned);
          for (int tap = 0; tap < kTaps; ++tap)
            store16(to_channel + (kTaps - 1 - tap) * kTapStep, load16(turned + tap * kLanes));
        } else {
          gather(in + c, to_channel);
        }
      }
    }
    const std::int64_t filters = channels * size;
    float* first = to + (in - run.begin) * size;
    for (std::int64_t i = 0; i < filters; i += kFilterRun)
      pack_run<kM>(g + i, std::min(kFilterRun, filters - i), first + i, plane);
  }
}

}  // namespace winograd
}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#endif  // PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_FILTERS_INL_H_
