// Products of tiles (tiles.h) in the orders of tensor cores (base/numerics/tensor_core.h), on every
// vector target: groups whose exponents lie within the range that FP32 and 32-bit integers hold
// exactly, nearly all of them, by vectors, and lanes of others by the rule itself.
#pragma once

#include "backend/cpu/kernels/bf16/tiles.h"

namespace podium::cpu {

void multiply_tiles_as_tensor_core(const TileProduct& product, float* scratch);

}  // namespace podium::cpu
