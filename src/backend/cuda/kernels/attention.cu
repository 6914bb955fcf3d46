// A block has 64 queries of a head, or as many keys for the gradients to these, and goes through
// the others in tiles of 64. Scores are computed anew in each turn: no memory holds them.
#include <cmath>
#include <limits>

#include "backend/cuda/kernels/attention_place.h"
#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/sequence.h"
#include "backend/cuda/kernels/sums.h"
#include "base/numerics/functions.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

constexpr int kShare = kSide / kLanes;  // of a thread, in each direction: kLanes apart
constexpr int kDepth = kSide / 2;       // features that lie in shared memory at a time
constexpr int kThreads = kLanes * kLanes;
// That a multiprocessor should have room for. Those of 7.5 have shared memory for one; on 8.0,
// ptxas would spill registers of the gradient to the queries.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
[[maybe_unused]] constexpr int kBlocks = 1, kGradBlocks = 1;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 800
[[maybe_unused]] constexpr int kBlocks = 2, kGradBlocks = 1;
#else
[[maybe_unused]] constexpr int kBlocks = 2, kGradBlocks = 2;
#endif

using Table = float[kSide][kSide + 1];
using Sums = float[kShare][kShare];
struct Operands {
  float rows[kSide][kDepth + 1], columns[kSide][kDepth + 1];
};
struct QueryShared {
  union {
    Operands operands;
    Table terms;
  };
  Table weights;
};
struct KeyShared : QueryShared {
  Table gradients;  // to the scores
};

// This thread's rows and columns of a tile are these and those kLanes apart.
__device__ inline int own_row() { return static_cast<int>(threadIdx.x) / kLanes; }
__device__ inline int own_column() { return static_cast<int>(threadIdx.x) % kLanes; }

// Columns [first, first + width) of the rows, of which `columns` there are; zeros beyond.
template <int kWidth>
__device__ void load_rows(float (&to)[kSide][kWidth + 1], const Rows& rows, std::int64_t first,
                          std::int64_t columns) {
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < rows.count * kWidth; i += kThreads) {
    const int row = i / kWidth, column = i % kWidth;
    to[row][column] =
        first + column < columns ? rows.from.at(row * rows.step + first + column) : 0.0f;
  }
}

// sums[i][j]: the product of the thread's i-th row of a and j-th of b, a chain over the features.
__device__ inline void multiply(QueryShared& shared, std::int64_t features, const Rows& a,
                                const Rows& b, Sums& sums) {
#pragma unroll
  for (int i = 0; i < kShare; ++i)
#pragma unroll
    for (int j = 0; j < kShare; ++j) sums[i][j] = 0;
#pragma unroll 1
  for (std::int64_t first = 0; first < features; first += kDepth) {
    __syncthreads();
    load_rows<kDepth>(shared.operands.rows, a, first, features);
    load_rows<kDepth>(shared.operands.columns, b, first, features);
    __syncthreads();
    const int depth = features - first < kDepth ? static_cast<int>(features - first) : kDepth;
#pragma unroll 1
    for (int d = 0; d < depth; ++d) {
      float rows[kShare], columns[kShare];
#pragma unroll
      for (int i = 0; i < kShare; ++i) {
        rows[i] = shared.operands.rows[own_row() + i * kLanes][d];
        columns[i] = shared.operands.columns[own_column() + i * kLanes][d];
      }
#pragma unroll
      for (int i = 0; i < kShare; ++i)
#pragma unroll
        for (int j = 0; j < kShare; ++j)
          if (i * kLanes < a.count && j * kLanes < b.count)
            sums[i][j] = std::fma(rows[i], columns[j], sums[i][j]);
    }
  }
}

// The queries of a block: the tiles of keys that one of them sees, and which of a tile each sees.
struct Queries : BlockQueries {
  using BlockQueries::BlockQueries;
  // Whether threads have an i-th query: the same for all.
  __device__ bool have(int i) const { return i * kLanes < count; }
  // Of the tile of keys from `key` on, how many the thread's i-th query sees; 0 or less: none.
  __device__ int seen(int i, std::int64_t key) const {
    const int row = own_row() + i * kLanes;
    if (row >= count) return 0;
    const std::int64_t all = keys_of(row);
    return all - key < kSide ? static_cast<int>(all - key) : kSide;
  }
  __device__ Rows tile(const Source& x, std::int64_t key) const {
    return rows_at(x, key_at(key), s.key_row(), within_tile(key, keys()));
  }
};

