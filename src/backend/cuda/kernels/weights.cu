#include <cstdint>
#include <limits>

#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/weights.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

constexpr int kThreads = 256;
// Less than any sum of a thread's weights is large, so that a sum with it is negative.
constexpr std::int64_t kBad = -(std::int64_t{1} << 54);

struct Sums {
  std::int64_t of[kThreads];
};

__global__ void __launch_bounds__(kThreads)
    count_kernel(std::int64_t count, Each<const std::int32_t> weights, Each<const std::int32_t> a,
                 Each<const std::int32_t> b, Each<std::int32_t> sum) {
  auto& shared = simt::shared<Sums>();
  std::int64_t own = 0;
  bool bad = false;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) {
    const std::int32_t weight = weights.of(blockIdx.z)[i];
    bad = bad || weight < 0;
    if (a.of(blockIdx.z)[i] == b.of(blockIdx.z)[i]) own += weight;
  }
  shared.of[threadIdx.x] = bad ? kBad : own;
  for (unsigned step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) shared.of[threadIdx.x] += shared.of[threadIdx.x + step];
  }
  if (threadIdx.x != 0) return;
  const std::int64_t all = shared.of[0];
  const bool good = all >= 0 && all <= std::numeric_limits<std::int32_t>::max();
  *sum.of(blockIdx.z) = good ? static_cast<std::int32_t>(all) : -1;
}

}  // namespace

void weigh(const Launch& launch, std::int64_t count, ConstFloats x,
           Each<const std::int32_t> weights, Floats result) {
  launch_flat(launch, count, [=] __device__(std::int64_t i, unsigned r) {
    const std::int32_t weight = weights.of(r)[i];
    result.of(r)[i] = weight == 0 ? 0.0f : x.of(r)[i] * static_cast<float>(weight);
  });
}

void weighted_count(const Launch& launch, std::int64_t count, Each<const std::int32_t> weights,
                    Each<const std::int32_t> a, Each<const std::int32_t> b,
                    Each<std::int32_t> sum) {
  simt::launch(count_kernel,
               {.blocks = {1, 1, static_cast<unsigned>(launch.replicas)},
                .threads = {kThreads, 1, 1},
                .shared_bytes = sizeof(Sums)},
               launch.stream, count, weights, a, b, sum);
}

}  // namespace podium::PODIUM_CUDA_SPACE
