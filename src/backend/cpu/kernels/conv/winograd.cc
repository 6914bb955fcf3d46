// Winograd convolution, forward and gradient to the input: both are a correlation with 3x3 filters
// (winograd_shape.h). First the filters are transformed and packed; then a part, which is one row
// of tiles of one block of images, takes a few tiles at a time: transforms their patches,
// multiplies over the channels at each point, transforms back.
#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/conv/winograd_shape.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/conv/winograd.cc"
#include "backend/cpu/kernels/foreach_target.h"

#ifndef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_CC_
#define PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_CC_
namespace podium::cpu {
namespace {

// Scratch: zeros, then the points of the patches, then those of the products.
std::int64_t correlation_scratch(const Correlation& p) {
  return 6 * p.in.step_w * kLanes + kPoints * (p.in_plane() + p.out_plane());
}

}  // namespace
}  // namespace podium::cpu
#endif  // PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_CC_

#include "backend/cpu/kernels/conv/winograd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace {

using namespace winograd;

constexpr bool kFewRegisters = HWY_TARGET == HWY_AVX2;
constexpr int kMaxTiles = kFewRegisters ? 2 : 4;
// Up to this many tiles go with a whole block of channels, more with half of one.
constexpr int kTilesOfWholeBlock = kFewRegisters ? 1 : 2;

// m[k][t] = (add ? m : 0) + chain over the channels c of u[c][k] v[c][t].
struct Product {
  const float* u;
  std::int64_t u_step;
  const float* v;
  std::int64_t v_step;
  std::int64_t channels;
  float* m;
  std::int64_t m_step;
  bool add;
};

template <int kChannels, int kTiles>
void product(const Product& p) {
  const NativeTag d;
  for (int lane = 0; lane < kLanes; lane += kNative) {
    Native acc[kChannels][kTiles];
    PODIUM_UNROLL
    for (int k = 0; k < kChannels; ++k) PODIUM_UNROLL
    for (int t = 0; t < kTiles; ++t) acc[k][t] = hn::Zero(d);
    const float* HWY_RESTRICT u = p.u;
    const float* HWY_RESTRICT v = p.v + lane;
    for (std::int64_t c = 0; c < p.channels; ++c, u += p.u_step, v += p.v_step) {
      Native x[kTiles];
      PODIUM_UNROLL
      for (int t = 0; t < kTiles; ++t) x[t] = hn::LoadU(d, v + t * kLanes);
      PODIUM_UNROLL
      for (int k = 0; k < kChannels; ++k) {
        const Native w = hn::Set(d, u[k]);
        PODIUM_UNROLL
        for (int t = 0; t < kTiles; ++t) acc[k][t] = hn::MulAdd(w, x[t], acc[k][t]);
      }
    }
    float* HWY_RESTRICT m = p.m + lane;
    PODIUM_UNROLL
    for (int k = 0; k < kChannels; ++k) PODIUM_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      float* to = m + k * p.m_step + t * kLanes;
      hn::StoreU(p.add ? hn::Add(hn::LoadU(d, to), acc[k][t]) : acc[k][t], d, to);
    }
  }
}

using ProductFunction = void (*)(const Product&);
template <int kTiles>
constexpr ProductFunction kWholeProducts[] = {
    product<1, kTiles>, product<2, kTiles>,  product<3, kTiles>,  product<4, kTiles>,
    product<5, kTiles>, product<6, kTiles>,  product<7, kTiles>,  product<8, kTiles>,
    product<9, kTiles>, product<10, kTiles>, product<11, kTiles>, product<12, kTiles>};
template <int kTiles>
constexpr ProductFunction kHalfProducts[] = {product<1, kTiles>, product<2, kTiles>,
                                             product<3, kTiles>, product<4, kTiles>,
                                             product<5, kTiles>, product<6, kTiles>};

HWY_INLINE void multiply(const Product& p, std::int64_t channels, std::int64_t tiles) {
  Product part = p;
  for (std::int64_t t = 0; t < tiles; t += kMaxTiles) {
    const std::int64_t count = std::min<std::int64_t>(kMaxTiles, tiles - t);
    part.v = p.v + t * kLanes;
    const std::int64_t pieces = count <= kTilesOfWholeBlock || channels == 1 ? 1 : 2;
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const Range k = share_of(channels, pieces, piece);
      part.u = p.u + k.begin;
      part.m = p.m + k.begin * p.m_step + t * kLanes;
      const std::int64_t size = k.end - k.begin - 1;
      switch (count) {
        case 1: kWholeProducts<1>[size](part); break;
        case 2: (kFewRegisters ? kHalfProducts<2> : kWholeProducts<2>)[size](part); break;
        case 3: kHalfProducts<3>[size](part); break;
        default: kHalfProducts<4>[size](part); break;
      }
    }
  }
}

