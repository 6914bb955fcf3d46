// Winograd convolution, forward and gradient to the input: both are a correlation with 3x3 filters
// (winograd_shape.h). First the filters are transformed and packed; then a part, which is a span of
// tiles, transforms their patches and, some output channels at a time, multiplies over the input
// channels at each point and transforms back. Where tiles are few and filters large, the patches of
// all come first, and a part is some output channels, whose filters it makes: they never leave the
// cache.
#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/kernels/conv/winograd_shape.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/conv/winograd.cc"
#include "backend/cpu/kernels/foreach_target.h"

#ifndef PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_CC_
#define PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_CC_
#include <algorithm>
#include <array>
#include <utility>

namespace podium::cpu {
namespace {

// What a correlation reads and writes. What it reads may be the gradient to pooled pixels, and then
// has places, or be normalised; what it writes may be pooled, and then may have places.
struct Operands {
  const float *x, *x_place = nullptr, *w;
  float *y, *y_place = nullptr;
  bool pools = false;
  ImageNorm norm = {};
};

ConvWork work_of(const Correlation& p) {
  const std::int64_t zeros = zeros_floats(p.in.step_w * kLanes),
                     filters = p.points() * p.filter_plane(), patches = p.points() * p.in_plane(),
                     products = p.held_spans() * p.points() * p.out_plane();
  ConvWork work;
  work.phases = 2;
  if (p.keeps_patches()) {
    work.parts[0] = static_cast<int>(p.spans());
    work.parts[1] = static_cast<int>(p.block_runs());
    work.shared = p.spans() * patches;
    work.scratch = std::max(zeros, filters + products);
  } else {
    work.parts[0] = static_cast<int>(p.channel_blocks());
    work.parts[1] = static_cast<int>(p.spans());
    work.shared = filters;
    work.scratch = zeros + patches + products;
  }
  return work;
}

}  // namespace
}  // namespace podium::cpu
#endif  // PODIUM_BACKEND_CPU_KERNELS_CONV_WINOGRAD_CC_

