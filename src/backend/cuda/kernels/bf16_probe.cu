#include "backend/cuda/kernels/bf16_probe.h"
#include "backend/cuda/simt.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

__global__ void __launch_bounds__(32)
    probe_kernel(int chain, const std::uint32_t* a, const std::uint32_t* b, float* d) {
  const auto lane = static_cast<int>(threadIdx.x);
  const std::int64_t warp = blockIdx.x;
  float sums[4];
  float* const own = d + (warp * 32 + lane) * 4;
  for (int i = 0; i < 4; ++i) sums[i] = own[i];
  for (int link = 0; link < chain; ++link) {
    const std::int64_t at = (warp * chain + link) * 32 + lane;
    const std::uint32_t left[4] = {a[at * 4], a[at * 4 + 1], a[at * 4 + 2], a[at * 4 + 3]};
    const std::uint32_t right[2] = {b[at * 2], b[at * 2 + 1]};
    simt::add_bf16_products(sums, left, right);
  }
  for (int i = 0; i < 4; ++i) own[i] = sums[i];
}

}  // namespace

void multiply_chains(const Launch& launch, int warps, int chain, const std::uint32_t* a,
                     const std::uint32_t* b, float* d) {
  simt::launch(probe_kernel,
               {.blocks = {static_cast<unsigned>(warps), 1, 1}, .threads = {32, 1, 1}},
               launch.stream, chain, a, b, d);
}

bool code_has_bf16() { return simt::code_version(probe_kernel) >= 80; }

}  // namespace podium::PODIUM_CUDA_SPACE
