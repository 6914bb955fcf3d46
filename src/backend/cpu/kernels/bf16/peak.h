// The roof of one core in BF16, measured.
#pragma once

#include "base/numerics/precision.h"

namespace podium::cpu {

// Operations per second in products of tiles that stay in the nearest cache, by AMX or by the
// vector target in use. Takes about 20 ms.
double bf16_peak(Bf16Order order = Bf16Order::kAmx);

}  // namespace podium::cpu
