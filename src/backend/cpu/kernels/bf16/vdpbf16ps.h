// Products of tiles (tiles.h) by VDPBF16PS, an instruction of AVX512_BF16.
#pragma once

#include "backend/cpu/kernels/bf16/tiles.h"

namespace podium::cpu {

// Whether this processor has it.
bool has_vdpbf16ps();
void multiply_tiles_by_vdpbf16ps(const TileProduct& product);

}  // namespace podium::cpu
