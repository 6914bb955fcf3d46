#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/plane_sums.h"
#include "backend/cuda/kernels/planes.h"
#include "base/numerics/activation.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

// The terms of channel_sum, and of the statistics of a batch norm: x and its square.
template <bool kSquares>
struct Values {
  static constexpr int kWide = 1, kAhead = 8;
  Source x;

  struct Tile {
    std::uint32_t x[kTileRows];  // bits
  };
  using Channel = SourceAt;
  __device__ Channel channel(const PlaneShape& s, std::int64_t c, std::int64_t n,
                             unsigned r) const {
    return {x, r, c * s.inner() + n};
  }
  __device__ void load(Tile& tile, const Channel& from, const PlaneShape& s,
                       const TilePlace& place) const {
    const auto line = static_cast<unsigned>(s.width * s.images);
#pragma unroll
    for (unsigned i = 0; i < kTileRows; ++i)
      if (i < place.rows) tile.x[i] = from.bits(place.pixel + i * line);
  }
  __device__ void add(Pair (&sums)[kWide], const Tile& tile, const Channel& from,
                      unsigned rows) const {
#pragma unroll
    for (unsigned i = 0; i < kTileRows; ++i) {
      if (i >= rows) continue;
      const float value = from.value(tile.x[i]);
      sums[0].a = sums[0].a + value;
      if (kSquares) sums[0].b = std::fma(value, value, sums[0].b);
    }
  }
};

// An activation without exp, whose registers cost a kernel speed, and without branches: below zero
// the value times `slope`, or +0 where it `cuts`. Without activation the slope is 1.
struct CheapActivation {
  bool cuts;
  float slope;
  explicit CheapActivation(const Activation& a)
      : cuts(a.kind == ActivationKind::kRelu),
        slope(a.kind == ActivationKind::kLeakyRelu ? a.slope : 1) {}
};
__device__ inline float activated(const CheapActivation& a, float x) {
  return x > 0 || x != x ? x : a.cuts ? 0.0f : a.slope * x;
}
__device__ inline float activated(const Activation& a, float x) { return activate_f32(a, x); }
__device__ inline float activated_grad(const CheapActivation& a, float dy, float x) {
  return x > 0 ? dy : a.cuts ? 0.0f : a.slope * dy;
}
__device__ inline float activated_grad(const Activation& a, float dy, float x) {
  return activate_grad_f32(a, dy, x);
}

// What a batch norm makes of x before its activation.
struct Affine {
  float scale, shift;
  __device__ float operator()(float x) const { return std::fma(x, scale, shift); }
};

// Which of a window's pixels, row by row, is the largest: the first of equals, NaN larger than all.
__device__ inline int largest_of_four(const float (&values)[4], float& largest) {
  int best = 0;
  largest = values[0];
#pragma unroll
  for (int k = 1; k < 4; ++k)
    if (values[k] > largest || values[k] != values[k]) best = k, largest = values[k];
  return best;
}

// The gradient to what the batch norm put out before its activation, at the four pixels of a window
// whose largest, activated, has the gradient dy.
template <typename Kind>
__device__ void window_gradients(const Kind& activation, const Affine& affine, const float (&x)[4],
                                 float dy, float (&to)[4]) {
  float before[4], after[4], largest = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    before[k] = affine(x[k]);
    after[k] = activated(activation, before[k]);
  }
  const int place = largest_of_four(after, largest);
#pragma unroll
  for (int k = 0; k < 4; ++k) to[k] = activated_grad(activation, k == place ? dy : 0.0f, before[k]);
}

// What the sums of a gradient know of a channel and image.
struct GradientChannel {
  SourceAt x, dy;
  Affine affine;
  float mean;
};
__device__ inline GradientChannel gradient_channel(const PlaneShape& s, const NormGradOperands& o,
                                                   std::int64_t dy_inner, std::int64_t c,
                                                   std::int64_t n, unsigned r) {
  const float scale = o.gamma.of(r)[c] * o.inv_std.of(r)[c], mean = o.mean.of(r)[c];
  return {{o.x, r, c * s.inner() + n},
          {o.dy, r, c * dy_inner + n},
          {scale, std::fma(-mean, scale, o.beta.of(r)[c])},
          mean};
}
__device__ inline void add_gradient(Pair& sum, float dy, float x, float mean) {
  sum.a = sum.a + dy;
  sum.b = std::fma(dy, x - mean, sum.b);
}

