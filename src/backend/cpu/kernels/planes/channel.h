// A value per channel: the bias, and its gradient (contracts `bias_add`, `channel_sum`); channels
// beside one another (`pad_channels`, `slice_channels`) and in another order.
#pragma once

#include <cstdint>

#include "backend/cpu/kernels/elementwise.h"
#include "backend/cpu/kernels/layout.h"
#include "ops/geometry.h"

namespace podium::cpu {

// y = x + b[c]; y may be x.
int bias_add_parts(const ActivationShape& shape);
void bias_add(const ActivationShape& shape, const float* x, const float* b, FlatResult y, int part);

// db[c] = sum of dy over images and pixels.
int channel_sum_parts(const ActivationShape& shape);
void channel_sum(const ActivationShape& shape, const float* dy, float* db, int part);

// The same of plain matrices [rows][columns], whose columns are the channels.
int bias_add_rows_parts(std::int64_t rows, std::int64_t columns);
void bias_add_rows(std::int64_t rows, std::int64_t columns, const float* x, const float* b,
                   FlatResult y, int part);
inline constexpr std::int64_t kSumColumns = 64;  // of a part
int channel_sum_rows_parts(std::int64_t columns);
void channel_sum_rows(std::int64_t rows, std::int64_t columns, const float* dy, float* db,
                      int part);

// Channels [from_first, from_first + count) of `from` become those from to_first on of `to`, whose
// others become +0. A part is a block of images.
struct ChannelCopy {
  std::int64_t blocks = 0;
  std::int64_t plane = 0;  // floats of a channel of one block
  std::int64_t from_channels = 0, to_channels = 0;
  std::int64_t from_first = 0, to_first = 0, count = 0;
};
void copy_channels(const ChannelCopy& copy, const float* from, float* to, int part);

// Contract permute. A part is a block of images.
void permute(const PermuteShape& shape, const float* x, float* y, int part);

}  // namespace podium::cpu
