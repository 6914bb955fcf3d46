#include "backend/cpu/kernels/weights.h"

#include <limits>

namespace podium::cpu {

void weigh(std::int64_t count, const float* x, const std::int32_t* weights, float* result) {
  for (std::int64_t i = 0; i < count; ++i)
    result[i] = weights[i] == 0 ? 0.0f : x[i] * static_cast<float>(weights[i]);
}

void weighted_count(std::int64_t count, const std::int32_t* weights, const std::int32_t* a,
                    const std::int32_t* b, std::int32_t* sum) {
  std::int64_t all = 0;
  std::int32_t least = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    least = weights[i] < least ? weights[i] : least;
    all += a[i] == b[i] ? weights[i] : 0;
  }
  const bool good = least == 0 && all <= std::numeric_limits<std::int32_t>::max();
  *sum = good ? static_cast<std::int32_t>(all) : -1;
}

}  // namespace podium::cpu
