#include "backend/cuda/roof.h"

#include <algorithm>

namespace podium::PODIUM_CUDA_SPACE {
namespace {

// What a multiprocessor does in a cycle: multiply-adds in FP32, and operations on tensor cores in
// dense products of BF16 with sums in FP32 (the tables of NVIDIA's white papers of each
// generation).
struct Generation {
  int major, minor;  // the compute capability, and those after it
  double fp32_lanes, bf16_flops;
};
constexpr Generation kGenerations[] = {{7, 0, 64, 0},     {8, 0, 64, 2048},  {8, 6, 128, 512},
                                       {8, 9, 128, 1024}, {9, 0, 128, 4096}, {10, 0, 128, 8192},
                                       {12, 0, 128, 1024}};

const Generation& generation_of(const runtime::DeviceInfo& device) {
  const Generation* found = std::begin(kGenerations);
  for (const Generation& generation : kGenerations)
    if (generation.major < device.major ||
        (generation.major == device.major && generation.minor <= device.minor))
      found = &generation;
  return *found;
}

// Of the best of several copies of so many bytes, each made `times` times.
double copy_rate(Queue& queue, std::int64_t bytes, int times) {
  constexpr std::size_t kRounds = 5;
  const Allocation from = Allocation::scratch(bytes), to = Allocation::scratch(bytes);
  const auto marks = runtime::make_marks();
  marks->add(queue.stream);
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (int i = 0; i < times; ++i) runtime::copy(queue.stream, to.data(), from.data(), bytes);
    marks->add(queue.stream);
  }
  double best = 0;
  for (std::size_t round = 0; round < kRounds; ++round)
    best = std::max(
        best, 2.0 * times * static_cast<double>(bytes) / marks->seconds_between(round, round + 1));
  return best;
}

}  // namespace

DeviceRoof roof_of(Queue& queue, const runtime::DeviceInfo& device) {
  // Both ends of a near copy fit the cache twice; a far one finds nothing there.
  constexpr std::int64_t kMostFar = std::int64_t{512} << 20;
  const std::int64_t far =
      std::clamp<std::int64_t>(8 * device.cache, 1, std::min(kMostFar, runtime::free_memory() / 4));
  const double cycles = static_cast<double>(device.multiprocessors) * device.clock;
  const Generation& generation = generation_of(device);
  return {.flops = 2 * generation.fp32_lanes * cycles,
          .bf16_flops = generation.bf16_flops * cycles,
          .near_bytes = copy_rate(queue, std::max<std::int64_t>(device.cache / 4, 1), 16),
          .far_bytes = copy_rate(queue, far, 2),
          .cache_bytes = static_cast<double>(device.cache)};
}

}  // namespace podium::PODIUM_CUDA_SPACE
