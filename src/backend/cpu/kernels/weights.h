// Items that do not all count alike (ops/weights.cc). Vectors are in lanes: [N], filled up to whole
// blocks.
#pragma once

#include <cstdint>

namespace podium::cpu {

void weigh(std::int64_t count, const float* x, const std::int32_t* weights, float* result);
void weighted_count(std::int64_t count, const std::int32_t* weights, const std::int32_t* a,
                    const std::int32_t* b, std::int32_t* sum);

}  // namespace podium::cpu
