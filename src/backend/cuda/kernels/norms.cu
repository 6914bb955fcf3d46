#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/norms.h"
#include "backend/cuda/kernels/sums.h"
#include "backend/cuda/kernels/tree_total.h"
#include "backend/cuda/seeded_fault.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

constexpr int kRunsOfBlock = 8;

__global__ void __launch_bounds__(kRunsOfBlock* kLanes)
    square_sums_kernel(std::int64_t count, std::int64_t runs, ConstFloats values, Floats sums) {
  const std::int64_t run = static_cast<std::int64_t>(blockIdx.x) * kRunsOfBlock + threadIdx.y;
  const float* const x = values.of(blockIdx.z);
  const std::int64_t end = (run + 1) * kSquareRun < count ? (run + 1) * kSquareRun : count;
  constexpr int kAhead = 16;  // values that are read at once
  float lane = 0;
  for (std::int64_t i = run * kSquareRun + threadIdx.x; i < end; i += kAhead * kLanes) {
    float next[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) next[k] = i + k * kLanes < end ? x[i + k * kLanes] : 0.0f;
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (i + k * kLanes < end) lane = std::fma(next[k], next[k], lane);
  }
  const float sum = lane_tree(lane);
  if (threadIdx.x == 0 && run < runs) sums.of(blockIdx.z)[run] = sum;
}

// The tree over values[0 ... count), which the block destroys; values[0] is the sum. Level by
// level: where the next neighbour is missing, a part rises as it is.
__device__ void block_tree(float* values, std::int64_t count) {
  for (std::int64_t step = 1; step < count; step *= 2) {
    if (!seeded(SeededFault::kTreeWithoutBarrier)) __syncthreads();
    for (std::int64_t i = 2 * step * threadIdx.x; i + step < count; i += 2 * step * blockDim.x)
      values[i] = values[i] + values[i + step];
  }
  __syncthreads();
}

constexpr int kTreeThreads = 256;

__global__ void __launch_bounds__(kTreeThreads)
    rescale_factor_kernel(std::int64_t runs, RescaleAttributes a, Floats sums) {
  float* const values = sums.of(blockIdx.z);
  block_tree(values, runs);
  if (threadIdx.x == 0) values[0] = a.norm / (std::sqrt(values[0]) + a.epsilon);
}

__global__ void __launch_bounds__(kTreeThreads)
    global_norm_kernel(std::int64_t parameters, std::int64_t runs,
                       Each<const std::int64_t> first_runs, ConstFloats sums, Floats scratch,
                       Floats norm) {
  const std::int64_t* const first = first_runs.of(blockIdx.z);
  float* const values = scratch.of(blockIdx.z);
  for (std::int64_t i = threadIdx.x; i < runs; i += kTreeThreads)
    values[i] = sums.of(blockIdx.z)[i];
  // A tree of a parameter leaves its sum in front, and the sum of parameter p moves to place p,
  // which no later parameter needs: each has a run.
  for (std::int64_t p = 0; p < parameters; ++p) {
    block_tree(values + first[p], first[p + 1] - first[p]);
    if (threadIdx.x == 0) values[p] = values[first[p]];
  }
  block_tree(values, parameters);
  if (threadIdx.x == 0) *norm.of(blockIdx.z) = std::sqrt(values[0]);
}

constexpr int kHashThreads = 256;
constexpr std::int64_t kHashPart = 1 << 16;  // words of a block
struct HashShared {
  std::uint64_t sums[kHashThreads];
};

// Leaves the sum over the block's threads in sums[0], which thread 0 may read.
__device__ void block_sum(HashShared& shared, std::uint64_t own) {
  shared.sums[threadIdx.x] = own;
  for (unsigned step = kHashThreads / 2; step > 0; step /= 2) {
    if (threadIdx.x < step || !seeded(SeededFault::kBarrierInBranch)) __syncthreads();
    if (threadIdx.x < step) shared.sums[threadIdx.x] += shared.sums[threadIdx.x + step];
  }
}

__device__ inline std::uint32_t keyed(const std::uint32_t* words, std::int64_t count,
                                      std::uint64_t first, std::int64_t i) {
  const std::uint32_t word = i < count ? words[i] : 0u;
  return word +
         static_cast<std::uint32_t>((first + static_cast<std::uint64_t>(i) + 1) * 0x9E3779B1u);
}

__global__ void __launch_bounds__(kHashThreads)
    hash_part_kernel(std::int64_t count, std::uint64_t first, Each<const std::uint32_t> x,
                     Each<std::uint64_t> parts) {
  auto& shared = simt::shared<HashShared>();
  const std::uint32_t* const words = x.of(blockIdx.z);
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * kHashPart;
  const std::int64_t end = begin + kHashPart < count ? begin + kHashPart : count;
  std::uint64_t own = 0;
  for (std::int64_t i = begin + 2 * static_cast<std::int64_t>(threadIdx.x); i < end;
       i += 2 * kHashThreads)
    own += std::uint64_t{keyed(words, count, first, i)} * keyed(words, count, first, i + 1);
  block_sum(shared, own);
  if (threadIdx.x == 0 || seeded(SeededFault::kSameValueTwice))
    parts.of(blockIdx.z)[blockIdx.x] = shared.sums[0];
}

__global__ void __launch_bounds__(kHashThreads)
    hash_join_kernel(std::int64_t count, Each<const std::uint64_t> parts,
                     Each<std::uint32_t> words) {
  auto& shared = simt::shared<HashShared>();
  std::uint64_t own = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kHashThreads) own += parts.of(blockIdx.z)[i];
  block_sum(shared, own);
  if (threadIdx.x != 0) return;
  const std::uint64_t sum = shared.sums[0];
  words.of(blockIdx.z)[0] = static_cast<std::uint32_t>(sum);
  words.of(blockIdx.z)[1] = static_cast<std::uint32_t>(sum >> 32);
}

