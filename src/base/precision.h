// The precision of a recipe.
#pragma once

#include <cstdint>

namespace podium {

// Of the operands of convolutions and matrix products; sums and all else are FP32.
enum class Precision : std::uint8_t { kFp32, kBf16 };

}  // namespace podium
