// What a GPU's tensor cores make of given numbers, for comparison with a rule
// (backend/cuda/tensor_cores.h).
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"

namespace podium::PODIUM_CUDA_SPACE {

// Each of `warps` warps adds `chain` products to its d, one after the other. Numbers lie as lanes
// hold them (simt::add_bf16_products): a[warp][link][lane][4], b[warp][link][lane][2],
// d[warp][lane][4].
void multiply_chains(const Launch& launch, int warps, int chain, const std::uint32_t* a,
                     const std::uint32_t* b, float* d);

// Whether the code for the current device can add them: it was made for 8.0 or later.
bool code_has_bf16();

// A tile of kProbeRows rows and 128 or 256 columns, of so many terms, a multiple of 32, by warps or
// by warpgroups (Launch): a[row][term], b[column][term], or with `side_by_side` b[term][column],
// d[row][column].
inline constexpr int kProbeRows = 128;
void multiply_tile(const Launch& launch, int columns, int terms, bool side_by_side,
                   const std::uint16_t* a, const std::uint16_t* b, float* d);
// Writes whether the code for the current device has products of warpgroups: 1 or 0.
void write_has_warpgroups(const Launch& launch, std::int32_t* flag);

}  // namespace podium::PODIUM_CUDA_SPACE