// The terms of the sums of a batch norm's gradient.
struct Gradients {
  static constexpr int kWide = 1, kAhead = 4;
  CheapActivation activation;
  NormGradOperands o;

  struct Tile {
    std::uint32_t x[kTileRows], dy[kTileRows];  // bits
  };
  using Channel = GradientChannel;
  __device__ Channel channel(const PlaneShape& s, std::int64_t c, std::int64_t n,
                             unsigned r) const {
    return gradient_channel(s, o, s.inner(), c, n, r);
  }
  __device__ void load(Tile& tile, const Channel& from, const PlaneShape& s,
                       const TilePlace& place) const {
    const auto line = static_cast<unsigned>(s.width * s.images);
#pragma unroll
    for (unsigned i = 0; i < kTileRows; ++i) {
      if (i >= place.rows) continue;
      tile.x[i] = from.x.bits(place.pixel + i * line);
      tile.dy[i] = from.dy.bits(place.pixel + i * line);
    }
  }
  __device__ void add(Pair (&sums)[kWide], const Tile& tile, const Channel& channel,
                      unsigned rows) const {
#pragma unroll
    for (unsigned i = 0; i < kTileRows; ++i) {
      if (i >= rows) continue;
      const float x = channel.x.value(tile.x[i]), dy = channel.dy.value(tile.dy[i]);
      add_gradient(sums[0], activated_grad(activation, dy, channel.affine(x)), x, channel.mean);
    }
  }
};

// The same behind a pooling over windows of 2x2: a thread has both columns of a window.
struct PooledGradients {
  static constexpr int kWide = 2, kAhead = 3, kWindows = kTileRows / 2;
  CheapActivation activation;
  NormGradOperands o;

  struct Tile {
    std::uint32_t x[kWindows][4], dy[kWindows];  // bits
  };
  using Channel = GradientChannel;
  __device__ Channel channel(const PlaneShape& s, std::int64_t c, std::int64_t n,
                             unsigned r) const {
    return gradient_channel(s, o, s.inner() / 4, c, n, r);
  }
  __device__ void load(Tile& tile, const Channel& from, const PlaneShape& s,
                       const TilePlace& place) const {
    const auto images = static_cast<unsigned>(s.images),
               line = static_cast<unsigned>(s.width * s.images);
#pragma unroll
    for (unsigned i = 0; i < kWindows; ++i) {
      if (2 * i >= place.rows) continue;
#pragma unroll
      for (unsigned k = 0; k < 4; ++k)
        tile.x[i][k] = from.x.bits(place.pixel + (2 * i + k / 2) * line + k % 2 * images);
      tile.dy[i] = from.dy.bits(place.window + i * (line / 2));
    }
  }
  __device__ void add(Pair (&sums)[kWide], const Tile& tile, const Channel& channel,
                      unsigned rows) const {
#pragma unroll
    for (unsigned i = 0; i < kWindows; ++i) {
      if (2 * i >= rows) continue;
      float x[4], dy[4];
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) x[k] = channel.x.value(tile.x[i][k]);
      window_gradients(activation, channel.affine, x, channel.dy.value(tile.dy[i]), dy);
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) add_gradient(sums[k % 2], dy[k], x[k], channel.mean);
    }
  }
};

// The windows of 2x2 that tile the planes of a channel, in packs of kWidth images.
template <int kWidth>
struct Windows {
  Divisor packs, across;
  unsigned images, width;  // of the plane
  explicit Windows(const PlaneShape& s)
      : packs(s.images / kWidth),
        across(std::max<std::int64_t>(1, s.width / 2)),
        images(static_cast<unsigned>(s.images)),
        width(static_cast<unsigned>(s.width)) {}

  // Where in the channel the first pixel of pack i lies; the pack itself begins at i * kWidth.
  __device__ unsigned first(unsigned i) const {
    unsigned window = i;
    const unsigned pack = packs.split(window);
    unsigned h = window;
    const unsigned w = across.split(h);
    return (2 * h * width + 2 * w) * images + pack * kWidth;
  }
  // How far behind it pixel k lies.
  __device__ unsigned behind(int k) const {
    return (static_cast<unsigned>(k / 2) * width + static_cast<unsigned>(k % 2)) * images;
  }
};