// Transforms the filters of one block of output channels: packed[point][block][input
// channel][output channel].
void pack_filters(const ConvShape& s, const Correlation& p, const float* w, float* packed,
                  std::int64_t block) {
  const NativeTag d;
  const Range channels = p.channel_block(block);
  const std::int64_t size = channels.end - channels.begin;
  const std::int64_t plane = p.in.logical() * p.out.logical();
  // The phased channel is the input of the forward pass and the output of the gradient.
  const Phased& phased = p.flipped ? p.out : p.in;
  HWY_ALIGN float g[9][kLanes] = {};
  for (std::int64_t in = 0; in < p.in.logical(); ++in) {
    for (std::int64_t l = 0; l < size; ++l) {
      const std::int64_t out = channels.begin + l;
      const std::int64_t k = p.flipped ? in : out, e = p.flipped ? out : in;
      const std::int64_t c = e % phased.channels, phase = e / phased.channels;
      const std::int64_t a = phase / phased.phases_w, b = phase % phased.phases_w;
      const float* from = w + (k * s.in_channels + c) * s.taps() + a * s.kernel_width + b;
      for (int r = 0; r < 3; ++r)
        for (int t = 0; t < 3; ++t)
          g[p.flipped ? 8 - 3 * r - t : 3 * r + t][l] =
              from[s.stride_height * r * s.kernel_width + s.stride_width * t];
    }
    float* to = packed + channels.begin * p.in.logical() + in * size;
    for (int lane = 0; lane < size; lane += kNative) {
      const std::int64_t count = size - lane;
      Native columns[3][6];
      PODIUM_UNROLL
      for (int t = 0; t < 3; ++t)
        transform_g(hn::Load(d, g[t] + lane), hn::Load(d, g[3 + t] + lane),
                    hn::Load(d, g[6 + t] + lane), columns[t]);
      PODIUM_UNROLL
      for (int i = 0; i < 6; ++i) {
        Native u[6];
        transform_g(columns[0][i], columns[1][i], columns[2][i], u);
        PODIUM_UNROLL
        for (int j = 0; j < 6; ++j) store_first(u[j], count, to + (6 * i + j) * plane + lane);
      }
    }
  }
}