#include "backend/cpu/kernels/conv/winograd_filters-inl.h"
#include "backend/cpu/kernels/conv/winograd_norm-inl.h"
#include "backend/cpu/kernels/conv/winograd_span-inl.h"
#include "backend/cpu/kernels/max-inl.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {
namespace {

using namespace winograd;

constexpr bool kFewRegisters = HWY_TARGET == HWY_AVX2;
constexpr int kMaxTiles = kFewRegisters ? 2 : 4;
// Up to this many tiles go with twelve channels at a time, more with six.
constexpr int kTilesOfTwelve = kFewRegisters ? 1 : 2;

// Input channels by which filters are fetched ahead of their product.
constexpr std::int64_t kAhead = 128;
// A register is a whole cache line: what is written past the caches leaves in whole lines.
constexpr bool kStreams = kNative == kLanes;

// m[k][t] = (add ? m : 0) + chain over the channels c of u[c][k] v[c][t].
struct Product {
  const float* u;
  std::int64_t u_step;
  std::int64_t u_ahead;  // what is fetched while u is multiplied
  const float* v;
  std::int64_t v_step;
  std::int64_t v_ahead;  // fetched to L2, unless it is 0
  std::int64_t channels;
  float* m;
  std::int64_t m_step;
  bool add;
};

template <int kChannels, int kTiles, bool kFetchesV>
HWY_INLINE void product(const Product& p) {
  const NativeTag d;
  for (int lane = 0; lane < kLanes; lane += kNative) {
    Native acc[kChannels][kTiles];
    PODIUM_UNROLL
    for (int k = 0; k < kChannels; ++k) PODIUM_UNROLL
    for (int t = 0; t < kTiles; ++t) acc[k][t] = hn::Zero(d);
    const float* HWY_RESTRICT u = p.u;
    const float* HWY_RESTRICT v = p.v + lane;
    for (std::int64_t c = 0; c < p.channels; ++c, u += p.u_step, v += p.v_step) {
      hwy::Prefetch(u + p.u_ahead);
      if constexpr (kFetchesV) {
        PODIUM_UNROLL
        for (int t = 0; t < kTiles; ++t) fetch_to_l2(v + p.v_ahead + t * kLanes);
      }
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
    const std::int64_t m_step = p.m_step;
    if (p.add) {
      PODIUM_UNROLL
      for (int k = 0; k < kChannels; ++k) PODIUM_UNROLL
      for (int t = 0; t < kTiles; ++t)
        acc[k][t] = hn::Add(hn::LoadU(d, m + k * m_step + t * kLanes), acc[k][t]);
    }
    PODIUM_UNROLL
    for (int k = 0; k < kChannels; ++k) PODIUM_UNROLL
    for (int t = 0; t < kTiles; ++t) hn::StoreU(acc[k][t], d, m + k * m_step + t * kLanes);
  }
}

template <int kChannels, int kTiles>
void product(const Product& p) {
  if (p.v_ahead == 0)
    product<kChannels, kTiles, false>(p);
  else
    product<kChannels, kTiles, true>(p);
}

using ProductFunction = void (*)(const Product&);
// The most channels that go with so many tiles, and the functions for up to as many.
constexpr int most_channels(int tiles) { return tiles <= kTilesOfTwelve ? 12 : 6; }
template <int kTiles, int... kChannels>
constexpr auto products(std::integer_sequence<int, kChannels...>) {
  return std::array<ProductFunction, sizeof...(kChannels)>{product<kChannels + 1, kTiles>...};
}
template <int kTiles>
constexpr auto kProducts =
    products<kTiles>(std::make_integer_sequence<int, most_channels(kTiles)>());

HWY_INLINE void multiply(const Product& p, std::int64_t channels, std::int64_t tiles) {
  Product part = p;
  for (std::int64_t t = 0; t < tiles; t += kMaxTiles) {
    const int count = static_cast<int>(std::min<std::int64_t>(kMaxTiles, tiles - t));
    part.v = p.v + t * kLanes;
    const std::int64_t most = most_channels(count), pieces = (channels + most - 1) / most;
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const Range k = share_of(channels, pieces, piece);
      part.u = p.u + k.begin;
      part.m = p.m + k.begin * p.m_step + t * kLanes;
      const auto size = static_cast<std::size_t>(k.end - k.begin - 1);
      switch (count) {
        case 1: kProducts<1>[size](part); break;
        case 2: kProducts<2>[size](part); break;
        case 3: kProducts<3>[size](part); break;
        default: kProducts<4>[size](part); break;
      }
    }
  }
}

// transform_inputs of a pooled gradient.
template <int kM>
void transform_pooled(const Correlation& p, const float* dy, const float* place, const Span& span,
                      const float* zeros, float* v) {
  const std::int64_t plane = p.in_plane(), step = p.span() * kLanes;
  const std::int64_t windows_plane = p.in.plane() / 4;
  HWY_ALIGN float pixels[Windows<kM>::kSide * Windows<kM>::kSide * kLanes];
  for (std::int64_t t = 0; t < span.count; ++t) {
    const SpanTile& tile = span.tiles[t];
    Patch patch = patch_of<kM>(p, dy, tile, 0, zeros);
    const Windows<kM> windows(p, tile);
    windows.set_rows(patch, pixels, zeros);
    const float* gradients = dy + tile.block * p.in.block() / 4;
    const float* places = place + tile.block * p.in.block() / 4;
    float* out = v + t * kLanes;
    for (std::int64_t c = 0; c < p.in.channels; ++c, out += step) {
      windows.lead_back(gradients, places, pixels);
      gradients += windows_plane, places += windows_plane;
      windows.for_each([&](std::int64_t at) HWY_ATTR {
        hwy::Prefetch(gradients + at);
        hwy::Prefetch(places + at);
      });
      for (int lane = 0; lane < kLanes; lane += kNative)
        transform_patch<kM, kAllRows>(patch, tile.whole_down, tile.whole_across, lane, Plain(),
                                      out + lane, plane, tile.shifts);
    }
  }
}

// v[point][channel][tile][16]
template <int kM>
void transform_inputs(const Correlation& p, const Operands& o, const Span& span, const float* zeros,
                      float* v) {
  if (o.x_place != nullptr) return transform_pooled<kM>(p, o.x, o.x_place, span, zeros, v);
  const std::int64_t plane = p.in_plane(), step = p.span() * kLanes;
  const bool fetched = !p.inputs_in_cache();
  for (std::int64_t phase = 0; phase < p.in.phases_h * p.in.phases_w; ++phase) {
    Patch patches[kSpan];
    for (std::int64_t t = 0; t < span.count; ++t)
      patches[t] = patch_of<kM>(p, o.x, span.tiles[t], phase, zeros);
    float* out = v + phase * p.in.channels * step;
    for (std::int64_t c = 0; c < p.in.channels; ++c, out += step)
      for (std::int64_t t = 0; t < span.count; ++t) {
        const SpanTile& tile = span.tiles[t];
        Patch& patch = patches[t];
        with_norm(o.norm, c, patch, zeros, [&](const auto& read) HWY_ATTR {
          for (int lane = 0; lane < kLanes; lane += kNative)
            transform_patch<kM, kAllRows>(patch, tile.whole_down, tile.whole_across, lane, read,
                                          out + t * kLanes + lane, plane, tile.shifts);
        });
        for (int i = 0; i < kM + 2; ++i) {
          const float*& r = patch.rows[i];
          if (r == zeros) continue;
          r += p.in.plane();
          if (!fetched) continue;
          // To L2: L1 is full of what this tile and its span's others write.
          for (int j = patch.left; j < patch.right; ++j) fetch_to_l2(r + j * patch.column_step);
        }
      }
  }
}

// transform_outputs, the largest of each window of 2x2 taken.
template <int kM>
void transform_to_pooled(const Correlation& p, const float* m, const Span& span,
                         const Range& channels, float* y, float* place) {
  const NativeTag d;
  const std::int64_t plane = p.out_plane(), step = p.span() * kLanes;
  const std::int64_t row = p.out.width / 2 * kLanes;
  const bool streamed = kStreams && streams(y, p.blocks * p.out.block() / 4) &&
                        (place == nullptr || streams(place, p.blocks * p.out.block() / 4));
  HWY_ALIGN float pixels[kM * kM * kLanes];
  Target target;
  for (int r = 0; r < kM; ++r) target.rows[r] = pixels + r * kM * kLanes;
  target.column_step = kLanes;
  target.left = 0, target.right = kM;
  const auto put = [&](Native value, float* to) HWY_ATTR {
    if (streamed)
      hn::Stream(value, d, to);
    else
      hn::StoreU(value, d, to);
  };
  for (std::int64_t c = channels.begin; c < channels.end; ++c, m += step)
    for (std::int64_t t = 0; t < span.count; ++t) {
      const SpanTile& tile = span.tiles[t];
      for (int lane = 0; lane < kLanes; lane += kNative)
        transform_tile<kM, true, true, false>(m + t * kLanes, plane, tile.shifts, target, lane);
      const std::int64_t corner = (tile.block * p.out.block() + c * p.out.plane()) / 4 +
                                  tile.i / 2 * row + tile.j / 2 * kLanes;
      for (int i = 0; i < kM / 2; ++i)
        for (int j = 0; j < kM / 2; ++j)
          for (int lane = 0; lane < kLanes; lane += kNative) {
            const Largest largest =
                largest_from(pixels + 2 * (i * kM + j) * kLanes + lane, kM * kLanes, 2, 2, 0);
            const std::int64_t at = corner + i * row + j * kLanes + lane;
            put(largest.value, y + at);
            if (place != nullptr) put(largest.place, place + at);
          }
    }
  end_streams(streamed);
}

// Where the tiles of a span go in the plane of an output's channel `first`, of one phase.
template <int kM>
void set_targets(const Correlation& p, const Span& span, std::int64_t phase, std::int64_t first,
                 float* y, Target* targets) {
  for (std::int64_t t = 0; t < span.count; ++t) {
    const SpanTile& tile = span.tiles[t];
    const std::int64_t top = p.out.step_h * tile.i + phase / p.out.phases_w + p.out.first_h;
    const std::int64_t left = p.out.step_w * tile.j + phase % p.out.phases_w + p.out.first_w;
    float* base = y + tile.block * p.out.block() + first * p.out.plane();
    Target& target = targets[t];
    for (int r = 0; r < kM; ++r) {
      const std::int64_t pixel = top + r * p.out.step_h;
      target.rows[r] = pixel >= 0 && pixel < p.out.height
                           ? base + (pixel * p.out.width + left) * kLanes
                           : nullptr;
    }
    target.column_step = p.out.step_w * kLanes;
    target.left = left < 0 ? 1 : 0;
    target.right = tile.whole_across ? kM : kM - 1;
    while (target.right > target.left && left + (target.right - 1) * p.out.step_w >= p.out.width)
      --target.right;
  }
}

// y from m[point][channel - channels.begin][tile][16]
template <int kM>
void transform_outputs(const Correlation& p, const float* m, const Span& span,
                       const Range& channels, float* y) {
  const std::int64_t plane = p.out_plane(), step = p.span() * kLanes;
  const bool streamed = kStreams && streams(y, p.blocks * p.out.block());
  const bool fetched = !streamed && !p.lands();
  for (std::int64_t begin = channels.begin; begin < channels.end;) {
    const std::int64_t phase = begin / p.out.channels, first = begin % p.out.channels;
    const std::int64_t end = std::min(channels.end, begin - first + p.out.channels);
    Target targets[kSpan];
    set_targets<kM>(p, span, phase, first, y, targets);
    const float* from = m + (begin - channels.begin) * step;
    for (std::int64_t c = begin; c < end; ++c, from += step)
      for (std::int64_t t = 0; t < span.count; ++t) {
        const SpanTile& tile = span.tiles[t];
        Target& target = targets[t];
        for (int lane = 0; lane < kLanes; lane += kNative) {
          const float* points = from + t * kLanes;
          if (streamed)
            transform_tile<kM, kStreams>(tile.whole_down, tile.whole_across, points, plane,
                                         tile.shifts, target, lane);
          else
            transform_tile<kM, false>(tile.whole_down, tile.whole_across, points, plane,
                                      tile.shifts, target, lane);
        }
        for (int i = 0; i < kM; ++i) {
          float*& r = target.rows[i];
          if (r == nullptr) continue;
          r += p.out.plane();
          if (!fetched) continue;
          for (int j = target.left; j < target.right; ++j) fetch_to_l2(r + j * target.column_step);
        }
      }
    begin = end;
  }
  end_streams(streamed);
}

// Fetches the lines that a span's outputs will replace to L2, while its products keep memory idle.
// A store to a line that lies in memory waits for it, and a tile's stores all come at once. Pooled
// outputs are fewer, and are not fetched.
template <int kM>
class Landing {
 public:
  Landing(const Correlation& p, const Operands& o, const Span& span, const Range& channels)
      : p_(p),
        lands_(p.lands() && !o.pools),
        tiles_(span.count),
        end_((channels.end - channels.begin) * span.count * kM) {
    if (lands_) set_targets<kM>(p, span, 0, channels.begin, o.y, targets_);
  }
  // To be called for each point.
  void advance(int point) {
    if (!lands_) return;
    for (const std::int64_t end = end_ * (point + 1) / p_.points(); next_ < end; ++next_) {
      const Target& target = targets_[next_ / kM % tiles_];
      const float* row = target.rows[next_ % kM];
      if (row == nullptr) continue;
      row += next_ / kM / tiles_ * p_.out.plane();
      for (int j = target.left; j < target.right; ++j) fetch_to_l2(row + j * target.column_step);
    }
  }

