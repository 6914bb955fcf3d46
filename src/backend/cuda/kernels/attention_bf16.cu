// Attention on tensor cores. As in attention.cu, a block has 64 queries of a head, or as many keys
// for the gradients to these, and goes through the others in tiles of 64; scores are computed anew
// in each turn. The block's own rows stay in shared memory, the others come in slices of 32
// features. A warp has 16 rows of a tile's sums.
#include <cmath>
#include <cstdint>
#include <limits>

#include "backend/cuda/kernels/attention_place.h"
#include "backend/cuda/kernels/bf16_tile.h"
#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/sequence.h"
#include "backend/cuda/simt.h"
#include "base/numerics/bf16.h"
#include "base/numerics/functions.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

// Of rows with rows, whose terms, features, lie side by side in both; and of weights with rows.
using Products = TensorTile<kSide, kSide, 4, 1, false>;
using Sums = TensorTile<kSide, kSide, 4, 1, true>;
constexpr int kThreads = Products::kThreads;
constexpr int kTileSlices = kSide / kTerms;
constexpr int kOwnSlices = 4;  // of the block's own rows that stay: 128 features

using Slice = Half[kSide][kTerms + kOctet];
// What the weights of a tile are multiplied by: the other rows, and their features.
struct SumsOperands {
  Sums::Stage slices[kTileSlices];
};
struct QueryShared {
  Slice own[kOwnSlices], own_dy[kOwnSlices];
  Slice others;
  SumsOperands sums;
};
struct KeyShared {
  Slice own[kOwnSlices], own_v[kOwnSlices];
  Slice others;
  SumsOperands scores, weights;
  float statistics[kSide][3];
};

// Whether eight halves of these rows can be read at once.
__device__ inline bool has_octets(const Rows& rows, std::int64_t features) {
  return rows.from.halves() != nullptr && rows.step % kOctet == 0 && features % kOctet == 0 &&
         reinterpret_cast<std::uintptr_t>(rows.from.halves()) % sizeof(HalfPack<kOctet>) == 0;
}
// Copies features [first, first + kWidth) of the rows, rounded; zeros where there are none.
// at(row, octet) is where eight go.
template <int kWidth, typename At>
__device__ void load_rows(const Rows& rows, std::int64_t first, std::int64_t features,
                          const At& at) {
  constexpr int kOctets = kWidth / kOctet;
  const bool wide = has_octets(rows, features);
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kSide * kOctets; i += kThreads) {
    const int row = i / kOctets, octet = i % kOctets;
    const std::int64_t feature = first + octet * kOctet, from = row * rows.step + feature;
    Half* const to = at(row, octet);
    if (wide) {
      HalfPack<kOctet> pack{};
      if (row < rows.count && feature < features)
        pack = *reinterpret_cast<const HalfPack<kOctet>*>(rows.from.halves() + from);
      *reinterpret_cast<HalfPack<kOctet>*>(to) = pack;
      continue;
    }
#pragma unroll
    for (int k = 0; k < kOctet; ++k)
      to[k] =
          row < rows.count && feature + k < features ? bf16_bits(rows.from.at(from + k)) : Half{0};
  }
}
__device__ inline void load_slice(Slice& to, const Rows& rows, std::int64_t first,
                                  std::int64_t features) {
  load_rows<kTerms>(rows, first, features,
                    [&](int row, int octet) -> Half* { return &to[row][octet * kOctet]; });
}
// As what weights are multiplied by.
__device__ inline void load_terms(SumsOperands& to, const Rows& rows, std::int64_t first,
                                  std::int64_t features) {
  load_rows<kSide>(rows, first, features, [&](int row, int octet) -> Half* {
    return Sums::b_at(to.slices[row / kTerms], row % kTerms, octet);
  });
}

// The block's own rows, of which the first kOwnSlices slices stay where they are.
struct OwnRows {
  Slice (&slices)[kOwnSlices];
  Rows rows;
  std::int64_t features;

  __device__ bool stay() const { return features <= kOwnSlices * kTerms; }
  __device__ void load() const {
#pragma unroll 1
    for (int slice = 0; stay() && slice * kTerms < features; ++slice)
      load_slice(slices[slice], rows, slice * kTerms, features);
  }
};