template <int kWidth, typename Kind>
void apply(const Launch& launch, const PlaneShape& s, const NormResult& result, Source x,
           ConstFloats affine, Source addend, const Result& y) {
  const Kind activation(result.activation);
  const bool adds = result.adds, activates_sum = result.activates_sum;
  const std::int64_t inner = s.inner();
  launch_rows(
      launch, s.channels, inner / kWidth, [=] __device__(std::int64_t c, unsigned i, unsigned r) {
        const std::int64_t at = c * inner + std::int64_t{i} * kWidth;
        const Pack<kWidth> in = load_pack<kWidth>(x, r, at);
        const Pack<kWidth> more = adds ? load_pack<kWidth>(addend, r, at) : in;
        const Affine norm{affine.of(r)[c], affine.of(r)[s.channels + c]};
        Pack<kWidth> out;
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
          const float before = norm(in.v[k]);
          const float value = activated(activation, activates_sum ? before + more.v[k] : before);
          out.v[k] = adds && !activates_sum ? value + more.v[k] : value;
        }
        store_pack(y, r, at, out);
      });
}

template <int kWidth, typename Kind>
void apply_and_pool(const Launch& launch, const PlaneShape& s, const NormResult& result, Source x,
                    ConstFloats affine, const Result& y) {
  const Kind activation(result.activation);
  const std::int64_t inner = s.inner();
  const Windows<kWidth> windows(s);
  launch_rows(launch, s.channels, inner / 4 / kWidth,
              [=] __device__(std::int64_t c, unsigned i, unsigned r) {
                const std::int64_t from = c * inner + windows.first(i);
                Pack<kWidth> in[4], out;
#pragma unroll
                for (int k = 0; k < 4; ++k)
                  in[k] = load_pack<kWidth>(x, r, from + windows.behind(k));
                const Affine norm{affine.of(r)[c], affine.of(r)[s.channels + c]};
#pragma unroll
                for (int j = 0; j < kWidth; ++j) {
                  float values[4];
#pragma unroll
                  for (int k = 0; k < 4; ++k) values[k] = activated(activation, norm(in[k].v[j]));
                  largest_of_four(values, out.v[j]);
                }
                store_pack(y, r, c * (inner / 4) + std::int64_t{i} * kWidth, out);
              });
}

// What makes dx of x and the gradient before the activation, of a channel: `factors` of
// batch_norm_grad().
constexpr int kFactors = 4;
struct GradientFactors {
  float to_dy, to_x, rest;
  Affine affine;
  __device__ GradientFactors(const float* factors, std::int64_t c) {
    const float* const f = factors + kFactors * c;
    to_dy = f[0], to_x = f[1], rest = f[2];
    affine = {f[0], f[3]};
  }
  __device__ float operator()(float dy, float x) const {
    return std::fma(to_dy, dy, std::fma(to_x, x, rest));
  }
};

template <int kWidth>
void apply_grad(const Launch& launch, const PlaneShape& s, const NormResult& result,
                const NormGradOperands& operands, ConstFloats factors) {
  const NormGradOperands o = operands;
  const CheapActivation activation(result.activation);
  const bool adds = result.adds;
  const std::int64_t inner = s.inner();
  launch_rows(
      launch, s.channels, inner / kWidth, [=] __device__(std::int64_t c, unsigned i, unsigned r) {
        const std::int64_t at = c * inner + std::int64_t{i} * kWidth;
        const Pack<kWidth> x = load_pack<kWidth>(o.x, r, at), dy = load_pack<kWidth>(o.dy, r, at),
                           more = adds ? load_pack<kWidth>(o.addend, r, at) : x;
        const GradientFactors f(factors.of(r), c);
        Pack<kWidth> out;
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
          const float value = f(activated_grad(activation, dy.v[k], f.affine(x.v[k])), x.v[k]);
          out.v[k] = adds ? value + more.v[k] : value;
        }
        store_pack(o.dx, r, at, out);
      });
}