 private:
  const Correlation& p_;
  bool lands_;
  std::int64_t tiles_;
  Target targets_[kSpan];
  std::int64_t next_ = 0, end_;  // rows of pixels, of all channels
};

// Fetches the patches of a span to L2 while the products of the one before keep memory idle.
template <int kM>
class Approach {
 public:
  Approach(const Correlation& p, const float* x, const float* place, std::int64_t index)
      : p_(p), x_(x), place_(place), span_(p, index), end_(p.in.logical() * span_.count) {
    for (std::int64_t t = 0; t < span_.count; ++t)
      patches_[t] = patch_of<kM>(p, x, span_.tiles[t], 0, nullptr);
  }
  // To be called for each point.
  void advance(int point) {
    for (const std::int64_t end = end_ * (point + 1) / p_.points(); next_ < end; ++next_) {
      const std::int64_t t = next_ % span_.count, c = next_ / span_.count;
      if (place_ != nullptr) {
        const SpanTile& tile = span_.tiles[t];
        const std::int64_t at = tile.block * p_.in.block() / 4 + c * p_.in.plane() / 4;
        Windows<kM>(p_, tile).for_each([&](std::int64_t window) HWY_ATTR {
          fetch_to_l2(x_ + at + window);
          fetch_to_l2(place_ + at + window);
        });
        continue;
      }
      const Patch& patch = patches_[t];
      const int top = span_.tiles[t].i > 0 ? 2 : 0;
      const int left = span_.tiles[t].j > 0 ? 2 : patch.left;
      for (int i = top; i < kM + 2; ++i) {
        const float* r = patch.rows[i];
        if (r == nullptr) continue;
        r += c * p_.in.plane();
        for (int j = left; j < patch.right; ++j) fetch_to_l2(r + j * patch.column_step);
      }
    }
  }