// sums = own rows by other rows. All threads of the block call it.
__device__ inline void multiply(const OwnRows& own, Slice& others, const Rows& rows,
                                Products::Sums& sums) {
  Products::clear(sums);
#pragma unroll 1
  for (int slice = 0; slice * kTerms < own.features; ++slice) {
    Slice& mine = own.slices[own.stay() ? slice : 0];
    __syncthreads();
    if (!own.stay()) load_slice(mine, own.rows, slice * kTerms, own.features);
    load_slice(others, rows, slice * kTerms, own.features);
    __syncthreads();
#pragma unroll
    for (int first = 0; first < kTerms; first += kProduct) {
      Products::Operands operands;
      operands.load(mine, others, first);
      operands.multiply(sums);
    }
  }
}

// Writes what weight(sum, spot) makes of a tile's sums as an operand.
template <typename Weight>
__device__ void put_weights(SumsOperands& to, Products::Sums& of, const Weight& weight) {
  Products::for_each_sum(of, [&](float& sum, const Spot& at) {
    Sums::a_at(to.slices[at.column / kTerms], at.row, 0)[at.column % kTerms] =
        bf16_bits(weight(sum, at));
  });
}
struct AsItIs {
  __device__ float operator()(float value, const Spot& /*at*/) const { return value; }
};
// to += the tile's weights by its terms, of the slices, runs of terms, that the warp's rows have.
template <typename Has>
__device__ void add_sums(const SumsOperands& operands, const Has& has, Sums::Sums& to) {
#pragma unroll
  for (int slice = 0; slice < kTileSlices; ++slice) {
    if (!has(slice * kTerms)) continue;
#pragma unroll
    for (int first = 0; first < kTerms; first += kProduct) {
      Sums::Operands both;
      both.load(operands.slices[slice], first);
      both.multiply(to);
    }
  }
}

// f(score, dot, spot) of two tiles' sums.
template <typename F>
__device__ void for_each_two_sums(Products::Sums& scores, Products::Sums& dots, const F& f) {
  auto& others = dots[0];
  Products::for_each_sum(
      scores, [&](float& score, const Spot& at) { f(score, others[at.unit][at.number], at); });
}

// Writes the block's features of its rows. A sum that is zero is +0.
template <typename Begins>
__device__ void write_rows(Sums::Sums& sums, const Place& place, std::int64_t features, int count,
                           const Result& to, const Begins& begins) {
  Sums::for_each_sum(sums, [&](float& sum, const Spot& at) {
    const std::int64_t feature = place.first_feature + at.column;
    if (at.row < count && feature < features)
      store(to, blockIdx.z, begins(at.row) + feature, sum + 0.0f);
  });
}

// Which of a thread's two rows, which are eight apart.
__device__ inline int half_of(const Spot& spot) { return spot.number / 2; }

// A value of each of the sixteen lanes of a class sum, for both of a thread's rows. A thread has
// the lanes of its columns, and the four threads with the same rows have all.
struct ClassLanes {
  float of[2][2][2] = {};  // of row, column / 8 % 2, column % 2

  __device__ float& at(const Spot& spot) {
    return of[half_of(spot)][spot.unit % 2][spot.number % 2];
  }
  __device__ float tree(int half) const {
    float parts[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float part = of[half][i][0] + of[half][i][1];
      part = part + __shfl_xor_sync(~0u, part, 1);
      parts[i] = part + __shfl_xor_sync(~0u, part, 2);
    }
    return parts[0] + parts[1];
  }
};
__device__ inline float most_of_four(float own) {
#pragma unroll
  for (int step = 1; step < 4; step *= 2) {
    const float other = __shfl_xor_sync(~0u, own, step);
    if (other > own) own = other;
  }
  return own;
}

// The queries of a block: the tiles of keys that one of them sees, and which of a tile each sees.
struct Queries : BlockQueries {
  using BlockQueries::BlockQueries;
  // Whether the query of this row sees the key of this column of the tile from `key` on.
  __device__ bool sees(std::int64_t key, const Spot& at) const {
    return at.row < count && key + at.column < keys_of(at.row);
  }
  // Up to the end of the last run that one sees.
  __device__ Rows tile(const Source& x, std::int64_t key) const {
    const std::int64_t runs = (keys() + kTerms - 1) / kTerms * kTerms;
    return rows_at(x, key_at(key), s.key_row(), within_tile(key, runs < s.keys ? runs : s.keys));
  }
  // Whether the queries of this warp see the run that begins with this key: all do, or none.
  __device__ bool see_run(std::int64_t key) const { return key < keys_of(Products::first_row()); }
  // Calls f(key) for each tile, `key` being its first.
  template <typename F>
  __device__ void for_each_tile(const F& f) const {
#pragma unroll 1
    for (std::int64_t key = 0; key < keys(); key += kSide) f(key);
  }
};