template <int kWidth>
void apply_pooled_grad(const Launch& launch, const PlaneShape& s, const NormResult& result,
                       const NormGradOperands& operands, ConstFloats factors) {
  const NormGradOperands o = operands;
  const CheapActivation activation(result.activation);
  const bool adds = result.adds;
  const std::int64_t inner = s.inner();
  const Windows<kWidth> windows(s);
  launch_rows(launch, s.channels, inner / 4 / kWidth,
              [=] __device__(std::int64_t c, unsigned i, unsigned r) {
                const std::int64_t at = c * inner + windows.first(i);
                const Pack<kWidth> dy =
                    load_pack<kWidth>(o.dy, r, c * (inner / 4) + std::int64_t{i} * kWidth);
                Pack<kWidth> x[4], more[4], out[4];
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                  x[k] = load_pack<kWidth>(o.x, r, at + windows.behind(k));
                  more[k] = adds ? load_pack<kWidth>(o.addend, r, at + windows.behind(k)) : x[k];
                }
                const GradientFactors f(factors.of(r), c);
#pragma unroll
                for (int j = 0; j < kWidth; ++j) {
                  float to[4];
                  window_gradients(activation, f.affine,
                                   {x[0].v[j], x[1].v[j], x[2].v[j], x[3].v[j]}, dy.v[j], to);
#pragma unroll
                  for (int k = 0; k < 4; ++k) {
                    const float value = f(to[k], x[k].v[j]);
                    out[k].v[j] = adds ? value + more[k].v[j] : value;
                  }
                }
#pragma unroll
                for (int k = 0; k < 4; ++k) store_pack(o.dx, r, at + windows.behind(k), out[k]);
              });
}

// Where the activation is costly: the gradient before it.
void gradient_before_activation(const Launch& launch, const PlaneShape& s, const NormResult& result,
                                const NormGradOperands& operands, Floats before) {
  const NormGradOperands o = operands;
  const Activation activation = result.activation;
  const std::int64_t inner = s.inner();
  const auto affine_of = [=] __device__(std::int64_t c, unsigned r) {
    const float scale = o.gamma.of(r)[c] * o.inv_std.of(r)[c];
    return Affine{scale, std::fma(-o.mean.of(r)[c], scale, o.beta.of(r)[c])};
  };
  if (!result.pools) {
    launch_rows(launch, s.channels, inner, [=] __device__(std::int64_t c, unsigned i, unsigned r) {
      const std::int64_t at = c * inner + i;
      before.of(r)[at] =
          activate_grad_f32(activation, load(o.dy, r, at), affine_of(c, r)(load(o.x, r, at)));
    });
    return;
  }
  const Windows<1> windows(s);
  launch_rows(
      launch, s.channels, inner / 4, [=] __device__(std::int64_t c, unsigned i, unsigned r) {
        const std::int64_t at = c * inner + windows.first(i);
        float x[4], to[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) x[k] = load(o.x, r, at + windows.behind(k));
        window_gradients(activation, affine_of(c, r), x, load(o.dy, r, c * (inner / 4) + i), to);
#pragma unroll
        for (int k = 0; k < 4; ++k) before.of(r)[at + windows.behind(k)] = to[k];
      });
}

}  // namespace

std::int64_t plane_sums_scratch(const PlaneShape& s) {
  return sums_channels_at_once(s) ? 0 : 2 * s.channels * bands_of(s) * s.images;
}
std::int64_t norm_grad_factors(const PlaneShape& s) { return kFactors * s.channels; }
bool norm_grad_needs_before(const NormResult& result) { return is_costly(result.activation.kind); }

void channel_sum(const Launch& launch, const PlaneShape& s, Source x, Floats scratch, Floats sum) {
  plane_sums(launch, s, scratch, Values<false>{x},
             [=] __device__(Pair p, std::int64_t c, unsigned r) { sum.of(r)[c] = p.a; });
}

void batch_norm_statistics(const Launch& launch, const PlaneShape& s, float epsilon, Source x,
                           ConstFloats gamma, ConstFloats beta, Floats scratch,
                           const Statistics& statistics, Floats affine) {
  const auto m = static_cast<float>(s.images * s.pixels());
  const Statistics to = statistics;
  plane_sums(launch, s, scratch, Values<true>{x},
             [=] __device__(Pair p, std::int64_t c, unsigned r) {
               const float mean = p.a / m;
               const float raw = std::fma(-mean, mean, p.b / m);
               const float variance = raw < 0 ? 0.0f : raw;
               const float inv_std = 1.0f / std::sqrt(variance + epsilon);
               const float scale = gamma.of(r)[c] * inv_std;
               to.mean.of(r)[c] = mean;
               to.variance.of(r)[c] = variance;
               to.inv_std.of(r)[c] = inv_std;
               affine.of(r)[c] = scale;
               affine.of(r)[s.channels + c] = std::fma(-mean, scale, beta.of(r)[c]);
             });
}

