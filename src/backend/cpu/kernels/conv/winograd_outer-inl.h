// The products of the gradient to the weights of wide layers: sums of a point over the images of
// some tiles. Included once for each target.
#if defined(PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_OUTER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_OUTER_INL_H_
#undef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_OUTER_INL_H_
#else
#define PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_OUTER_INL_H_
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "backend/cpu/kernels/conv/winograd-inl.h"
#include "backend/cpu/kernels/conv/winograd_weight.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace winograd {

// Sums in registers: kIn input channels of kOut sixteens of output channels.
inline constexpr int kOut = kNative == kLanes ? 2 : 1;
inline constexpr int kIn = kNative == kLanes ? kInBlock : 6;
inline constexpr int kInOfOne = kNative == kLanes ? kInBlockOfOne : kIn;

// du[k][e] (+)= chain over the columns of v[e][column] y[column][k].
struct Outer {
  const float* v;  // [tile][v_size][16 images]
  std::int64_t v_size;
  const float* y;       // [tile][16 images][16]
  std::int64_t y_step;  // from a sixteen of output channels to the next
  const std::int32_t* tiles;
  const std::int32_t* images;
  std::int64_t count;
  float* du;  // [e][16]
  std::int64_t du_step;
  bool add;
};

template <int kE, int kK>
void outer(const Outer& p) {
  const NativeTag d;
  constexpr int kVectors = kK * kRegisters;
  Native acc[kE][kVectors];
  PODIUM_UNROLL
  for (int e = 0; e < kE; ++e) PODIUM_UNROLL
  for (int k = 0; k < kVectors; ++k) acc[e][k] = hn::Zero(d);
  PODIUM_UNROLL
  for (int e = 0; e < kE; ++e) PODIUM_UNROLL
  for (int k = 0; k < kK; ++k) hwy::Prefetch(p.du + e * kLanes + k * p.du_step);
  const std::int64_t y_step = p.y_step;
  for (std::int64_t i = 0; i < p.count; ++i) {
    const float* HWY_RESTRICT v = p.v + p.tiles[i] * p.v_size * kLanes;
    const float* HWY_RESTRICT y = p.y + p.tiles[i] * kLanes * kLanes;
    for (std::int32_t image = 0; image < p.images[i]; ++image, ++v, y += kLanes) {
      Native g[kVectors];
      PODIUM_UNROLL
      for (int k = 0; k < kVectors; ++k)
        g[k] = hn::LoadU(d, y + k / kRegisters * y_step + k % kRegisters * kNative);
      PODIUM_UNROLL
      for (int e = 0; e < kE; ++e) {
        const Native x = hn::Set(d, v[e * kLanes]);
        PODIUM_UNROLL
        for (int k = 0; k < kVectors; ++k) acc[e][k] = hn::MulAdd(x, g[k], acc[e][k]);
      }
    }
  }
  PODIUM_UNROLL
  for (int e = 0; e < kE; ++e) PODIUM_UNROLL
  for (int k = 0; k < kVectors; ++k) {
    float* to = p.du + e * kLanes + k / kRegisters * p.du_step + k % kRegisters * kNative;
    hn::StoreU(p.add ? hn::Add(hn::LoadU(d, to), acc[e][k]) : acc[e][k], d, to);
  }
}

using OuterFunction = void (*)(const Outer&);
template <int kK, int... kE>
constexpr auto outers(std::integer_sequence<int, kE...>) {
  return std::array<OuterFunction, sizeof...(kE)>{outer<kE + 1, kK>...};
}
template <int kK>
constexpr int kMostIn = kK == 1 ? kInOfOne : kIn;
template <int kK>
constexpr auto kOuters = outers<kK>(std::make_integer_sequence<int, kMostIn<kK>>());

// `size` input channels of up to kOut sixteens.
HWY_INLINE void multiply(const Outer& p, std::int64_t size, std::int64_t sixteens) {
  const std::int64_t most = sixteens == 1 ? kInOfOne : kIn, pieces = (size + most - 1) / most;
  Outer part = p;
  for (std::int64_t i = 0; i < pieces; ++i) {
    const Range e = share_of(size, pieces, i);
    part.v = p.v + e.begin * kLanes;
    part.du = p.du + e.begin * kLanes;
    const auto index = static_cast<std::size_t>(e.end - e.begin - 1);
    (sixteens == kOut ? kOuters<kOut>[index] : kOuters<1>[index])(part);
  }
}

}  // namespace winograd
}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#endif  // PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_OUTER_INL_H_
