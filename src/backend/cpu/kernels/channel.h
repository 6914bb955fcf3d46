// A value per channel: the bias, and its gradient (contracts `bias_add`, `channel_sum`).
#pragma once

#include "backend/cpu/kernels/layout.h"

namespace podium::cpu {

// y = x + b[c]; y may be x.
int bias_add_parts(const ActivationShape& shape);
void bias_add(const ActivationShape& shape, const float* x, const float* b, float* y, int part);

// db[c] = sum of dy over images and pixels.
int channel_sum_parts(const ActivationShape& shape);
void channel_sum(const ActivationShape& shape, const float* dy, float* db, int part);

}  // namespace podium::cpu