template <bool kFourDown>
void correlate_row(const Correlation& p, const float* x, const float* packed, float* y,
                   float* scratch, std::int64_t block, std::int64_t row) {
  constexpr int kRows = kRow0 | kRows12 | kRows34 | (kFourDown ? kRow5 : 0);
  const NativeTag d;
  const std::int64_t inputs = p.in.logical(), outputs = p.out.logical();
  const std::int64_t run = p.tile_run(), in_plane = p.in_plane(), out_plane = p.out_plane();
  float* zeros = scratch;
  float* v = zeros + zeros_floats(p.in.step_w * kLanes);
  float* m = v + kPoints * in_plane;
  std::fill(zeros, v, 0.0f);
  const auto all = hn::FirstN(d, kNative);
  const float* x_block = x + block * p.in.block();
  float* y_block = y + block * p.out.block();
  const std::int64_t i0 = p.down.begin(row);
  for (std::int64_t first = 0; first < p.across.count; first += run) {
    const std::int64_t tiles = std::min(run, p.across.count - first);
    const std::int64_t fours = std::clamp<std::int64_t>(p.across.fours - first, 0, tiles);
    const std::int64_t v_step = tiles * kLanes, m_step = tiles * kLanes;

    for (std::int64_t t = 0; t < tiles; ++t) {
      const std::int64_t j0 = p.across.begin(first + t);
      for (std::int64_t phase = 0; phase < p.in.phases_h * p.in.phases_w; ++phase) {
        Patch patch = patch_at(p.in, x_block, phase / p.in.phases_w, phase % p.in.phases_w, i0, j0,
                               kFourDown ? 6 : 5, zeros);
        float* out = v + phase * p.in.channels * v_step + t * kLanes;
        for (std::int64_t c = 0; c < p.in.channels; ++c, out += v_step) {
          for (int lane = 0; lane < kLanes; lane += kNative) {
            if (t < fours)
              transform_patch<kRows, true, false>(patch, lane, all, out + lane, in_plane);
            else
              transform_patch<kRows, false, false>(patch, lane, all, out + lane, in_plane);
          }
          for (const float*& r : patch.rows)
            if (r != zeros) r += p.in.plane();
        }
      }
    }

    for (int point = 0; point < (kFourDown ? 36 : 30); ++point) {
      const std::int64_t count = point % 6 == 5 ? fours : tiles;
      for (std::int64_t b = 0; b < p.channel_blocks(); ++b) {
        const Range channels = p.channel_block(b);
        const std::int64_t size = channels.end - channels.begin;
        for (std::int64_t c = 0; c < inputs; c += kChannelRun) {
          Product product;
          product.u = packed + point * inputs * outputs + channels.begin * inputs + c * size;
          product.u_step = size;
          product.v = v + point * in_plane + c * v_step;
          product.v_step = v_step;
          product.channels = std::min(kChannelRun, inputs - c);
          product.m = m + point * out_plane + channels.begin * m_step;
          product.m_step = m_step;
          product.add = c > 0;
          multiply(product, size, count);
        }
      }
    }

    for (std::int64_t t = 0; t < tiles; ++t) {
      const std::int64_t j0 = p.across.begin(first + t);
      for (std::int64_t phase = 0; phase < p.out.phases_h * p.out.phases_w; ++phase) {
        const std::int64_t top = p.out.step_h * i0 + phase / p.out.phases_w + p.out.first_h;
        const std::int64_t left = p.out.step_w * j0 + phase % p.out.phases_w + p.out.first_w;
        Target target;
        for (int r = 0; r < 4; ++r) {
          const std::int64_t pixel = top + r * p.out.step_h;
          target.rows[r] = pixel >= 0 && pixel < p.out.height
                               ? y_block + (pixel * p.out.width + left) * kLanes
                               : nullptr;
        }
        target.column_step = p.out.step_w * kLanes;
        target.left = left < 0 ? 1 : 0;
        target.right = t < fours ? 4 : 3;
        while (target.right > target.left &&
               left + (target.right - 1) * p.out.step_w >= p.out.width)
          --target.right;
        const float* from = m + phase * p.out.channels * m_step + t * kLanes;
        for (std::int64_t c = 0; c < p.out.channels; ++c, from += m_step) {
          for (int lane = 0; lane < kLanes; lane += kNative) {
            if (t < fours)
              transform_tile<kFourDown, true>(from, out_plane, target, lane);
            else
              transform_tile<kFourDown, false>(from, out_plane, target, lane);
          }
          for (float*& r : target.rows)
            if (r != nullptr) r += p.out.plane();
        }
      }
    }
  }
}

void correlate(const Correlation& p, const float* x, const float* packed, float* y, float* scratch,
               int part) {
  const std::int64_t block = part / p.down.count, row = part % p.down.count;
  if (p.down.four(row))
    correlate_row<true>(p, x, packed, y, scratch, block, row);
  else
    correlate_row<false>(p, x, packed, y, scratch, block, row);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(pack_filters);
HWY_EXPORT(correlate);

namespace {

ConvWork work_of(const Correlation& p) {
  ConvWork work;
  work.phases = 2;
  work.parts[0] = static_cast<int>(p.channel_blocks());
  work.parts[1] = static_cast<int>(p.blocks * p.down.count);
  work.shared = p.filter_floats();
  work.scratch = correlation_scratch(p);
  return work;
}

void run(const ConvShape& s, const Correlation& p, const float* in, const float* w, float* out,
         float* shared, float* scratch, int phase, int part) {
  if (phase == 0)
    PODIUM_DISPATCH(pack_filters)(s, p, w, shared, part);
  else
    PODIUM_DISPATCH(correlate)(p, in, shared, out, scratch, part);
}

}  // namespace

bool conv_winograd_applies(const ConvShape& s) {
  return s.kernel_height == 3 * s.stride_height && s.kernel_width == 3 * s.stride_width;
}

ConvWork conv_winograd_forward_work(const ConvShape& s) { return work_of(forward_correlation(s)); }
void conv_winograd_forward(const ConvShape& s, const float* x, const float* w, float* y,
                           float* shared, float* scratch, int phase, int part) {
  run(s, forward_correlation(s), x, w, y, shared, scratch, phase, part);
}

ConvWork conv_winograd_grad_input_work(const ConvShape& s) {
  return work_of(gradient_correlation(s));
}
void conv_winograd_grad_input(const ConvShape& s, const float* dy, const float* w, float* dx,
                              float* shared, float* scratch, int phase, int part) {
  run(s, gradient_correlation(s), dy, w, dx, shared, scratch, phase, part);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