// What a thread knows of its two rows of queries.
struct Softmax {
  float most[2], share[2];
  __device__ float weight(const AttentionShape& s, int half, float sum) const {
    return exp_f32(sum * s.scale - most[half]) * share[half];
  }
};
// All threads of a block call it.
__device__ inline Softmax find_softmax(QueryShared& shared, const Queries& queries,
                                       const OwnRows& q, const Source& k) {
  const AttentionShape& s = queries.s;
  Softmax softmax;
  Products::Sums scores;
  softmax.most[0] = softmax.most[1] = -std::numeric_limits<float>::infinity();
  queries.for_each_tile([&](std::int64_t key) {
    multiply(q, shared.others, queries.tile(k, key), scores);
    Products::for_each_sum(scores, [&](float& sum, const Spot& at) {
      const float score = sum * s.scale;
      float& most = softmax.most[half_of(at)];
      if (queries.sees(key, at) && score > most) most = score;
    });
  });
#pragma unroll
  for (float& most : softmax.most) most = most_of_four(most);
  ClassLanes total;
  queries.for_each_tile([&](std::int64_t key) {
    multiply(q, shared.others, queries.tile(k, key), scores);
    Products::for_each_sum(scores, [&](float& sum, const Spot& at) {
      if (!queries.sees(key, at)) return;
      float& lane = total.at(at);
      lane = lane + exp_f32(sum * s.scale - softmax.most[half_of(at)]);
    });
  });
#pragma unroll
  for (int half = 0; half < 2; ++half) softmax.share[half] = 1.0f / total.tree(half);
  return softmax;
}

__global__ void __launch_bounds__(kThreads, 3)
    attention_bf16_kernel(AttentionShape s, Source q, Source k, Source v,
                          Each<const std::int32_t> lengths, Result y) {
  auto& shared = simt::shared<QueryShared>();
  const Queries queries(s, place_of(s, s.heads, lengths));
  const OwnRows own{shared.own, queries.of(q), s.features};
  own.load();
  const Softmax softmax = find_softmax(shared, queries, own, k);
  Products::Sums scores;
  Sums::Sums result;
  Sums::clear(result);
  queries.for_each_tile([&](std::int64_t key) {
    multiply(own, shared.others, queries.tile(k, key), scores);
    // Everybody has read the operands before: that was ahead of the product's barriers.
    put_weights(shared.sums, scores, [&](float sum, const Spot& at) {
      return queries.sees(key, at) ? softmax.weight(s, half_of(at), sum) : 0.0f;
    });
    load_terms(shared.sums, queries.tile(v, key), queries.place.first_feature, s.features);
    __syncthreads();
    add_sums(
        shared.sums, [&](int run) { return queries.see_run(key + run); }, result);
  });
  write_rows(result, queries.place, s.features, queries.count, y,
             [&](int row) { return queries.row_at(queries.place.first + row); });
}

// dq, and of each query the largest score, what exponentials are multiplied by, and the mean of the
// gradients to the weights.
__global__ void __launch_bounds__(kThreads, 2)
    attention_bf16_grad_queries_kernel(AttentionShape s, AttentionGrad g, Floats statistics) {
  auto& shared = simt::shared<QueryShared>();
  const Queries queries(s, place_of(s, s.heads, g.lengths));
  const OwnRows own{shared.own, queries.of(g.q), s.features},
      own_dy{shared.own_dy, queries.of(g.dy), s.features};
  own.load();
  own_dy.load();
  const Softmax softmax = find_softmax(shared, queries, own, g.k);
  Products::Sums scores, dots;
  // The gradients to the weights are dots, those to the scores lie where these did.
  ClassLanes means;
  const auto products = [&](std::int64_t key) {
    multiply(own, shared.others, queries.tile(g.k, key), scores);
    multiply(own_dy, shared.others, queries.tile(g.v, key), dots);
  };
  queries.for_each_tile([&](std::int64_t key) {
    products(key);
    for_each_two_sums(scores, dots, [&](float score, float dot, const Spot& at) {
      if (!queries.sees(key, at)) return;
      float& lane = means.at(at);
      lane = std::fma(softmax.weight(s, half_of(at), score), dot, lane);
    });
  });
  const float mean[2] = {means.tree(0), means.tree(1)};
  Sums::Sums result;
  Sums::clear(result);
  queries.for_each_tile([&](std::int64_t key) {
    products(key);
    for_each_two_sums(scores, dots, [&](float& score, float dot, const Spot& at) {
      const int half = half_of(at);
      score = queries.sees(key, at)
                  ? (softmax.weight(s, half, score) * (dot - mean[half])) * s.scale
                  : 0.0f;
    });
    put_weights(shared.sums, scores, AsItIs());
    load_terms(shared.sums, queries.tile(g.k, key), queries.place.first_feature, s.features);
    __syncthreads();
    add_sums(
        shared.sums, [&](int run) { return queries.see_run(key + run); }, result);
  });
  const Place& place = queries.place;
  write_rows(result, place, s.features, queries.count, g.dq,
             [&](int row) { return queries.row_at(place.first + row); });
  if (place.first_feature != 0 || Products::lane() % 4 != 0) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = Products::first_row() + Products::lane() / 4 + half * 8;
    if (row >= queries.count) continue;
    float* const own_statistics =
        statistics.of(blockIdx.z) +
        3 * ((place.sequence * s.heads + place.head) * s.tokens + place.first + row);
    own_statistics[0] = softmax.most[half];
    own_statistics[1] = softmax.share[half];
    own_statistics[2] = mean[half];
  }
}

