// Items that do not all count alike (ops/weights.cc): vectors [count].
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"

namespace podium::PODIUM_CUDA_SPACE {

void weigh(const Launch& launch, std::int64_t count, ConstFloats x,
           Each<const std::int32_t> weights, Floats result);
void weighted_count(const Launch& launch, std::int64_t count, Each<const std::int32_t> weights,
                    Each<const std::int32_t> a, Each<const std::int32_t> b, Each<std::int32_t> sum);

}  // namespace podium::PODIUM_CUDA_SPACE