// What a thread knows of its queries.
struct Softmax {
  float most[kShare], share[kShare] = {};
  __device__ float weight(const AttentionShape& s, int i, float sum) const {
    return exp_f32(sum * s.scale - most[i]) * share[i];
  }
};
// All threads of a block call it.
__device__ inline void find_softmax(QueryShared& shared, const Queries& queries, const Source& q,
                                    const Source& k, Softmax& softmax) {
  const AttentionShape& s = queries.s;
  Sums sums;
  float total[kShare] = {};
#pragma unroll
  for (float& most : softmax.most) most = -std::numeric_limits<float>::infinity();
#pragma unroll 1
  for (int turn = 0; turn < 2; ++turn) {
    // First the largest score, then the sum of exponentials: a thread has a lane of each query.
    const bool adds = turn == 1;
#pragma unroll 1
    for (std::int64_t key = 0; key < queries.keys(); key += kSide) {
      multiply(shared, s.features, queries.of(q), queries.tile(k, key), sums);
#pragma unroll
      for (int i = 0; i < kShare; ++i)
#pragma unroll
        for (int j = 0; j < kShare; ++j) {
          if (own_column() + j * kLanes >= queries.seen(i, key)) continue;
          const float score = sums[i][j] * s.scale;
          if (adds)
            total[i] = total[i] + exp_f32(score - softmax.most[i]);
          else if (score > softmax.most[i])
            softmax.most[i] = score;
        }
    }
#pragma unroll
    for (int i = 0; i < kShare; ++i) {
      if (!queries.have(i)) continue;
      if (adds)
        softmax.share[i] = 1.0f / lane_tree(total[i]);
      else
        softmax.most[i] = lane_most(softmax.most[i]);
    }
  }
}

// to[i][j] += factor(i, t) * terms[t][column j] for the lines t below `count`, in their order, of
// those that row i has: is_there(i, t).
template <typename Factor, typename IsThere>
__device__ void add_products(const Table& terms, int count, const Factor& factor,
                             const IsThere& is_there, Sums& to) {
#pragma unroll 1
  for (int t = 0; t < count; ++t) {
    float columns[kShare];
#pragma unroll
    for (int j = 0; j < kShare; ++j) columns[j] = terms[t][own_column() + j * kLanes];
#pragma unroll
    for (int i = 0; i < kShare; ++i) {
      if (!is_there(i, t)) continue;
      const float own = factor(i, t);
#pragma unroll
      for (int j = 0; j < kShare; ++j) to[i][j] = std::fma(own, columns[j], to[i][j]);
    }
  }
}

// Writes the block's features of its rows.
template <typename At>
__device__ void write_rows(const Sums& sums, std::int64_t features, std::int64_t first_feature,
                           int count, const Result& to, const At& at) {
#pragma unroll
  for (int i = 0; i < kShare; ++i)
#pragma unroll
    for (int j = 0; j < kShare; ++j) {
      const int row = own_row() + i * kLanes;
      const std::int64_t feature = first_feature + own_column() + j * kLanes;
      if (row < count && feature < features) store(to, blockIdx.z, at(row) + feature, sums[i][j]);
    }
}

__device__ inline void clear(Sums& sums) {
#pragma unroll
  for (int i = 0; i < kShare; ++i)
#pragma unroll
    for (int j = 0; j < kShare; ++j) sums[i][j] = 0;
}

__global__ void __launch_bounds__(kThreads, kBlocks)
    attention_kernel(AttentionShape s, Source q, Source k, Source v,
                     Each<const std::int32_t> lengths, Result y) {
  auto& shared = simt::shared<QueryShared>();
  const Queries queries(s, place_of(s, s.heads, lengths));
  Softmax softmax;
  find_softmax(shared, queries, q, k, softmax);
  Sums sums, result;
  clear(result);
#pragma unroll 1
  for (std::int64_t key = 0; key < queries.keys(); key += kSide) {
    multiply(shared, s.features, queries.of(q), queries.tile(k, key), sums);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kShare; ++i)
#pragma unroll
      for (int j = 0; j < kShare; ++j)
        shared.weights[own_row() + i * kLanes][own_column() + j * kLanes] =
            softmax.weight(s, i, sums[i][j]);
    load_rows<kSide>(shared.terms, queries.tile(v, key), queries.place.first_feature, s.features);
    __syncthreads();
    add_products(
        shared.terms, within_tile(key, queries.keys()),
        [&](int i, int t) { return shared.weights[own_row() + i * kLanes][t]; },
        [&](int i, int t) { return t < queries.seen(i, key); }, result);
  }
  write_rows(result, s.features, queries.place.first_feature, queries.count, y,
             [&](int row) { return queries.row_at(queries.place.first + row); });
}

