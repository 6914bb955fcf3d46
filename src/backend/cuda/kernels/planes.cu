#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/planes.h"
#include "backend/cuda/kernels/sums.h"
#include "backend/cuda/kernels/tree_total.h"
#include "backend/cuda/seeded_fault.h"
#include "base/activation.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

constexpr int kChains = 4;  // of a pixel sum: the columns modulo 4
constexpr int kColumns = 32;

struct Pair {
  float a, b;
};

std::int64_t bands_of(const PlaneShape& s) { return (s.height + kBandRows - 1) / kBandRows; }

// The four chains of a plane are threads of a block, and so are 32 images.
struct Chains {
  Pair sums[kChains][kColumns];
};

// partial[(channel * bands + band) * images + n] and, as far behind as there are of these, the
// second sum: pixel sums of one band of each plane. `step(pair, c, h, w, n, replica)` adds the
// pixel's terms.
template <typename Step>
__global__ void __launch_bounds__(kChains* kColumns)
    pixel_sums_kernel(PlaneShape s, Step step, Floats partial) {
  auto& shared = simt::shared<Chains>();
  const auto chunks = static_cast<unsigned>((s.images + kColumns - 1) / kColumns);
  const std::int64_t c = blockIdx.x / chunks;
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x % chunks) * kColumns + threadIdx.x;
  const int chain = static_cast<int>(threadIdx.y);
  const std::int64_t bands = gridDim.y, begin = blockIdx.y * kBandRows;
  const std::int64_t end = begin + kBandRows < s.height ? begin + kBandRows : s.height;
  Pair sum{0, 0};
  if (n < s.images) {
    for (std::int64_t top = begin; top < end; top += 4)
      for (std::int64_t w = chain; w < s.width; w += 4) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (top + i < end) step(sum, c, top + i, w, n, blockIdx.z);
      }
  }
  if (chain < s.width || !seeded(SeededFault::kSharedUnwritten))
    shared.sums[chain][threadIdx.x] = sum;
  __syncthreads();
  if (chain != 0 || n >= s.images) return;
  const auto& all = shared.sums;
  const int i = static_cast<int>(threadIdx.x);
  float* const to = partial.of(blockIdx.z) + (c * bands + blockIdx.y) * s.images + n;
  to[0] = (all[0][i].a + all[1][i].a) + (all[2][i].a + all[3][i].a);
  if (seeded(SeededFault::kScratchUnwritten)) return;
  to[s.channels * bands * s.images] = (all[0][i].b + all[1][i].b) + (all[2][i].b + all[3][i].b);
}

// The image sums of channel blockIdx.x, given to finish(sums, c, replica) on one thread: half of
// the warp has the lanes of the first sum, the other half those of the second.
template <typename Finish>
__global__ void __launch_bounds__(2 * kLanes)
    image_sums_kernel(PlaneShape s, std::int64_t bands, ConstFloats partial, Finish finish) {
  const std::int64_t c = blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x) % kLanes,
            which = static_cast<int>(threadIdx.x) / kLanes;
  const float* const from = partial.of(blockIdx.z) + (which * s.channels + c) * bands * s.images;
  float sum = 0;
  for (std::int64_t n = lane; n < s.images; n += kLanes) {
    TreeTotal plane;
    for (std::int64_t band = 0; band < bands; ++band) plane.add(from[band * s.images + n]);
    sum = sum + plane.total();
  }
  sum = lane_tree(sum);
  const unsigned mask = seeded(SeededFault::kLaneMissingInMask) ? 0xffffu : ~0u;
  const float other = __shfl_xor_sync(mask, sum, kLanes);
  if (threadIdx.x == 0) finish(Pair{sum, other}, c, blockIdx.z);
}

template <typename Step, typename Finish>
void plane_sums(const Launch& launch, const PlaneShape& s, Floats scratch, Step step,
                Finish finish) {
  const auto replicas = static_cast<unsigned>(launch.replicas);
  const std::int64_t bands = bands_of(s);
  const std::int64_t chunks = (s.images + kColumns - 1) / kColumns;
  simt::launch(pixel_sums_kernel<Step>,
               {.blocks = {static_cast<unsigned>(s.channels * chunks), static_cast<unsigned>(bands),
                           replicas},
                .threads = {kColumns, kChains, 1},
                .shared_bytes = sizeof(Chains)},
               launch.stream, s, step, scratch);
  simt::launch(
      image_sums_kernel<Finish>,
      {.blocks = {static_cast<unsigned>(s.channels), 1, replicas}, .threads = {2 * kLanes, 1, 1}},
      launch.stream, s, bands, scratch, finish);
}

