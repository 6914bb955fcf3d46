#include "backend/cpu/kernels/planes/channel.h"

#include <algorithm>

#include "backend/cpu/kernels/planes/channel_parts.h"
#include "base/numerics/bf16.h"
#include "base/numerics/tree.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/planes/channel.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

void add_bias(const ActivationShape& x, Range channels, const float* in, const float* b, float* out,
              bool rounded) {
  for (int64_t block = 0; block < x.blocks(); ++block) {
    for (int64_t c = channels.begin; c < channels.end; ++c) {
      const int64_t begin = (block * x.features() + c * x.pixels()) * kLanes;
      const V16 bias = set16(b[c]);
      for (int64_t i = begin; i < begin + x.pixels() * kLanes; i += kLanes) {
        put16(out + i, add16(load16(in + i), bias), {.streamed = false, .rounded = rounded});
      }
    }
  }
}

struct PlainTerm {
  static constexpr int kSums = 1;
  using At = V16;
  const float* x;
  HWY_INLINE V16 at(int64_t offset) const { return load16(x + offset); }
  template <int kSum>
  HWY_INLINE V16 step(const V16& value, const V16& acc) const {
    return add16(acc, value);
  }
};

void sum_channels(const ActivationShape& x, Range channels, const float* dy, float* db) {
  const PlainTerm term{dy};
  for (int64_t c = channels.begin; c < channels.end; c += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, channels.end - c);
    HWY_ALIGN float totals[1][kLanes];
    totals_of(term, x, c, count, totals);
    std::copy(totals[0], totals[0] + count, db + c);
  }
}

void add_bias_rows(int64_t rows, int64_t columns, const float* x, const float* b, float* y,
                   bool rounded) {
  for (int64_t row = 0; row < rows; ++row, x += columns, y += columns) {
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes)
      put16(y + c, add16(load16(x + c), load16(b + c)), {.streamed = false, .rounded = rounded});
    for (; c < columns; ++c) y[c] = rounded ? bf16_rounded(x[c] + b[c]) : x[c] + b[c];
  }
}

// The sums of columns [first, first + count): a row for each lane, which stays in L1.
void sum_columns(int64_t rows, int64_t columns, int64_t first, int64_t count, const float* x,
                 float* sums) {
  HWY_ALIGN float lanes[kLanes][kSumColumns] = {};
  const int64_t whole = count / kLanes * kLanes;
  x += first;
  for (int64_t row = 0; row < rows; ++row, x += columns) {
    float* lane = lanes[row % kLanes];
    for (int64_t c = 0; c < whole; c += kLanes)
      store16(lane + c, add16(load16(lane + c), load16(x + c)));
    for (int64_t c = whole; c < count; ++c) lane[c] = lane[c] + x[c];
  }
  for (int64_t c = 0; c < count; ++c)
    sums[first + c] = tree_sum(0, kLanes, [&](int64_t lane) { return lanes[lane][c]; });
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(add_bias);
HWY_EXPORT(sum_channels);
HWY_EXPORT(add_bias_rows);
HWY_EXPORT(sum_columns);

int bias_add_parts(const ActivationShape& shape) { return channel_parts(shape); }
void bias_add(const ActivationShape& shape, const float* x, const float* b, FlatResult y,
              int part) {
  PODIUM_DISPATCH(add_bias)(shape, part_channels(shape, part), x, b, y.floats, y.rounded);
}

int channel_sum_parts(const ActivationShape& shape) { return channel_parts(shape); }
void channel_sum(const ActivationShape& shape, const float* dy, float* db, int part) {
  PODIUM_DISPATCH(sum_channels)(shape, part_channels(shape, part), dy, db);
}

namespace {
std::int64_t rows_of_part(std::int64_t columns) {
  return std::max<std::int64_t>(kFlatPart / std::max<std::int64_t>(columns, 1), 1);
}
}  // namespace
int bias_add_rows_parts(std::int64_t rows, std::int64_t columns) {
  const std::int64_t each = rows_of_part(columns);
  return static_cast<int>(std::max<std::int64_t>((rows + each - 1) / each, 1));
}
void bias_add_rows(std::int64_t rows, std::int64_t columns, const float* x, const float* b,
                   FlatResult y, int part) {
  const std::int64_t first = part * rows_of_part(columns),
                     count = std::min(rows_of_part(columns), rows - first), at = first * columns;
  PODIUM_DISPATCH(add_bias_rows)(count, columns, x + at, b, y.floats + at, y.rounded);
}

int channel_sum_rows_parts(std::int64_t columns) {
  return static_cast<int>((columns + kSumColumns - 1) / kSumColumns);
}
void channel_sum_rows(std::int64_t rows, std::int64_t columns, const float* dy, float* db,
                      int part) {
  const std::int64_t first = part * kSumColumns;
  PODIUM_DISPATCH(sum_columns)
  (rows, columns, first, std::min(kSumColumns, columns - first), dy, db);
}

void copy_channels(const ChannelCopy& copy, const float* from, float* to, int part) {
  float* y = to + part * copy.to_channels * copy.plane;
  const float* x = from + (part * copy.from_channels + copy.from_first) * copy.plane;
  y = std::fill_n(y, copy.to_first * copy.plane, 0.0f);
  y = std::copy_n(x, copy.count * copy.plane, y);
  std::fill_n(y, (copy.to_channels - copy.to_first - copy.count) * copy.plane, 0.0f);
}

void permute(const PermuteShape& s, const float* x, float* y, int part) {
  x += part * s.values() * kLanes, y += part * s.values() * kLanes;
  for (std::int64_t i = 0; i < s.extents[0]; ++i)
    for (std::int64_t j = 0; j < s.extents[1]; ++j) {
      const float* from = x + (i * s.steps[0] + j * s.steps[1]) * kLanes;
      for (std::int64_t k = 0; k < s.extents[2]; ++k, from += s.steps[2] * kLanes)
        y = std::copy_n(from, kLanes, y);
    }
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