// dq, and of each query the largest score, what exponentials are multiplied by, and the mean of the
// gradients to the weights.
__global__ void __launch_bounds__(kThreads, kGradBlocks)
    attention_grad_queries_kernel(AttentionShape s, AttentionGrad g, Floats statistics) {
  auto& shared = simt::shared<QueryShared>();
  const Queries queries(s, place_of(s, s.heads, g.lengths));
  Softmax softmax;
  find_softmax(shared, queries, g.q, g.k, softmax);
  Sums sums, dots, result;
  float mean[kShare] = {};
  clear(result);
  // First the mean, then the gradients.
#pragma unroll 1
  for (int turn = 0; turn < 2; ++turn) {
    const bool adds = turn == 1;
#pragma unroll 1
    for (std::int64_t key = 0; key < queries.keys(); key += kSide) {
      multiply(shared, s.features, queries.of(g.q), queries.tile(g.k, key), sums);
      multiply(shared, s.features, queries.of(g.dy), queries.tile(g.v, key), dots);
      if (adds) __syncthreads();
#pragma unroll
      for (int i = 0; i < kShare; ++i)
#pragma unroll
        for (int j = 0; j < kShare; ++j) {
          const int column = own_column() + j * kLanes;
          const float weight = softmax.weight(s, i, sums[i][j]);
          if (adds)
            shared.weights[own_row() + i * kLanes][column] =
                (weight * (dots[i][j] - mean[i])) * s.scale;
          else if (column < queries.seen(i, key))
            mean[i] = std::fma(weight, dots[i][j], mean[i]);
        }
      if (!adds) continue;
      load_rows<kSide>(shared.terms, queries.tile(g.k, key), queries.place.first_feature,
                       s.features);
      __syncthreads();
      add_products(
          shared.terms, within_tile(key, queries.keys()),
          [&](int i, int t) { return shared.weights[own_row() + i * kLanes][t]; },
          [&](int i, int t) { return t < queries.seen(i, key); }, result);
    }
    if (!adds) {
#pragma unroll
      for (int i = 0; i < kShare; ++i)
        if (queries.have(i)) mean[i] = lane_tree(mean[i]);
    }
  }
  const Place& place = queries.place;
  write_rows(result, s.features, place.first_feature, queries.count, g.dq,
             [&](int row) { return queries.row_at(place.first + row); });
  if (place.first_feature != 0 || own_column() != 0) return;
#pragma unroll
  for (int i = 0; i < kShare; ++i) {
    const int row = own_row() + i * kLanes;
    if (row >= queries.count) continue;
    float* const own = statistics.of(blockIdx.z) +
                       3 * ((place.sequence * s.heads + place.head) * s.tokens + place.first + row);
    own[0] = softmax.most[i], own[1] = softmax.share[i], own[2] = mean[i];
  }
}

// dk and dv of 64 keys of a group of heads.
__global__ void __launch_bounds__(kThreads, kBlocks)
    attention_grad_keys_kernel(AttentionShape s, AttentionGrad g, ConstFloats statistics) {
  auto& shared = simt::shared<KeyShared>();
  const BlockKeys keys(s, place_of(s, s.groups, g.lengths));
  const std::int64_t first_feature = keys.place.first_feature;
  const Rows k = keys.of(g.k), v = keys.of(g.v);
  Sums sums, dots, dk, dv;
  clear(dk), clear(dv);
  keys.for_each_tile([&](const QueryTile& queries) {
    const int count = queries.count;
    const Rows q = queries.of(g.q), dy = queries.of(g.dy);
    multiply(shared, s.features, q, k, sums);
    multiply(shared, s.features, dy, v, dots);
#pragma unroll
    for (int i = 0; i < kShare; ++i) {
      const int row = own_row() + i * kLanes;
      if (row >= count) continue;
      const float* const own = statistics.of(blockIdx.z) + queries.statistics_at() + 3 * row;
      const Softmax one{{own[0]}, {own[1]}};
#pragma unroll
      for (int j = 0; j < kShare; ++j) {
        const int column = own_column() + j * kLanes;
        const float weight = one.weight(s, 0, sums[i][j]);
        shared.weights[row][column] = weight;
        shared.gradients[row][column] = (weight * (dots[i][j] - own[2])) * s.scale;
      }
    }
    const auto is_there = [&](int i, int t) {
      return keys.sees(queries.first + t, own_row() + i * kLanes);
    };
    __syncthreads();
    load_rows<kSide>(shared.terms, q, first_feature, s.features);
    __syncthreads();
    add_products(
        shared.terms, count,
        [&](int i, int t) { return shared.gradients[t][own_row() + i * kLanes]; }, is_there, dk);
    __syncthreads();
    load_rows<kSide>(shared.terms, dy, first_feature, s.features);
    __syncthreads();
    add_products(
        shared.terms, count,
        [&](int i, int t) { return shared.weights[t][own_row() + i * kLanes]; }, is_there, dv);
  });
  const auto at = [&](int row) { return keys.row_at(row); };
  write_rows(dk, s.features, first_feature, keys.count, g.dk, at);
  write_rows(dv, s.features, first_feature, keys.count, g.dv, at);
}

}  // namespace

void attention(const Launch& launch, const AttentionShape& s, Source q, Source k, Source v,
               Each<const std::int32_t> lengths, const Result& y) {
  simt::launch(attention_kernel,
               attention_grid(launch, s, s.tokens, s.heads, kThreads, sizeof(QueryShared)),
               launch.stream, s, q, k, v, lengths, y);
}

std::int64_t attention_scratch(const AttentionShape& s) {
  return 3 * s.sequences * s.heads * s.tokens;
}
void attention_grad(const Launch& launch, const AttentionShape& s, const AttentionGrad& g,
                    Floats statistics) {
  simt::launch(attention_grad_queries_kernel,
               attention_grid(launch, s, s.tokens, s.heads, kThreads, sizeof(QueryShared)),
               launch.stream, s, g, statistics);
  simt::launch(attention_grad_keys_kernel,
               attention_grid(launch, s, s.keys, s.groups, kThreads, sizeof(KeyShared)),
               launch.stream, s, g, statistics);
}

}  // namespace podium::PODIUM_CUDA_SPACE