__device__ inline std::int64_t at(const PlaneShape& s, std::int64_t c, std::int64_t h,
                                  std::int64_t w, std::int64_t n) {
  return ((c * s.height + h) * s.width + w) * s.images + n;
}

// Element i of the images.
struct Pixel {
  std::int64_t n, w, h, c;
  __device__ Pixel(const PlaneShape& s, std::int64_t i) {
    n = i % s.images, i /= s.images;
    w = i % s.width, i /= s.width;
    h = i % s.height, c = i / s.height;
  }
};

// What a batch norm with an activation makes of x at a pixel.
struct Normalised {
  PlaneShape s;
  Activation activation;
  const float* x;
  float scale, shift;
  __device__ float operator()(std::int64_t c, std::int64_t h, std::int64_t w,
                              std::int64_t n) const {
    return activate_f32(activation, std::fma(x[at(s, c, h, w, n)], scale, shift));
  }
};

// Which pixel of a window of 2x2, row by row, is the largest: the first of equals, NaN larger than
// all.
template <typename F>
__device__ int largest_of_four(const F& f, std::int64_t c, std::int64_t h, std::int64_t w,
                               std::int64_t n, float& value) {
  int best = 0;
  value = f(c, h, w, n);
#pragma unroll
  for (int k = 1; k < 4; ++k) {
    const float next = f(c, h + k / 2, w + k % 2, n);
    if (next > value || next != next) best = k, value = next;
  }
  return best;
}

// activate_grad_f32() without the activations that call exp, which would cost a kernel the
// registers that it saves around the call.
__device__ inline float cheap_activate_grad(const Activation& a, float dy, float x) {
  if (a.kind == ActivationKind::kRelu) return x > 0 ? dy : 0.0f;
  if (a.kind == ActivationKind::kLeakyRelu) return x > 0 ? dy : a.slope * dy;
  return dy;
}

// The gradient to what the batch norm put out before its activation, at a pixel.
template <bool kCostly>
struct NormGradient {
  PlaneShape s;
  NormResult result;
  NormGradOperands o;
  __device__ float operator()(std::int64_t c, std::int64_t h, std::int64_t w, std::int64_t n,
                              unsigned r) const {
    const float scale = o.gamma.of(r)[c] * o.inv_std.of(r)[c];
    const float shift = std::fma(-o.mean.of(r)[c], scale, o.beta.of(r)[c]);
    const float* const x = o.x.of(r);
    float dy = 0;
    if (result.pools) {
      const Normalised normalised{s, result.activation, x, scale, shift};
      float largest = 0;
      const int place = largest_of_four(normalised, c, h / 2 * 2, w / 2 * 2, n, largest);
      if (place == static_cast<int>(h % 2 * 2 + w % 2)) {
        const PlaneShape pooled{s.images, s.channels, s.height / 2, s.width / 2};
        dy = o.dy.of(r)[at(pooled, c, h / 2, w / 2, n)];
      }
    } else {
      dy = o.dy.of(r)[at(s, c, h, w, n)];
    }
    const float before = std::fma(x[at(s, c, h, w, n)], scale, shift);
    return kCostly ? activate_grad_f32(result.activation, dy, before)
                   : cheap_activate_grad(result.activation, dy, before);
  }
};

}  // namespace

std::int64_t plane_sums_scratch(const PlaneShape& s) {
  return 2 * s.channels * bands_of(s) * s.images;
}

void channel_sum(const Launch& launch, const PlaneShape& s, ConstFloats x, Floats scratch,
                 Floats sum) {
  plane_sums(
      launch, s, scratch,
      [=] __device__(Pair & p, std::int64_t c, std::int64_t h, std::int64_t w, std::int64_t n,
                     unsigned r) { p.a = p.a + x.of(r)[at(s, c, h, w, n)]; },
      [=] __device__(Pair p, std::int64_t c, unsigned r) { sum.of(r)[c] = p.a; });
}