std::int64_t hash_parts(std::int64_t count) { return (count + kHashPart - 1) / kHashPart; }

}  // namespace

std::int64_t square_runs(std::int64_t count) {
  return std::max<std::int64_t>(1, (count + kSquareRun - 1) / kSquareRun);
}

void square_sums(const Launch& launch, std::int64_t count, ConstFloats x, Floats sums) {
  const std::int64_t runs = square_runs(count);
  simt::launch(square_sums_kernel,
               {.blocks = {static_cast<unsigned>((runs + kRunsOfBlock - 1) / kRunsOfBlock), 1,
                           static_cast<unsigned>(launch.replicas)},
                .threads = {kLanes, kRunsOfBlock, 1}},
               launch.stream, count, runs, x, sums);
}

void rescale(const Launch& launch, std::int64_t count, const RescaleAttributes& attributes,
             ConstFloats x, Floats sums, Floats y) {
  square_sums(launch, count, x, sums);
  simt::launch(
      rescale_factor_kernel,
      {.blocks = {1, 1, static_cast<unsigned>(launch.replicas)}, .threads = {kTreeThreads, 1, 1}},
      launch.stream, square_runs(count), attributes, sums);
  launch_flat(launch, count, [=] __device__(std::int64_t i, unsigned r) {
    y.of(r)[i] = x.of(r)[i] * *sums.of(r);
  });
}

void global_norm(const Launch& launch, std::int64_t parameters, std::int64_t runs,
                 Each<const std::int64_t> first_runs, ConstFloats sums, Floats scratch,
                 Floats norm) {
  simt::launch(
      global_norm_kernel,
      {.blocks = {1, 1, static_cast<unsigned>(launch.replicas)}, .threads = {kTreeThreads, 1, 1}},
      launch.stream, parameters, runs, first_runs, sums, scratch, norm);
}

void clip_factor(const Launch& launch, float limit, ConstFloats norm, Floats factor) {
  launch_flat(launch, 1, [=] __device__(std::int64_t, unsigned r) {
    const float n = *norm.of(r);
    *factor.of(r) = n <= limit ? 1.0f : limit / n;
  });
}

void lars_rate(const Launch& launch, const LarsRateAttributes& attributes, ConstFloats parameter,
               ConstFloats gradient, ConstFloats rate, Floats own) {
  const float trust = attributes.trust, decay = attributes.weight_decay;
  launch_flat(launch, 1, [=] __device__(std::int64_t, unsigned r) {
    const float p = *parameter.of(r), g = *gradient.of(r);
    *own.of(r) =
        !(p > 0) || !(g > 0) ? *rate.of(r) : *rate.of(r) * (trust * p / std::fma(decay, p, g));
  });
}

std::int64_t hash_scratch(std::int64_t count) { return 2 * hash_parts(count); }

void hash_sum(const Launch& launch, std::int64_t count, std::uint64_t first, ConstFloats x,
              Each<std::uint64_t> scratch, Each<std::uint32_t> words) {
  const auto replicas = static_cast<unsigned>(launch.replicas);
  const std::int64_t parts = hash_parts(count);
  const Each<const std::uint32_t> bits{reinterpret_cast<const std::uint32_t*>(x.first), x.stride};
  simt::launch(hash_part_kernel,
               {.blocks = {static_cast<unsigned>(parts), 1, replicas},
                .threads = {kHashThreads, 1, 1},
                .shared_bytes = sizeof(HashShared)},
               launch.stream, count, first, bits, scratch);
  simt::launch(hash_join_kernel,
               {.blocks = {1, 1, replicas},
                .threads = {kHashThreads, 1, 1},
                .shared_bytes = sizeof(HashShared)},
               launch.stream, parts, scratch, words);
}

namespace {

// The tree over at most kMost parts, which are read at once. Level by level: where the next
// neighbour is missing, a part rises as it is.
template <int kMost>
void tree_over_few(const Launch& launch, std::int64_t count, int parts, ConstFloats of_part,
                   Floats sum) {
  launch_flat(launch, count, [=] __device__(std::int64_t i, unsigned r) {
    float values[kMost];
#pragma unroll
    for (int p = 0; p < kMost; ++p)
      values[p] = p < parts ? of_part.of(static_cast<unsigned>(p))[i] : 0.0f;
    if (seeded(SeededFault::kTreeAsChain)) {
      for (int p = 1; p < parts; ++p) values[0] = values[0] + values[p];
      sum.of(r)[i] = values[0];
      return;
    }
#pragma unroll
    for (int step = 1; step < kMost; step *= 2)
#pragma unroll
      for (int p = 0; p + step < kMost; p += 2 * step)
        if (p + step < parts) values[p] = values[p] + values[p + step];
    sum.of(r)[i] = values[0];
  });
}

}  // namespace

void tree_over_parts(const Launch& launch, std::int64_t count, std::int64_t parts,
                     ConstFloats of_part, Floats sum) {
  if (parts <= 8) return tree_over_few<8>(launch, count, static_cast<int>(parts), of_part, sum);
  launch_flat(launch, count, [=] __device__(std::int64_t i, unsigned r) {
    TreeTotal total;
    for (std::int64_t p = 0; p < parts; ++p) total.add(of_part.of(static_cast<unsigned>(p))[i]);
    sum.of(r)[i] = total.total();
  });
}

}  // namespace podium::PODIUM_CUDA_SPACE
