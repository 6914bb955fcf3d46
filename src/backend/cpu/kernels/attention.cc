#include <algorithm>
#include <cstring>
#include <limits>

#include "backend/cpu/kernels/sequence.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/attention.cc"
#include "backend/cpu/kernels/foreach_target.h"
#include "backend/cpu/kernels/functions-inl.h"
#include "backend/cpu/kernels/v16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace podium::cpu {
namespace HWY_NAMESPACE {

inline constexpr int64_t kBlockQueries = 8;                // of a unit of work
inline constexpr int kTogether = kRegisters == 1 ? 8 : 4;  // queries in registers
inline constexpr int kVectors = kRegisters == 1 ? 2 : 1;   // of features, of each

// The first `count` lanes of a, the others of b.
HWY_INLINE V16 choose_first16(const V16& a, const V16& b, int64_t count) {
  V16 out;
  for (int i = 0; i < kRegisters; ++i) {
    const int64_t here = std::clamp<int64_t>(count - i * kNative, 0, kNative);
    out.r[i] = hn::IfThenElse(hn::FirstN(NativeTag(), static_cast<size_t>(here)), a.r[i], b.r[i]);
  }
  return out;
}

// Products of kQueries rows of a with the sixteen rows of a packed tile: chains over features.
template <int kQueries>
HWY_INLINE void tile_products(const float* a, int64_t row, const float* tile, int64_t features,
                              V16 (&sums)[kQueries]) {
  HWY_UNROLL(8)
  for (int i = 0; i < kQueries; ++i) sums[i] = zero16();
  for (int64_t d = 0; d < features; ++d) {
    const V16 t = load16(tile + d * kLanes);
    HWY_UNROLL(8)
    for (int i = 0; i < kQueries; ++i) sums[i] = fma16(set16(a[i * row + d]), t, sums[i]);
  }
}
template <int kQueries>
HWY_INLINE void products_of(const float* a, int64_t row, const float* packed, int64_t tiles,
                            int64_t features, float* out, int64_t out_row) {
  for (int64_t tile = 0; tile < tiles; ++tile) {
    V16 sums[kQueries];
    tile_products<kQueries>(a, row, packed + tile * features * kLanes, features, sums);
    for (int i = 0; i < kQueries; ++i) store16(out + i * out_row + tile * kLanes, sums[i]);
  }
}
// Of `queries` rows.
void all_products(const float* a, int64_t row, int64_t queries, const float* packed, int64_t tiles,
                  int64_t features, float* out, int64_t out_row) {
  int64_t i = 0;
  for (; i + kTogether <= queries; i += kTogether)
    products_of<kTogether>(a + i * row, row, packed, tiles, features, out + i * out_row, out_row);
  for (; i < queries; ++i)
    products_of<1>(a + i * row, row, packed, tiles, features, out + i * out_row, out_row);
}

// y[i][d] = a chain over the keys of row i, first_keys of them in the first row and `more` more in
// each further one: of kOnce vectors of features, or, of one, the first `count`.
template <int kQueries, int kOnce>
HWY_INLINE void weighted_columns(const float* p, int64_t p_row, int64_t first_keys, int64_t more,
                                 const float* v, int64_t v_row, int64_t count, float* y,
                                 int64_t y_row) {
  const auto load = [&](int64_t j, int n) HWY_ATTR {
    return kOnce == 1 ? load_some16(v + j * v_row, count) : load16(v + j * v_row + n * kLanes);
  };
  V16 sums[kQueries][kOnce];
  HWY_UNROLL(8)
  for (int i = 0; i < kQueries; ++i)
    for (int n = 0; n < kOnce; ++n) sums[i][n] = zero16();
  for (int64_t j = 0; j < first_keys; ++j) {
    V16 t[kOnce];
    HWY_UNROLL(2)
    for (int n = 0; n < kOnce; ++n) t[n] = load(j, n);
    HWY_UNROLL(8)
    for (int i = 0; i < kQueries; ++i) {
      const V16 weight = set16(p[i * p_row + j]);
      HWY_UNROLL(2)
      for (int n = 0; n < kOnce; ++n) sums[i][n] = fma16(weight, t[n], sums[i][n]);
    }
  }
  for (int i = 0; i < kQueries; ++i)
    for (int n = 0; n < kOnce; ++n) {
      for (int64_t j = first_keys; j < first_keys + i * more; ++j)
        sums[i][n] = fma16(set16(p[i * p_row + j]), load(j, n), sums[i][n]);
      store_some16(y + i * y_row + n * kLanes, sums[i][n], count - n * kLanes);
    }
}
template <int kQueries>
HWY_INLINE void weighted_rows(const float* p, int64_t p_row, int64_t first_keys, int64_t more,
                              const float* v, int64_t v_row, int64_t features, float* y,
                              int64_t y_row) {
  int64_t d = 0;
  // Rows lie far apart: the more is read of each, the better.
  for (; kVectors > 1 && d + kVectors * kLanes <= features; d += kVectors * kLanes)
    weighted_columns<kQueries, kVectors>(p, p_row, first_keys, more, v + d, v_row, features - d,
                                         y + d, y_row);
  for (; d < features; d += kLanes)
    weighted_columns<kQueries, 1>(p, p_row, first_keys, more, v + d, v_row, features - d, y + d,
                                  y_row);
}
void all_weighted_rows(const float* p, int64_t p_row, int64_t queries, int64_t first_keys,
                       int64_t more, const float* v, int64_t v_row, int64_t features, float* y,
                       int64_t y_row) {
  int64_t i = 0;
  for (; i + kTogether <= queries; i += kTogether)
    weighted_rows<kTogether>(p + i * p_row, p_row, first_keys + i * more, more, v, v_row, features,
                             y + i * y_row, y_row);
  for (; i < queries; ++i)
    weighted_rows<1>(p + i * p_row, p_row, first_keys + i * more, more, v, v_row, features,
                     y + i * y_row, y_row);
}

// Scores of `keys` keys become their weights, +0 in the lanes behind. The largest score and what
// the exponentials are multiplied by.
struct Softmax {
  float most, share;
};
HWY_INLINE Softmax softmax_row(float* p, int64_t keys, float scale) {
  const V16 lowest = set16(-std::numeric_limits<float>::infinity());
  V16 largest = lowest;
  for (int64_t j = 0; j < keys; j += kLanes) {
    const V16 s = mul16(load16(p + j), set16(scale));
    store16(p + j, s);
    const V16 own = choose_first16(s, lowest, keys - j);
    for (int i = 0; i < kRegisters; ++i) largest.r[i] = hn::Max(largest.r[i], own.r[i]);
  }
  float lanes[kLanes];
  store16(lanes, largest);
  const float most = *std::max_element(lanes, lanes + kLanes);
  V16 sum = zero16();
  for (int64_t j = 0; j < keys; j += kLanes) {
    const V16 e = choose_first16(exp16(sub16(load16(p + j), set16(most))), zero16(), keys - j);
    store16(p + j, e);
    sum = add16(sum, e);
  }
  const float share = 1.0f / tree_sum16(sum);
  for (int64_t j = 0; j < keys; j += kLanes)
    store16(p + j, choose_first16(mul16(load16(p + j), set16(share)), zero16(), keys - j));
  return {most, share};
}

// Gradients to the weights of `keys` keys become those to their scores, +0 in the lanes behind.
// Returns their mean.
HWY_INLINE float score_gradients_row(const float* p, float* dp, int64_t keys, float scale) {
  V16 sum = zero16();
  for (int64_t j = 0; j < keys; j += kLanes)
    sum = fma16(load16(p + j), choose_first16(load16(dp + j), zero16(), keys - j), sum);
  const float mean = tree_sum16(sum);
  for (int64_t j = 0; j < keys; j += kLanes) {
    const V16 ds = mul16(mul16(load16(p + j), sub16(load16(dp + j), set16(mean))), set16(scale));
    store16(dp + j, choose_first16(ds, zero16(), keys - j));
  }
  return mean;
}

// The same of several rows, the first of which has first_keys keys and each further one `more`
// more; +0 behind them, up to `columns`.
void weights_of_rows(const ScoreRows& s, float* p) {
  for (int64_t i = 0, keys = s.first_keys; i < s.rows; ++i, keys += s.more, p += s.row) {
    softmax_row(p, keys, s.scale);
    std::fill(p + std::min(padded(keys), s.columns), p + s.columns, 0.0f);
  }
}
void score_gradients_of_rows(const ScoreRows& s, const float* p, float* dp) {
  for (int64_t i = 0, keys = s.first_keys; i < s.rows;
       ++i, keys += s.more, p += s.row, dp += s.row) {
    score_gradients_row(p, dp, keys, s.scale);
    std::fill(dp + std::min(padded(keys), s.columns), dp + s.columns, 0.0f);
  }
}

// The keys that a query sees that is not causal.
HWY_INLINE int64_t keys_of(const AttentionShape& s, const int32_t* lengths, int64_t sequence) {
  return lengths == nullptr ? s.keys : s.keys_within(lengths[sequence]);
}

// What a unit of work is: a block of queries of one head.
struct Unit {
  int64_t sequence, head, group, first, queries, first_keys, more, tiles;
  Unit(const AttentionShape& s, int64_t number, const int32_t* lengths) {
    const int64_t blocks = (s.tokens + kBlockQueries - 1) / kBlockQueries;
    sequence = number / blocks / s.heads, head = number / blocks % s.heads;
    group = head / s.heads_of_group();
    first = number % blocks * kBlockQueries;
    queries = std::min(kBlockQueries, s.tokens - first);
    more = s.causal ? 1 : 0;
    first_keys = s.causal ? first + 1 : keys_of(s, lengths, sequence);
    tiles = blocks_of(first_keys + (queries - 1) * more);
  }
};
HWY_INLINE int64_t packed_at(const AttentionShape& s, int64_t sequence, int64_t group) {
  return (sequence * s.groups + group) * padded(s.keys) * s.features;
}

void attention_units(const AttentionShape& s, Range units, const float* q, const float* packed_k,
                     const float* v, const int32_t* lengths, float* y, float* scratch) {
  const int64_t p_row = padded(s.keys);
  for (int64_t number = units.begin; number < units.end; ++number) {
    const Unit u(s, number, lengths);
    const int64_t at = s.query(u.sequence, u.head) + u.first * s.query_row();
    all_products(q + at, s.query_row(), u.queries, packed_k + packed_at(s, u.sequence, u.group),
                 u.tiles, s.features, scratch, p_row);
    for (int64_t i = 0; i < u.queries; ++i)
      softmax_row(scratch + i * p_row, u.first_keys + i * u.more, s.scale);
    all_weighted_rows(scratch, p_row, u.queries, u.first_keys, u.more,
                      v + s.key(u.sequence, u.group), s.key_row(), s.features, y + at,
                      s.query_row());
  }
}

void grad_of_units(const AttentionShape& s, Range units, const AttentionGrad& g, float* scratch) {
  const int64_t p_row = padded(s.keys);
  float *all_p = scratch, *all_dp = scratch + kBlockQueries * p_row;
  for (int64_t number = units.begin; number < units.end; ++number) {
    const Unit u(s, number, g.lengths);
    const int64_t at = s.query(u.sequence, u.head) + u.first * s.query_row(),
                  packed = packed_at(s, u.sequence, u.group);
    all_products(g.q + at, s.query_row(), u.queries, g.packed_k + packed, u.tiles, s.features,
                 all_p, p_row);
    all_products(g.dy + at, s.query_row(), u.queries, g.packed_v + packed, u.tiles, s.features,
                 all_dp, p_row);
    for (int64_t i = 0; i < u.queries; ++i) {
      const int64_t keys = u.first_keys + i * u.more;
      float *p = all_p + i * p_row, *dp = all_dp + i * p_row;
      const Softmax softmax = softmax_row(p, keys, s.scale);
      const float mean = score_gradients_row(p, dp, keys, s.scale);
      float* statistics =
          g.statistics + 3 * ((u.sequence * s.heads + u.head) * s.tokens + u.first + i);
      statistics[0] = softmax.most, statistics[1] = softmax.share, statistics[2] = mean;
    }
    all_weighted_rows(all_dp, p_row, u.queries, u.first_keys, u.more,
                      g.k + s.key(u.sequence, u.group), s.key_row(), s.features, g.dq + at,
                      s.query_row());
  }
}

// Adds the links of kQueries queries from i on to the chains of a tile of keys, dk and dv
// [features][keys]. The lanes of keys that a query does not see stay.
template <int kQueries, bool kAll>
HWY_INLINE void add_queries(const AttentionShape& s, const AttentionGrad& g, int64_t sequence,
                            int64_t head, int64_t i, int64_t first_key, const float* tile_k,
                            const float* tile_v, float* dk, float* dv) {
  const int64_t row = s.query_row(), at = s.query(sequence, head) + i * row;
  const float *q = g.q + at, *dy = g.dy + at;
  const float* statistics = g.statistics + 3 * ((sequence * s.heads + head) * s.tokens + i);
  V16 p[kQueries], ds[kQueries];
  tile_products<kQueries>(q, row, tile_k, s.features, p);
  tile_products<kQueries>(dy, row, tile_v, s.features, ds);
  for (int n = 0; n < kQueries; ++n) {
    const float* own = statistics + 3 * n;
    p[n] = mul16(exp16(sub16(mul16(p[n], set16(s.scale)), set16(own[0]))), set16(own[1]));
    ds[n] = mul16(mul16(p[n], sub16(ds[n], set16(own[2]))), set16(s.scale));
  }
  for (int64_t d = 0; d < s.features; ++d) {
    V16 sum = load16(dk + d * kLanes);
    HWY_UNROLL(8)
    for (int n = 0; n < kQueries; ++n) {
      const V16 link = fma16(ds[n], set16(q[n * row + d]), sum);
      sum = kAll ? link : choose_first16(link, sum, i + n - first_key + 1);
    }
    store16(dk + d * kLanes, sum);
    sum = load16(dv + d * kLanes);
    HWY_UNROLL(8)
    for (int n = 0; n < kQueries; ++n) {
      const V16 link = fma16(p[n], set16(dy[n * row + d]), sum);
      sum = kAll ? link : choose_first16(link, sum, i + n - first_key + 1);
    }
    store16(dv + d * kLanes, sum);
  }
}

void grad_of_keys(const AttentionShape& s, Range units, const AttentionGrad& g, float* scratch) {
  const int64_t tiles = blocks_of(s.keys), floats = s.features * kLanes;
  float *dk = scratch, *dv = scratch + floats;
  for (int64_t number = units.begin; number < units.end; ++number) {
    const int64_t tile = number % tiles, group = number / tiles % s.groups,
                  sequence = number / tiles / s.groups, first_key = tile * kLanes;
    const int64_t packed = packed_at(s, sequence, group) + tile * floats;
    std::fill_n(scratch, 2 * floats, 0.0f);
    // Keys from here on are padding: nobody sees them.
    const int64_t seen = s.causal ? s.keys : keys_of(s, g.lengths, sequence);
    for (int64_t head = group * s.heads_of_group();
         first_key < seen && head < (group + 1) * s.heads_of_group(); ++head) {
      int64_t i = s.causal ? first_key : 0;
      const int64_t some = s.causal ? std::min(first_key + kLanes, s.tokens) : 0;  // see some keys
      for (; i + kTogether <= some; i += kTogether)
        add_queries<kTogether, false>(s, g, sequence, head, i, first_key, g.packed_k + packed,
                                      g.packed_v + packed, dk, dv);
      for (; i < some; ++i)
        add_queries<1, false>(s, g, sequence, head, i, first_key, g.packed_k + packed,
                              g.packed_v + packed, dk, dv);
      for (; i + kTogether <= s.tokens; i += kTogether)
        add_queries<kTogether, true>(s, g, sequence, head, i, first_key, g.packed_k + packed,
                                     g.packed_v + packed, dk, dv);
      for (; i < s.tokens; ++i)
        add_queries<1, true>(s, g, sequence, head, i, first_key, g.packed_k + packed,
                             g.packed_v + packed, dk, dv);
    }
    for (int64_t lane = 0; lane < std::min<int64_t>(kLanes, s.keys - first_key); ++lane) {
      const int64_t at = s.key(sequence, group) + (first_key + lane) * s.key_row();
      const bool is_seen = first_key + lane < seen;
      for (int64_t d = 0; d < s.features; ++d) {
        g.dk[at + d] = is_seen ? dk[d * kLanes + lane] : 0.0f;
        g.dv[at + d] = is_seen ? dv[d * kLanes + lane] : 0.0f;
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace podium::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace podium::cpu {

HWY_EXPORT(attention_units);
HWY_EXPORT(grad_of_units);
HWY_EXPORT(grad_of_keys);
HWY_EXPORT(weights_of_rows);
HWY_EXPORT(score_gradients_of_rows);

namespace {

constexpr std::int64_t kQueriesOfUnit = 8;
constexpr std::int64_t kWork = 1 << 18;  // multiply-adds of a part, at least

std::int64_t units_of(const AttentionShape& s) {
  return s.sequences * s.heads * ((s.tokens + kQueriesOfUnit - 1) / kQueriesOfUnit);
}
std::int64_t tiles_of(const AttentionShape& s) {
  return s.sequences * s.groups * blocks_of(s.keys);
}

}  // namespace

std::int64_t attention_packed_floats(const AttentionShape& s) {
  return s.sequences * s.groups * padded(s.keys) * s.features;
}
int attention_pack_parts(const AttentionShape& s) {
  return parts_of(tiles_of(s), s.features * kLanes, 16384);
}
void attention_pack(const AttentionShape& s, const float* keys, float* packed, int part) {
  const Range tiles = share_of(tiles_of(s), attention_pack_parts(s), part);
  for (std::int64_t number = tiles.begin; number < tiles.end; ++number) {
    const std::int64_t tile = number % blocks_of(s.keys), head = number / blocks_of(s.keys);
    const float* from = keys + s.key(head / s.groups, head % s.groups);
    float* to = packed + number * s.features * kLanes;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const std::int64_t token = tile * kLanes + lane;
      for (std::int64_t d = 0; d < s.features; ++d)
        to[d * kLanes + lane] = token < s.keys ? from[token * s.key_row() + d] : 0.0f;
    }
  }
}

std::int64_t attention_scratch(const AttentionShape& s) {
  return 2 * kQueriesOfUnit * padded(s.keys);
}
int attention_parts(const AttentionShape& s) {
  return parts_of(units_of(s), kQueriesOfUnit * s.keys * s.features, kWork);
}
void attention(const AttentionShape& s, const float* q, const float* packed_k, const float* v,
               const std::int32_t* lengths, float* y, float* scratch, int part) {
  PODIUM_DISPATCH(attention_units)
  (s, share_of(units_of(s), attention_parts(s), part), q, packed_k, v, lengths, y, scratch);
}
void attention_grad_queries(const AttentionShape& s, const AttentionGrad& grad, float* scratch,
                            int part) {
  PODIUM_DISPATCH(grad_of_units)
  (s, share_of(units_of(s), attention_parts(s), part), grad, scratch);
}

void attention_weights(const ScoreRows& rows, float* p) {
  PODIUM_DISPATCH(weights_of_rows)(rows, p);
}
void attention_score_gradients(const ScoreRows& rows, const float* p, float* dp) {
  PODIUM_DISPATCH(score_gradients_of_rows)(rows, p, dp);
}

std::int64_t attention_grad_keys_scratch(const AttentionShape& s) {
  return 2 * s.features * kLanes;
}
int attention_grad_keys_parts(const AttentionShape& s) {
  return parts_of(tiles_of(s), 2 * kLanes * s.tokens * s.features * s.heads_of_group(), kWork);
}
void attention_grad_keys(const AttentionShape& s, const AttentionGrad& grad, float* scratch,
                         int part) {
  PODIUM_DISPATCH(grad_of_keys)
  (s, share_of(tiles_of(s), attention_grad_keys_parts(s), part), grad, scratch);
}

}  // namespace podium::cpu
#endif  // HWY_ONCE
