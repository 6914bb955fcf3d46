#include "backend/cuda/kernels/bf16_probe.h"
#include "backend/cuda/kernels/bf16_tile.h"
#include "backend/cuda/simt.h"
#include "backend/cuda/simt_warpgroup.h"

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

template <typename T, bool kColumns>
struct ProbeSlices {
  const Half *a, *b;
  int terms, term = 0;

  __device__ void copy(typename T::Stage& stage) {
    T::template for_each_octet<T::kM, kTerms / kOctet>([&](int /*i*/, int row, int octet) {
      simt::copy16(T::a_at(stage, row, octet), a + row * terms + term + octet * kOctet, true);
    });
    T::template for_each_octet<T::kLines, T::kLineOctets>([&](int /*i*/, int line, int octet) {
      simt::copy16(T::b_at(stage, line, octet),
                   b + (kColumns ? (term + line) * T::kN : line * terms + term) + octet * kOctet,
                   true);
    });
    term += kTerms;
  }
};

template <typename T, bool kColumns>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks)
    tile_kernel(int terms, const Half* a, const Half* b, float* d) {
  if constexpr (T::kWarpgroups && !simt::kHasWarpgroups) return simt::stop();
  auto& shared = simt::shared<typename T::Shared>();
  ProbeSlices<T, kColumns> slices{a, b, terms};
  typename T::Sums sums;
  T::clear(sums);
  T::add(shared, slices, terms / kTerms, sums);
  T::for_each_two(sums, [&](int column) {
    return [&, column](int row, float first, float second) {
      d[row * T::kN + column] = first;
      d[row * T::kN + column + 1] = second;
    };
  });
}

template <int kN, bool kColumns>
void launch_tile(const Launch& launch, int terms, const Half* a, const Half* b, float* d) {
  const auto with = [&](auto tile) {
    using T = decltype(tile);
    simt::launch(tile_kernel<T, kColumns>,
                 {.blocks = {1, 1, 1},
                  .threads = {T::kThreads, 1, 1},
                  .shared_bytes = sizeof(typename T::Shared)},
                 launch.stream, terms, a, b, d);
  };
  if (launch.warpgroups)
    with(WarpgroupTile<kProbeRows, kN, kColumns>());
  else
    with(TensorTile<kProbeRows, kN, 2, kN / 64, kColumns>());
}

__global__ void __launch_bounds__(32) flag_kernel(std::int32_t* flag) {
  if (threadIdx.x == 0) *flag = simt::has_warpgroup_code() ? 1 : 0;
}

}  // namespace

void multiply_tile(const Launch& launch, int columns, int terms, bool side_by_side,
                   const std::uint16_t* a, const std::uint16_t* b, float* d) {
  with_constant(side_by_side, [&](auto lines) {
    constexpr bool kColumns = decltype(lines)::value;
    columns == 256 ? launch_tile<256, kColumns>(launch, terms, a, b, d)
                   : launch_tile<128, kColumns>(launch, terms, a, b, d);
  });
}

void write_has_warpgroups(const Launch& launch, std::int32_t* flag) {
  simt::launch(flag_kernel, {.blocks = {1, 1, 1}, .threads = {32, 1, 1}}, launch.stream, flag);
}

void multiply_chains(const Launch& launch, int warps, int chain, const std::uint32_t* a,
                     const std::uint32_t* b, float* d) {
  simt::launch(probe_kernel,
               {.blocks = {static_cast<unsigned>(warps), 1, 1}, .threads = {32, 1, 1}},
               launch.stream, chain, a, b, d);
}

bool code_has_bf16() { return simt::code_version(probe_kernel) >= 80; }

}  // namespace podium::PODIUM_CUDA_SPACE