void batch_norm_affine(const Launch& launch, std::int64_t channels, float epsilon,
                       ConstFloats gamma, ConstFloats beta, ConstFloats mean, ConstFloats variance,
                       Floats affine) {
  launch_flat(launch, channels, [=] __device__(std::int64_t c, unsigned r) {
    const float inv_std = 1.0f / std::sqrt(variance.of(r)[c] + epsilon);
    const float scale = gamma.of(r)[c] * inv_std;
    affine.of(r)[c] = scale;
    affine.of(r)[channels + c] = std::fma(-mean.of(r)[c], scale, beta.of(r)[c]);
  });
}

void batch_norm_apply(const Launch& launch, const PlaneShape& s, const NormResult& result, Source x,
                      ConstFloats affine, Source addend, const Result& y) {
  const bool costly = is_costly(result.activation.kind);
  if (result.pools) {
    if (costly)
      apply_and_pool<1, Activation>(launch, s, result, x, affine, y);
    else if (has_packs(s.images, {x, y.floats}))
      apply_and_pool<4, CheapActivation>(launch, s, result, x, affine, y);
    else
      apply_and_pool<1, CheapActivation>(launch, s, result, x, affine, y);
    return;
  }
  if (costly)
    apply<1, Activation>(launch, s, result, x, affine, addend, y);
  else if (has_packs(s.inner(), {x, y.floats, result.adds ? addend : x}))
    apply<4, CheapActivation>(launch, s, result, x, affine, addend, y);
  else
    apply<1, CheapActivation>(launch, s, result, x, affine, addend, y);
}

void batch_norm_grad(const Launch& launch, const PlaneShape& s, const NormResult& result,
                     const NormGradOperands& operands, Floats scratch, Floats factors,
                     Floats before) {
  const auto m = static_cast<float>(s.images * s.pixels());
  NormGradOperands o = operands;
  NormResult of = result;
  if (norm_grad_needs_before(result)) {
    // Computed once; the rest takes it for the gradient.
    gradient_before_activation(launch, s, result, o, before);
    o.dy = before;
    of = {.activation = {}, .pools = false, .adds = result.adds};
  }
  const auto finish = [=] __device__(Pair p, std::int64_t c, unsigned r) {
    const float inv_std = o.inv_std.of(r)[c], mean = o.mean.of(r)[c];
    const float dgamma = p.b * inv_std;
    o.dbeta.of(r)[c] = p.a;
    o.dgamma.of(r)[c] = dgamma;
    const float to_dy = o.gamma.of(r)[c] * inv_std;
    const float to_x = -(to_dy * inv_std) * (dgamma / m);
    float* const f = factors.of(r) + kFactors * c;
    f[0] = to_dy;
    f[1] = to_x;
    f[2] = std::fma(-to_x, mean, -(to_dy * (p.a / m)));
    f[3] = std::fma(-mean, to_dy, o.beta.of(r)[c]);
  };
  if (of.pools) {
    plane_sums(launch, s, scratch, PooledGradients{CheapActivation(of.activation), o}, finish);
    if (has_packs(s.images, {o.x, o.dy, o.dx.floats, of.adds ? o.addend : o.x}))
      apply_pooled_grad<4>(launch, s, of, o, factors);
    else
      apply_pooled_grad<1>(launch, s, of, o, factors);
    return;
  }
  plane_sums(launch, s, scratch, Gradients{CheapActivation(of.activation), o}, finish);
  if (has_packs(s.inner(), {o.x, o.dy, o.dx.floats, of.adds ? o.addend : o.x}))
    apply_grad<4>(launch, s, of, o, factors);
  else
    apply_grad<1>(launch, s, of, o, factors);
}

void batch_norm_running(const Launch& launch, std::span<const RunningPart> parts) {
  launch_parts(launch, parts, [] __device__(const RunningPart& part, std::int64_t c, unsigned r) {
    const RunningOperands& o = part.operands;
    const float momentum = part.attributes.momentum, rest = 1.0f - momentum;
    const auto m = static_cast<float>(part.attributes.count);
    const float unbiased = m / (m - 1.0f);
    o.new_mean.of(r)[c] = std::fma(momentum, o.old_mean.of(r)[c], rest * o.mean.of(r)[c]);
    o.new_variance.of(r)[c] =
        std::fma(momentum, o.old_variance.of(r)[c], rest * (o.variance.of(r)[c] * unbiased));
  });
}

}  // namespace podium::PODIUM_CUDA_SPACE
