// Sums over the planes of a channel, and batch normalisation, of batch-last images x [channels]
// [height][width][images].
#pragma once

#include <cstdint>
#include <span>

#include "backend/cuda/launch.h"
#include "base/numerics/activation.h"
#include "ops/ops.h"

namespace podium::PODIUM_CUDA_SPACE {

struct PlaneShape {
  std::int64_t images, channels, height, width;
  PODIUM_DEVICE_FUNCTION std::int64_t pixels() const { return height * width; }
  // The floats of a channel.
  PODIUM_DEVICE_FUNCTION std::int64_t inner() const { return pixels() * images; }
  std::int64_t elements() const { return channels * inner(); }
};

// The floats that a sum over planes needs beside its operands: two partial sums of each image, or
// none where a block sums a channel by itself.
std::int64_t plane_sums_scratch(const PlaneShape& shape);

// sum[c], the image sum of pixel sums.
void channel_sum(const Launch& launch, const PlaneShape& shape, Source x, Floats scratch,
                 Floats sum);

// What a batch norm knows of its channels, each [channels].
struct Statistics {
  Floats mean, variance, inv_std;
};
// The statistics of x, and scale and shift, [2][channels].
void batch_norm_statistics(const Launch& launch, const PlaneShape& shape, float epsilon, Source x,
                           ConstFloats gamma, ConstFloats beta, Floats scratch,
                           const Statistics& statistics, Floats affine);
// Scale and shift, [2][channels], from given statistics.
void batch_norm_affine(const Launch& launch, std::int64_t channels, float epsilon,
                       ConstFloats gamma, ConstFloats beta, ConstFloats mean, ConstFloats variance,
                       Floats affine);
// y = activation(fma(x, scale, shift)), pooled over windows of 2x2, or `addend` added, before the
// activation if that is the sum's.
struct NormResult {
  Activation activation;
  bool pools = false, adds = false, activates_sum = false;
};
void batch_norm_apply(const Launch& launch, const PlaneShape& shape, const NormResult& result,
                      Source x, ConstFloats affine, Source addend, const Result& y);

struct NormGradOperands {
  Source dy, x, addend;
  ConstFloats gamma, beta, mean, inv_std;
  Result dx;
  Floats dgamma, dbeta;
};
// `scratch` as plane_sums_scratch() says, `factors` as norm_grad_factors(). `before`, [elements],
// is used where norm_grad_needs_before(); it may be the floats of dx.
std::int64_t norm_grad_factors(const PlaneShape& shape);
bool norm_grad_needs_before(const NormResult& result);
void batch_norm_grad(const Launch& launch, const PlaneShape& shape, const NormResult& result,
                     const NormGradOperands& operands, Floats scratch, Floats factors,
                     Floats before);

struct RunningOperands {
  ConstFloats old_mean, old_variance, mean, variance;
  Floats new_mean, new_variance;
};
struct RunningPart {
  std::int64_t count;  // channels
  BatchNormRunningAttributes attributes;
  RunningOperands operands;
};
// Of several layers, kTogether at most in a launch.
void batch_norm_running(const Launch& launch, std::span<const RunningPart> parts);

}  // namespace podium::PODIUM_CUDA_SPACE
