#include "backend/cpu/kernels/sequence.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/sequence.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/v16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

// --- embedding

// The sum of the rows order[begin, end) of dy, sixteen columns from `dy` on: runs, then the tree,
// whose left halves wait in `waiting`.
HWY_INLINE V16 sum_of_places(const float* dy, int64_t columns, int64_t count,
                             const std::int32_t* order, int64_t places) {
  V16 waiting[40];
  int64_t runs = 0;
  int depth = 0;
  for (int64_t begin = 0; begin < places; begin += kEmbeddingRun) {
    V16 sum = zero16();
    for (int64_t i = begin; i < std::min(begin + kEmbeddingRun, places); ++i)
      sum = add16(sum, load_some16(dy + order[i] * columns, count));
    for (int64_t full = runs; full % 2 == 1; full /= 2) sum = add16(waiting[--depth], sum);
    waiting[depth++] = sum;
    ++runs;
  }
  if (depth == 0) return zero16();
  V16 sum = waiting[--depth];
  while (depth > 0) sum = add16(waiting[--depth], sum);
  return sum;
}
void embedding_rows(const EmbeddingShape& s, Range rows, const std::int32_t* first,
                    const std::int32_t* order, const float* dy, float* dtable) {
  for (int64_t row = rows.begin; row < rows.end; ++row)
    for (int64_t c = 0; c < s.columns; c += kLanes) {
      const int64_t count = s.columns - c;
      store_some16(
          dtable + row * s.columns + c,
          sum_of_places(dy + c, s.columns, count, order + first[row], first[row + 1] - first[row]),
          count);
    }
}

// --- layer norm

// The lanes of a - mean in a row's columns that are there.
HWY_INLINE V16 centred16(const V16& x, const V16& mean, int64_t count) {
  const V16 d = sub16(x, mean);
  return count >= kLanes ? d : first16(d, static_cast<int>(count));
}

struct RowStatistics {
  float mean, scale;
};
HWY_INLINE RowStatistics statistics_of(const LayerNormShape& s, const float* x) {
  RowStatistics row{0, 0};
  const auto columns = static_cast<float>(s.columns);
  if (s.centred) {
    V16 sum = zero16();
    for (int64_t c = 0; c < s.columns; c += kLanes)
      sum = add16(sum, load_some16(x + c, s.columns - c));
    row.mean = tree_sum16(sum) / columns;
  }
  const V16 mean = set16(row.mean);
  V16 squares = zero16();
  for (int64_t c = 0; c < s.columns; c += kLanes) {
    const V16 d = centred16(load_some16(x + c, s.columns - c), mean, s.columns - c);
    squares = fma16(d, d, squares);
  }
  row.scale = 1.0f / std::sqrt(tree_sum16(squares) / columns + s.epsilon);
  return row;
}

void norm_rows(const LayerNormShape& s, Range rows, const float* all_x, const float* scale,
               const float* shift, float* all_y) {
  for (int64_t n = rows.begin; n < rows.end; ++n) {
    const float* x = all_x + n * s.columns;
    const RowStatistics row = statistics_of(s, x);
    const V16 mean = set16(row.mean), by = set16(row.scale);
    for (int64_t c = 0; c < s.columns; c += kLanes) {
      const int64_t count = s.columns - c;
      const V16 z = mul16(sub16(load_some16(x + c, count), mean), by),
                w = load_some16(scale + c, count);
      store_some16(all_y + n * s.columns + c,
                   s.centred ? fma16(z, w, load_some16(shift + c, count)) : mul16(z, w), count);
    }
  }
}

void norm_grad_rows(const LayerNormShape& s, Range rows, const float* all_dy, const float* all_x,
                    const float* scale, float* all_dx, float* statistics) {
  const auto columns = static_cast<float>(s.columns);
  for (int64_t n = rows.begin; n < rows.end; ++n) {
    const float *x = all_x + n * s.columns, *dy = all_dy + n * s.columns;
    const RowStatistics row = statistics_of(s, x);
    statistics[2 * n] = row.mean, statistics[2 * n + 1] = row.scale;
    const V16 mean = set16(row.mean), by = set16(row.scale);
    V16 along = zero16(), sum = zero16();
    for (int64_t c = 0; c < s.columns; c += kLanes) {
      const int64_t count = s.columns - c;
      const V16 g = mul16(load_some16(dy + c, count), load_some16(scale + c, count));
      const V16 z = mul16(centred16(load_some16(x + c, count), mean, count), by);
      along = fma16(g, z, along);
      sum = add16(sum, g);
    }
    const V16 share = set16(tree_sum16(along) / columns),
              shift = set16(s.centred ? tree_sum16(sum) / columns : 0.0f);
    for (int64_t c = 0; c < s.columns; c += kLanes) {
      const int64_t count = s.columns - c;
      const V16 g = mul16(load_some16(dy + c, count), load_some16(scale + c, count));
      const V16 z = mul16(sub16(load_some16(x + c, count), mean), by);
      store_some16(all_dx + n * s.columns + c, mul16(sub16(fnma16(share, z, g), shift), by), count);
    }
  }
}

