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

}  // namespace podium::PODIUM_CUDA_SPACE