// dk and dv of 64 keys of a group of heads: rows are keys here, columns queries.
__global__ void __launch_bounds__(kThreads, 2)
    attention_bf16_grad_keys_kernel(AttentionShape s, AttentionGrad g, ConstFloats statistics) {
  auto& shared = simt::shared<KeyShared>();
  const BlockKeys keys(s, place_of(s, s.groups, g.lengths));
  const Place& place = keys.place;
  const OwnRows own{shared.own, keys.of(g.k), s.features},
      own_v{shared.own_v, keys.of(g.v), s.features};
  own.load();
  own_v.load();
  Products::Sums scores, dots;
  Sums::Sums dk, dv;
  Sums::clear(dk), Sums::clear(dv);
  keys.for_each_tile([&](const QueryTile& queries) {
    const int count = queries.count;
    const std::int64_t first = queries.first;
    const Rows q = queries.of(g.q), dy = queries.of(g.dy);
    multiply(own, shared.others, q, scores);
    for (int i = static_cast<int>(threadIdx.x); i < count * 3; i += kThreads)
      shared.statistics[i / 3][i % 3] = statistics.of(blockIdx.z)[queries.statistics_at() + i];
    multiply(own_v, shared.others, dy, dots);  // behind its barriers the statistics are there
    for_each_two_sums(scores, dots, [&](float& score, float& dot, const Spot& at) {
      const bool sees = at.column < count && keys.sees(first + at.column, at.row);
      const float* const own_statistics = shared.statistics[at.column];
      const Softmax one{{own_statistics[0]}, {own_statistics[1]}};
      const float weight = sees ? one.weight(s, 0, score) : 0.0f;
      score = sees ? (weight * (dot - own_statistics[2])) * s.scale : 0.0f;
      dot = weight;
    });
    put_weights(shared.scores, scores, AsItIs());
    put_weights(shared.weights, dots, AsItIs());
    load_terms(shared.scores, q, place.first_feature, s.features);
    load_terms(shared.weights, dy, place.first_feature, s.features);
    __syncthreads();
    // From the run that has the first query that sees the warp's keys, if one sees their run.
    const std::int64_t own_key = place.first + Products::first_row();
    const auto has = [&](int run) {
      return s.causal ? first + run + kTerms > own_key : own_key / kTerms * kTerms < place.keys;
    };
    add_sums(shared.scores, has, dk);
    add_sums(shared.weights, has, dv);
  });
  const auto begins = [&](int row) { return keys.row_at(row); };
  write_rows(dk, place, s.features, keys.count, g.dk, begins);
  write_rows(dv, place, s.features, keys.count, g.dv, begins);
}

}  // namespace

void attention_bf16(const Launch& launch, const AttentionShape& s, Source q, Source k, Source v,
                    Each<const std::int32_t> lengths, const Result& y) {
  simt::launch(attention_bf16_kernel,
               attention_grid(launch, s, s.tokens, s.heads, kThreads, sizeof(QueryShared)),
               launch.stream, s, q, k, v, lengths, y);
}

void attention_bf16_grad(const Launch& launch, const AttentionShape& s, const AttentionGrad& g,
                         Floats statistics) {
  simt::launch(attention_bf16_grad_queries_kernel,
               attention_grid(launch, s, s.tokens, s.heads, kThreads, sizeof(QueryShared)),
               launch.stream, s, g, statistics);
  simt::launch(attention_bf16_grad_keys_kernel,
               attention_grid(launch, s, s.keys, s.groups, kThreads, sizeof(KeyShared)),
               launch.stream, s, g, statistics);
}

}  // namespace podium::PODIUM_CUDA_SPACE