void norm_grad_columns(const LayerNormShape& s, Range vectors, const float* dy, const float* x,
                       const float* statistics, float* dscale, float* dshift) {
  for (int64_t c = vectors.begin * kLanes; c < vectors.end * kLanes; c += kLanes) {
    const int64_t count = s.columns - c;
    V16 scale = zero16(), shift = zero16();
    for (int64_t run = 0; run < s.rows; run += kRowRun) {
      V16 of_scale = zero16(), of_shift = zero16();
      for (int64_t n = run; n < std::min(run + kRowRun, s.rows); ++n) {
        const V16 g = load_some16(dy + n * s.columns + c, count);
        const V16 z =
            mul16(sub16(load_some16(x + n * s.columns + c, count), set16(statistics[2 * n])),
                  set16(statistics[2 * n + 1]));
        of_scale = fma16(g, z, of_scale);
        of_shift = add16(of_shift, g);
      }
      scale = run == 0 ? of_scale : add16(scale, of_scale);
      shift = run == 0 ? of_shift : add16(shift, of_shift);
    }
    store_some16(dscale + c, scale, count);
    if (dshift != nullptr) store_some16(dshift + c, shift, count);
  }
}

// --- rotary

void turn_rows(const RotaryShape& s, Range rows, const float* table, const float* all_x,
               const std::int32_t* positions, float* all_y) {
  const int64_t half = s.features / 2;
  for (int64_t n = rows.begin; n < rows.end; ++n) {
    const float* angles = table + (positions != nullptr ? positions[n] : n % s.tokens) * s.features;
    for (int64_t i = 0; i < half; i += kLanes) {
      const int64_t count = half - i;
      const V16 cosine = load_some16(angles + i, count),
                turn = load_some16(angles + half + i, count), sine = s.inverse ? neg16(turn) : turn;
      for (int64_t head = 0; head < s.heads; ++head) {
        const int64_t at = (n * s.heads + head) * s.features + i;
        const V16 a = load_some16(all_x + at, count), b = load_some16(all_x + at + half, count);
        store_some16(all_y + at, fma16(a, cosine, neg16(mul16(b, sine))), count);
        store_some16(all_y + at + half, fma16(a, sine, mul16(b, cosine)), count);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(embedding_rows);
HWY_EXPORT(norm_rows);
HWY_EXPORT(norm_grad_rows);
HWY_EXPORT(norm_grad_columns);
HWY_EXPORT(turn_rows);

namespace {

constexpr std::int64_t kWork = 16384;  // floats of a part, at least

std::int64_t row_of(const EmbeddingShape& s, const std::int32_t* tokens, std::int64_t n) {
  return s.period != 0 ? n % s.period : tokens[n];
}

}  // namespace

int embedding_parts(const EmbeddingShape& s) { return parts_of(s.tokens, s.columns, kWork); }
void embedding(const EmbeddingShape& s, const std::int32_t* tokens, const float* table, float* y,
               int part) {
  const Range places = share_of(s.tokens, embedding_parts(s), part);
  for (std::int64_t n = places.begin; n < places.end; ++n)
    std::memcpy(y + n * s.columns, table + row_of(s, tokens, n) * s.columns,
                static_cast<std::size_t>(s.columns) * sizeof(float));
}

void embedding_places(const EmbeddingShape& s, const std::int32_t* tokens, std::int32_t* first,
                      std::int32_t* order) {
  std::fill_n(first, s.rows + 1, 0);
  for (std::int64_t n = 0; n < s.tokens; ++n) ++first[row_of(s, tokens, n) + 1];
  for (std::int64_t row = 0; row < s.rows; ++row) first[row + 1] += first[row];
  // Each row's beginning moves to its end, which is the next one's beginning, and back.
  for (std::int64_t n = 0; n < s.tokens; ++n)
    order[first[row_of(s, tokens, n)]++] = static_cast<std::int32_t>(n);
  for (std::int64_t row = s.rows; row > 0; --row) first[row] = first[row - 1];
  first[0] = 0;
}

int embedding_grad_parts(const EmbeddingShape& s) { return parts_of(s.rows, s.columns, kWork); }
void embedding_grad(const EmbeddingShape& s, const std::int32_t* first, const std::int32_t* order,
                    const float* dy, float* dtable, int part) {
  PODIUM_DISPATCH(embedding_rows)
  (s, share_of(s.rows, embedding_grad_parts(s), part), first, order, dy, dtable);
}

int rotary_parts(const RotaryShape& s) { return parts_of(s.rows, s.columns(), kWork); }
void rotary(const RotaryShape& s, const float* table, const float* x, const std::int32_t* positions,
            float* y, int part) {
  PODIUM_DISPATCH(turn_rows)(s, share_of(s.rows, rotary_parts(s), part), table, x, positions, y);
}

int layer_norm_parts(const LayerNormShape& s) { return parts_of(s.rows, s.columns, kWork); }
void layer_norm(const LayerNormShape& s, const float* x, const float* scale, const float* shift,
                float* y, int part) {
  PODIUM_DISPATCH(norm_rows)
  (s, share_of(s.rows, layer_norm_parts(s), part), x, scale, shift, y);
}
void layer_norm_grad(const LayerNormShape& s, const float* dy, const float* x, const float* scale,
                     float* dx, float* statistics, int part) {
  PODIUM_DISPATCH(norm_grad_rows)
  (s, share_of(s.rows, layer_norm_parts(s), part), dy, x, scale, dx, statistics);
}
int layer_norm_grad_weights_parts(const LayerNormShape& s) {
  return parts_of(blocks_of(s.columns), s.rows * kLanes, kWork);
}
void layer_norm_grad_weights(const LayerNormShape& s, const float* dy, const float* x,
                             const float* statistics, float* dscale, float* dshift, int part) {
  PODIUM_DISPATCH(norm_grad_columns)
  (s, share_of(blocks_of(s.columns), layer_norm_grad_weights_parts(s), part), dy, x, statistics,
   dscale, dshift);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
