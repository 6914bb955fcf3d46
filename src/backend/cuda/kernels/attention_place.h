// Where blocks of attention work (attention.cu, attention_bf16.cu). For *.cu files only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/simt.h"
#include "ops/geometry.h"

namespace podium::PODIUM_CUDA_SPACE {

inline constexpr int kSide = 64;  // rows and columns of a tile, and features that a block makes

// Where a block's work is: a block for each tile of rows of a head, and for each part of the
// features.
struct Place {
  std::int64_t sequence, head, keys;  // of the sequence: those that are seen
  std::int64_t first;                 // of the tile
  std::int64_t first_feature;         // of those whose results the block makes
};
// `lengths`: of the keys of each sequence; null: all are seen.
__device__ inline Place place_of(const AttentionShape& s, std::int64_t heads,
                                 Each<const std::int32_t> lengths) {
  Place place{};
  place.sequence = blockIdx.x / static_cast<unsigned>(heads);
  place.head = blockIdx.x % static_cast<unsigned>(heads);
  const std::int32_t* const of_sequences = lengths.of(blockIdx.z);
  place.keys = lengths.first == nullptr ? s.keys : s.keys_within(of_sequences[place.sequence]);
  const auto parts = static_cast<unsigned>((s.features + kSide - 1) / kSide);
  place.first = static_cast<std::int64_t>(blockIdx.y / parts) * kSide;
  place.first_feature = static_cast<std::int64_t>(blockIdx.y % parts) * kSide;
  return place;
}
__device__ inline int within_tile(std::int64_t first, std::int64_t end) {
  return end - first < kSide ? static_cast<int>(end - first) : kSide;
}

// Rows of a matrix from one on, and how many there are.
struct Rows {
  SourceAt from;
  std::int64_t step;
  int count;
};
__device__ inline Rows rows_at(const Source& x, std::int64_t at, std::int64_t step, int count) {
  return {SourceAt(x, blockIdx.z, at), step, count};
}

// The queries of a block, and the keys that one of them sees.
struct BlockQueries {
  const AttentionShape& s;
  Place place;
  int count;

  __device__ BlockQueries(const AttentionShape& shape, const Place& at)
      : s(shape), place(at), count(within_tile(at.first, shape.tokens)) {}
  __device__ std::int64_t row_at(std::int64_t query) const {
    return s.query(place.sequence, place.head) + query * s.query_row();
  }
  __device__ std::int64_t key_at(std::int64_t key) const {
    return s.key(place.sequence, place.head / s.heads_of_group()) + key * s.key_row();
  }
  __device__ std::int64_t keys() const { return s.causal ? place.first + count : place.keys; }
  // How many keys the query of a row of the tile sees.
  __device__ std::int64_t keys_of(int row) const {
    return s.causal ? place.first + row + 1 : place.keys;
  }
  __device__ Rows of(const Source& x) const {
    return rows_at(x, row_at(place.first), s.query_row(), count);
  }
};

// A tile of queries of one head.
struct QueryTile {
  const AttentionShape& s;
  std::int64_t sequence, head, first;
  int count;

  __device__ Rows of(const Source& x) const {
    return rows_at(x, s.query(sequence, head) + first * s.query_row(), s.query_row(), count);
  }
  // Three numbers of each query, those of neighbours side by side: of the first one.
  __device__ std::int64_t statistics_at() const {
    return 3 * ((sequence * s.heads + head) * s.tokens + first);
  }
};

// The keys of a block, and the queries that may see one of them: of all heads of their group.
struct BlockKeys {
  const AttentionShape& s;
  Place place;
  int count;
  int seen;  // of the count; the others have no gradient

  __device__ BlockKeys(const AttentionShape& shape, const Place& at)
      : s(shape),
        place(at),
        count(within_tile(at.first, shape.keys)),
        seen(shape.causal || at.keys > at.first + count ? count
                                                        : static_cast<int>(at.keys - at.first)) {}
  __device__ std::int64_t row_at(int row) const {
    return s.key(place.sequence, place.head) + (place.first + row) * s.key_row();
  }
  __device__ Rows of(const Source& x) const { return rows_at(x, row_at(0), s.key_row(), count); }
  // Whether the query of this number sees the key of a row of the tile.
  __device__ bool sees(std::int64_t query, int row) const {
    return row < seen && (!s.causal || query >= place.first + row);
  }
  template <typename F>
  __device__ void for_each_tile(const F& f) const {
    if (seen <= 0) return;
#pragma unroll 1
    for (std::int64_t head = place.head * s.heads_of_group();
         head < (place.head + 1) * s.heads_of_group(); ++head)
#pragma unroll 1
      for (std::int64_t first = s.causal ? place.first : 0; first < s.tokens; first += kSide)
        f(QueryTile{s, place.sequence, head, first, within_tile(first, s.tokens)});
  }
};

inline simt::Grid attention_grid(const Launch& launch, const AttentionShape& s, std::int64_t rows,
                                 std::int64_t heads, unsigned threads, std::size_t shared_bytes) {
  return {.blocks = {static_cast<unsigned>(s.sequences * heads),
                     static_cast<unsigned>((rows + kSide - 1) / kSide *
                                           ((s.features + kSide - 1) / kSide)),
                     static_cast<unsigned>(launch.replicas)},
          .threads = {threads, 1, 1},
          .shared_bytes = shared_bytes};
}

}  // namespace podium::PODIUM_CUDA_SPACE