void batch_norm_statistics(const Launch& launch, const PlaneShape& s, float epsilon, ConstFloats x,
                           ConstFloats gamma, ConstFloats beta, Floats scratch,
                           const Statistics& statistics, Floats affine) {
  const auto m = static_cast<float>(s.images * s.pixels());
  const Statistics to = statistics;
  plane_sums(
      launch, s, scratch,
      [=] __device__(Pair & p, std::int64_t c, std::int64_t h, std::int64_t w, std::int64_t n,
                     unsigned r) {
        const float value = x.of(r)[at(s, c, h, w, n)];
        p.a = p.a + value;
        p.b = std::fma(value, value, p.b);
      },
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

void batch_norm_apply(const Launch& launch, const PlaneShape& s, const NormResult& result,
                      ConstFloats x, ConstFloats affine, ConstFloats addend, Floats y) {
  const Activation activation = result.activation;
  if (result.pools) {
    const PlaneShape pooled{s.images, s.channels, s.height / 2, s.width / 2};
    launch_flat(launch, pooled.elements(), [=] __device__(std::int64_t i, unsigned r) {
      const std::int64_t n = i % s.images, pixel = i / s.images;
      const std::int64_t w = pixel % pooled.width, line = pixel / pooled.width;
      const std::int64_t h = line % pooled.height, c = line / pooled.height;
      const Normalised normalised{s, activation, x.of(r), affine.of(r)[c],
                                  affine.of(r)[s.channels + c]};
      float largest = 0;
      largest_of_four(normalised, c, 2 * h, 2 * w, n, largest);
      y.of(r)[i] = largest;
    });
    return;
  }
  const bool adds = result.adds;
  const std::int64_t inner = s.height * s.width * s.images;
  launch_flat(launch, s.channels * inner, [=] __device__(std::int64_t i, unsigned r) {
    const std::int64_t c = i / inner;
    const float value = activate_f32(
        activation, std::fma(x.of(r)[i], affine.of(r)[c], affine.of(r)[s.channels + c]));
    y.of(r)[i] = adds ? value + addend.of(r)[i] : value;
  });
}

void batch_norm_grad(const Launch& launch, const PlaneShape& s, const NormResult& result,
                     const NormGradOperands& operands, Floats scratch, Floats factors) {
  const auto m = static_cast<float>(s.images * s.pixels());
  NormGradOperands o = operands;
  NormResult of = result;
  if (is_costly(result.activation.kind)) {
    // Computed once, where dx will be; the rest takes it for the gradient.
    const NormGradient<true> gradient{s, result, o};
    launch_flat(launch, s.channels * s.height * s.width * s.images,
                [=] __device__(std::int64_t i, unsigned r) {
                  const Pixel p(s, i);
                  gradient.o.dx.of(r)[i] = gradient(p.c, p.h, p.w, p.n, r);
                });
    o.dy = o.dx;
    of = {.activation = {}, .pools = false, .adds = result.adds};
  }
  const NormGradient<false> gradient{s, of, o};
  plane_sums(
      launch, s, scratch,
      [=] __device__(Pair & p, std::int64_t c, std::int64_t h, std::int64_t w, std::int64_t n,
                     unsigned r) {
        const float dy = gradient(c, h, w, n, r);
        p.a = p.a + dy;
        p.b = std::fma(dy, o.x.of(r)[at(s, c, h, w, n)] - o.mean.of(r)[c], p.b);
      },
      [=] __device__(Pair p, std::int64_t c, unsigned r) {
        const float inv_std = o.inv_std.of(r)[c];
        const float dgamma = p.b * inv_std;
        o.dbeta.of(r)[c] = p.a;
        o.dgamma.of(r)[c] = dgamma;
        const float to_dy = o.gamma.of(r)[c] * inv_std;
        const float to_x = -(to_dy * inv_std) * (dgamma / m);
        float* const f = factors.of(r) + 3 * c;
        f[0] = to_dy;
        f[1] = to_x;
        f[2] = std::fma(-to_x, o.mean.of(r)[c], -(to_dy * (p.a / m)));
      });
  const bool adds = result.adds;
  launch_flat(launch, s.channels * s.height * s.width * s.images,
              [=] __device__(std::int64_t i, unsigned r) {
                const Pixel p(s, i);
                const float* const f = factors.of(r) + 3 * p.c;
                const float value = std::fma(f[0], gradient(p.c, p.h, p.w, p.n, r),
                                             std::fma(f[1], o.x.of(r)[i], f[2]));
                o.dx.of(r)[i] = adds ? value + o.addend.of(r)[i] : value;
              });
}

void batch_norm_running(const Launch& launch, std::int64_t channels,
                        const BatchNormRunningAttributes& attributes,
                        const RunningOperands& operands) {
  const RunningOperands o = operands;
  const float momentum = attributes.momentum, rest = 1.0f - attributes.momentum;
  const auto m = static_cast<float>(attributes.count);
  const float unbiased = m / (m - 1.0f);
  launch_flat(launch, channels, [=] __device__(std::int64_t c, unsigned r) {
    o.new_mean.of(r)[c] = std::fma(momentum, o.old_mean.of(r)[c], rest * o.mean.of(r)[c]);
    o.new_variance.of(r)[c] =
        std::fma(momentum, o.old_variance.of(r)[c], rest * (o.variance.of(r)[c] * unbiased));
  });
}

}  // namespace podium::PODIUM_CUDA_SPACE
