// Products of tiles by AMX.
#pragma once

#include "backend/cpu/kernels/bf16/tiles.h"

namespace podium::cpu {

// Whether this processor has AMX for BF16 and the system lets this process use it.
bool has_amx();
// Needs has_amx().
void multiply_tiles_by_amx(const TileProduct& product);

}  // namespace podium::cpu
