// Dropout masks (contract `dropout_mask`, base/numerics/philox.h). The mask is applied by `mul`.
#pragma once

#include <cstdint>

#include "backend/cpu/kernels/layout.h"

namespace podium::cpu {

struct DropoutShape {
  std::int64_t images = 0;
  std::int64_t features = 0;  // C * H * W
  float rate = 0;             // in [0, 1)
};

// mask, in lanes: 1 / (1 - rate) or +0. The stream is PhiloxStream(seed, kDropout, layer); image n
// is example `first_example` + n of the batch.
int dropout_mask_parts(const DropoutShape& shape);
void dropout_mask(const DropoutShape& shape, std::uint64_t seed, std::uint32_t layer,
                  std::uint32_t step, std::uint32_t first_example, float* mask, int part);

}  // namespace podium::cpu