 private:
  const Correlation& p_;
  const float *x_, *place_;
  Span span_;
  Patch patches_[kSpan];
  std::int64_t next_ = 0, end_;
};

// The products of the output channels of `blocks` and the input channels `inputs` in a span of
// tiles; packed[point][output channel of the blocks]. Calls meanwhile(point) before those of a
// point.
template <int kM, typename Meanwhile>
void multiply_span(const Correlation& p, const Span& span, const float* v, const float* packed,
                   const Range& blocks, const Range& inputs, float* m, const Meanwhile& meanwhile) {
  const std::int64_t step = p.span() * kLanes, first = p.channel_block(blocks.begin).begin;
  const std::int64_t ahead = p.packs_runs() ? p.in_plane() : kChannelRun * step;
  for (int point = 0; point < kAxis<kM> * kAxis<kM>; ++point) {
    const std::int64_t count = span.having<kM>(point);
    meanwhile(point);
    if (count == 0) continue;
    for (std::int64_t b = blocks.begin; b < blocks.end; ++b) {
      const Range channels = p.channel_block(b);
      const std::int64_t size = channels.end - channels.begin, at = channels.begin - first;
      const float* filters = packed + point * p.filter_plane() + at * (inputs.end - inputs.begin);
      for (std::int64_t c = inputs.begin; c < inputs.end; c += kChannelRun) {
        Product part;
        part.u = filters + (c - inputs.begin) * size;
        part.u_step = size;
        part.u_ahead = p.large_filters() ? kAhead * size : 0;
        part.v = v + point * p.in_plane() + c * step;
        part.v_step = step;
        part.v_ahead = p.keeps_patches() && b == blocks.begin ? ahead : 0;
        part.channels = std::min(kChannelRun, inputs.end - c);
        part.m = m + point * p.out_plane() + at * step;
        part.m_step = step;
        part.add = c > 0;
        multiply(part, size, count);
      }
    }
  }
}

// The output channels of `blocks` in a span of tiles, from their products.
template <int kM>
void transform_products(const Correlation& p, const Span& span, const float* m, const Range& blocks,
                        const Operands& operands) {
  const Range made = p.channels_of(blocks);
  if (operands.pools)
    transform_to_pooled<kM>(p, m, span, made, operands.y, operands.y_place);
  else
    transform_outputs<kM>(p, m, span, made, operands.y);
}

// First phase: the filters of a block, or the patches of a span.
template <int kM>
void prepare_tiles(const ConvShape& s, const Correlation& p, const Operands& o, float* shared,
                   float* scratch, int part) {
  if (p.keeps_patches()) {
    std::fill_n(scratch, zeros_floats(p.in.step_w * kLanes), 0.0f);
    transform_inputs<kM>(p, o, Span(p, part), scratch, shared + part * p.points() * p.in_plane());
  } else {
    const Range inputs = {0, p.in.logical()};
    pack_block<kM>(s, p, o.w, shared + p.channel_block(part).begin * inputs.end, part, inputs);
  }
}
void prepare(const ConvShape& s, const Correlation& p, const Operands& o, float* shared,
             float* scratch, int part) {
  podium::winograd::for_tile(
      p.tile(), [&](auto m) { prepare_tiles<decltype(m)::value>(s, p, o, shared, scratch, part); });
}

// Second phase: a span, or some output channels.
template <int kM>
void finish_tiles(const ConvShape& s, const Correlation& p, const Operands& o, const float* shared,
                  float* scratch, int part) {
  const std::int64_t inputs = p.in.logical();
  if (p.keeps_patches()) {
    const Range blocks = p.blocks_of_run(part);
    float* packed = scratch;
    float* m = packed + p.points() * p.filter_plane();
    const std::int64_t first = p.channel_block(blocks.begin).begin;
    const std::int64_t held = p.held_inputs(), spans = p.spans(), held_spans = p.held_spans();
    for (std::int64_t begin = 0; begin < inputs; begin += held) {
      const Range run = {begin, std::min(begin + held, inputs)};
      for (std::int64_t b = blocks.begin; b < blocks.end; ++b)
        pack_block<kM>(s, p, o.w, packed + (p.channel_block(b).begin - first) * (run.end - begin),
                       b, run);
      for (std::int64_t i = 0; i < spans; ++i) {
        const Span span(p, i);
        float* products = m + i % held_spans * p.points() * p.out_plane();
        multiply_span<kM>(p, span, shared + i * p.points() * p.in_plane(), packed, blocks, run,
                          products, [](int) {});
        if (run.end == inputs) transform_products<kM>(p, span, products, blocks, o);
      }
    }
  } else {
    float* v = scratch + zeros_floats(p.in.step_w * kLanes);
    float* m = v + p.points() * p.in_plane();
    std::fill(scratch, v, 0.0f);
    const Span span(p, part);
    transform_inputs<kM>(p, o, span, scratch, v);
    Approach<kM> approach(p, o.x, o.x_place, std::min<std::int64_t>(part + 1, p.spans() - 1));
    for (std::int64_t i = 0; i < p.block_runs(); ++i) {
      const Range blocks = p.blocks_of_run(i);
      const Range made = p.channels_of(blocks);
      const bool approaches = p.fetches() && i + 1 == p.block_runs();
      Landing<kM> landing(p, o, span, made);
      multiply_span<kM>(p, span, v, shared + made.begin * inputs, blocks, {0, inputs}, m,
                        [&](int point) {
                          if (approaches) approach.advance(point);
                          landing.advance(point);
                        });
      transform_products<kM>(p, span, m, blocks, o);
    }
  }
}
void finish(const ConvShape& s, const Correlation& p, const Operands& o, const float* shared,
            float* scratch, int part) {
  podium::winograd::for_tile(
      p.tile(), [&](auto m) { finish_tiles<decltype(m)::value>(s, p, o, shared, scratch, part); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(prepare);
HWY_EXPORT(finish);

namespace {

void run(const ConvShape& s, const Correlation& p, const Operands& operands, float* shared,
         float* scratch, int phase, int part) {
  if (phase == 0)
    PODIUM_DISPATCH(prepare)(s, p, operands, shared, scratch, part);
  else
    PODIUM_DISPATCH(finish)(s, p, operands, shared, scratch, part);
}

}  // namespace

bool conv_winograd_applies(const ConvShape& s) {
  return s.kernel_height == 3 * s.stride_height && s.kernel_width == 3 * s.stride_width;
}

ConvWork conv_winograd_forward_work(const ConvShape& s) { return work_of(forward_correlation(s)); }
void conv_winograd_forward(const ConvShape& s, const float* x, const float* w, float* y,
                           float* shared, float* scratch, int phase, int part) {
  run(s, forward_correlation(s), {.x = x, .w = w, .y = y}, shared, scratch, phase, part);
}
void conv_winograd_fused_forward(const ConvShape& s, const ConvForward& t, float* shared,
                                 float* scratch, int phase, int part) {
  run(s, forward_correlation(s),
      {.x = t.x, .w = t.w, .y = t.y, .y_place = t.place, .pools = t.pools, .norm = t.norm}, shared,
      scratch, phase, part);
}

ConvWork conv_winograd_grad_input_work(const ConvShape& s) {
  return work_of(gradient_correlation(s));
}
void conv_winograd_grad_input(const ConvShape& s, const float* dy, const float* w, float* dx,
                              float* shared, float* scratch, int phase, int part) {
  run(s, gradient_correlation(s), {.x = dy, .w = w, .y = dx}, shared, scratch, phase, part);
}
void conv_winograd_grad_input_pooled(const ConvShape& s, const float* dy, const float* place,
                                     const float* w, float* dx, float* shared, float* scratch,
                                     int phase, int part) {
  run(s, gradient_correlation(s), {.x = dy, .x_place = place, .w = w, .y = dx}, shared, scratch,
      phase, part);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
