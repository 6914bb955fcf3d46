// A head's queries are taken in runs of 32, of which each sees keys up to the same run of these.
// Keys and values are packed once for a group of heads. The scores of four runs lie in memory at a
// time.
#include "backend/cpu/kernels/bf16/attention_bf16.h"

#include <algorithm>

#include "backend/cpu/kernels/bf16/pack_tiles.h"
#include "backend/cpu/kernels/bf16/tiles.h"
#include "backend/cpu/kernels/layout.h"
#include "backend/cpu/kernels/sequence.h"
#include "base/numerics/bf16.h"

namespace podium::cpu {
namespace {

constexpr std::int64_t kRun = kBf16Run;
constexpr std::int64_t kBlock = 4;       // runs of queries
constexpr std::int64_t kRunTiles = 2;    // of the rows or columns of a run
constexpr std::int64_t kWork = 1 << 18;  // multiply-adds of a part, at least
static_assert(kRunTiles * kTileRows == kRun && kTileRows == kTileColumns);

// Tiles [tile][run].
struct Tiles {
  std::uint16_t* first = nullptr;
  std::int64_t runs = 0;
  std::uint16_t* at(std::int64_t tile, std::int64_t run) const {
    return first + (tile * runs + run) * kTileValues;
  }
};
// The rows as rows of a left operand: whole runs of them.
void pack_left(const Matrix& x, std::int64_t tiles, const Tiles& to) {
  for (std::int64_t tile = 0; tile < tiles; ++tile)
    for (std::int64_t run = 0; run < to.runs; ++run)
      pack_lines(x, tile * kTileRows, run, to.at(tile, run));
}
// The rows as columns of a right operand, whose terms are the matrix's columns.
void pack_right(const Matrix& x, std::int64_t tiles, const Tiles& to) {
  alignas(64) std::uint16_t tile_of_rows[kTileValues];
  for (std::int64_t tile = 0; tile < tiles; ++tile)
    for (std::int64_t run = 0; run < to.runs; ++run) {
      pack_lines(x, tile * kTileRows, run, tile_of_rows);
      turn_tile(tile_of_rows, to.at(tile, run));
    }
}
// The rows as terms of a right operand.
void pack_right_terms(const Matrix& x, std::int64_t tiles, const Tiles& to) {
  for (std::int64_t tile = 0; tile < tiles; ++tile)
    for (std::int64_t run = 0; run < to.runs; ++run)
      pack_matrix_terms(x, run, tile * kTileColumns, to.at(tile, run));
}

// Pieces of a thread's memory, each of which begins at a multiple of 64 bytes.
class Pieces {
 public:
  explicit Pieces(float* memory) : memory_(memory) {}
  float* floats(std::int64_t count) {
    float* const piece = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += padded(count);
    return piece;
  }
  Tiles tiles(std::int64_t count, std::int64_t runs) {
    return {in_memory<std::uint16_t>(floats(count * runs * kTileFloats)), runs};
  }
  std::int64_t used() const { return used_; }

 private:
  float* memory_;
  std::int64_t used_ = 0;
};

class Thread {
 public:
  // Without memory: only to know how much there must be.
  Thread(const AttentionBf16& attention, bool gradient, float* memory)
      : s_(attention.shape),
        order_(attention.order),
        feature_runs_(runs_of(s_.features)),
        feature_tiles_(tiles_of(s_.features)),
        key_runs_(runs_of(s_.keys)),
        row_(key_runs_ * kRun),
        made_row_(feature_tiles_ * kTileColumns) {
    Pieces pieces(memory);
    const std::int64_t key_tiles = key_runs_ * kRunTiles;
    keys_ = pieces.tiles(key_tiles, feature_runs_);
    values_ = pieces.tiles(feature_tiles_, key_runs_);
    left_ = pieces.tiles(kRunTiles, std::max({feature_runs_, key_runs_, kBlock}));
    weights_ = pieces.floats(kBlock * kRun * row_);
    made_ = pieces.floats(kRun * made_row_);
    if (gradient) {
      keys_of_sums_ = pieces.tiles(feature_tiles_, key_runs_);
      values_of_scores_ = pieces.tiles(key_tiles, feature_runs_);
      queries_ = pieces.tiles(feature_tiles_, kBlock);
      dy_ = pieces.tiles(feature_tiles_, kBlock);
      scores_ = pieces.floats(kBlock * kRun * row_);
      dk_ = pieces.floats(row_ * made_row_);
      dv_ = pieces.floats(row_ * made_row_);
    }
    const std::int64_t columns = std::max(key_tiles, feature_tiles_),
                       runs = std::max({feature_runs_, key_runs_, kBlock});
    constexpr std::int64_t kAddressFloats = sizeof(void*) / sizeof(float);
    right_ = in_memory<const std::uint16_t*>(pieces.floats(columns * runs * kAddressFloats));
    out_ = in_memory<float*>(pieces.floats(columns * kAddressFloats));
    scratch_ = pieces.floats(tile_scratch(order_, runs));
    floats_ = pieces.used();
  }
  std::int64_t floats() const { return floats_; }

  void forward(const AttentionBf16Operands& in, RoundedRows y, std::int64_t sequence,
               std::int64_t head) {
    pack_keys(in, sequence, head / s_.heads_of_group());
    for (std::int64_t first = 0; first < s_.tokens; first += kRun) {
      const Run run = run_at(in, sequence, first);
      weigh(run, queries_of(in.q, sequence, head).from(first), weights_);
      write_sums(run, weights_, values_, y, s_.query(sequence, head) + first * s_.query_row());
    }
  }

  void backward(const AttentionBf16Operands& in, const float* dy, RoundedRows dq, RoundedRows dk,
                RoundedRows dv, std::int64_t sequence, std::int64_t group) {
    pack_keys(in, sequence, group);
    pack_right_terms(matrix_of_keys(in.k, sequence, group), feature_tiles_, keys_of_sums_);
    pack_right(matrix_of_keys(in.v, sequence, group), key_runs_ * kRunTiles, values_of_scores_);
    std::fill_n(dk_, row_ * made_row_, 0.0f);
    std::fill_n(dv_, row_ * made_row_, 0.0f);
    const std::int64_t heads = s_.heads_of_group();
    for (std::int64_t head = group * heads; head < (group + 1) * heads; ++head)
      for (std::int64_t first = 0; first < s_.tokens; first += kBlock * kRun) {
        const std::int64_t runs = std::min(kBlock, runs_of(s_.tokens - first));
        const Matrix q = queries_of(in.q, sequence, head).from(first),
                     gradients = queries_of(dy, sequence, head).from(first);
        for (std::int64_t i = 0; i < runs; ++i) {
          const Run run = run_at(in, sequence, first + i * kRun);
          float *const p = weights_ + i * kRun * row_, *const ds = scores_ + i * kRun * row_;
          weigh(run, q.from(i * kRun), p);
          pack_left(gradients.from(i * kRun), kRunTiles, {left_.first, feature_runs_});
          multiply(feature_runs_, values_of_scores_, 0, run.keys * kRunTiles, run.rows, ds, row_);
          attention_score_gradients(rows_of(run), p, ds);
          write_sums(run, ds, keys_of_sums_, dq,
                     s_.query(sequence, head) + (first + i * kRun) * s_.query_row());
        }
        pack_right_terms(q, feature_tiles_, queries_);
        pack_right_terms(gradients, feature_tiles_, dy_);
        add_to_keys(in, sequence, first, runs, scores_, queries_, dk_);
        add_to_keys(in, sequence, first, runs, weights_, dy_, dv_);
      }
    const std::int64_t at = s_.key(sequence, group);
    write(dk_, s_.keys, dk, at, s_.key_row());
    write(dv_, s_.keys, dv, at, s_.key_row());
  }

 private:
  // Up to 32 queries, and the runs of keys that they see; of the keys the first query sees
  // first_keys, and each further one `more` more.
  struct Run {
    std::int64_t rows, keys, first_keys, more;
  };
  std::int64_t seen(const AttentionBf16Operands& in, std::int64_t sequence) const {
    return in.lengths == nullptr ? s_.keys : s_.keys_within(in.lengths[sequence]);
  }
  Run run_at(const AttentionBf16Operands& in, std::int64_t sequence, std::int64_t first) const {
    const std::int64_t first_keys = s_.causal ? first + 1 : seen(in, sequence);
    return {.rows = std::min(kRun, s_.tokens - first),
            .keys = runs_of(first_keys),
            .first_keys = first_keys,
            .more = s_.causal ? 1 : 0};
  }
  ScoreRows rows_of(const Run& run) const {
    return {.rows = run.rows,
            .row = row_,
            .columns = run.keys * kRun,
            .first_keys = run.first_keys,
            .more = run.more,
            .scale = s_.scale};
  }
  Matrix queries_of(const float* q, std::int64_t sequence, std::int64_t head) const {
    return {q + s_.query(sequence, head), s_.query_row(), s_.tokens, s_.features};
  }
  Matrix matrix_of_keys(const float* k, std::int64_t sequence, std::int64_t group) const {
    return {k + s_.key(sequence, group), s_.key_row(), s_.keys, s_.features};
  }
  void pack_keys(const AttentionBf16Operands& in, std::int64_t sequence, std::int64_t group) const {
    pack_right(matrix_of_keys(in.k, sequence, group), key_runs_ * kRunTiles, keys_);
    pack_right_terms(matrix_of_keys(in.v, sequence, group), feature_tiles_, values_);
  }

  // [rows][columns of tiles] = the packed left operand, of so many runs, by the right one's from
  // `first_run` on.
  void multiply(std::int64_t runs, const Tiles& right, std::int64_t first_run, std::int64_t tiles,
                std::int64_t rows, float* to, std::int64_t row, bool continues = false) const {
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      out_[tile] = to + tile * kTileColumns;
      for (std::int64_t run = 0; run < runs; ++run)
        right_[tile * runs + run] = right.at(tile, first_run + run);
    }
    multiply_tiles({.left = left_.first,
                    .left_stride = runs * kTileValues,
                    .right = right_,
                    .runs = runs,
                    .columns = tiles,
                    .out = out_,
                    .out_stride = row,
                    .rows = rows,
                    .continues = continues,
                    .order = order_},
                   scratch_);
  }
  void weigh(const Run& run, const Matrix& queries, float* p) const {
    pack_left(queries, kRunTiles, {left_.first, feature_runs_});
    multiply(feature_runs_, keys_, 0, run.keys * kRunTiles, run.rows, p, row_);
    attention_weights(rows_of(run), p);
  }
  // What a run's weights, or the like, make of the keys' values.
  void write_sums(const Run& run, const float* p, const Tiles& values, RoundedRows to,
                  std::int64_t at) const {
    pack_left({p, row_, run.rows, run.keys * kRun}, kRunTiles, {left_.first, run.keys});
    multiply(run.keys, values, 0, feature_tiles_, run.rows, made_, made_row_);
    write(made_, run.rows, to, at, s_.query_row());
  }
  // For each run of keys, from the run of queries on of which one sees it.
  void add_to_keys(const AttentionBf16Operands& in, std::int64_t sequence, std::int64_t first,
                   std::int64_t runs, const float* p, const Tiles& queries, float* to) const {
    alignas(64) std::uint16_t terms[kTileValues];
    const std::int64_t rows = std::min(runs * kRun, s_.tokens - first),
                       end = s_.causal ? first / kRun + runs : runs_of(seen(in, sequence));
    for (std::int64_t key_run = 0; key_run < std::min(end, key_runs_); ++key_run) {
      const std::int64_t skipped =
          s_.causal ? std::max<std::int64_t>(key_run - first / kRun, 0) : 0;
      const Tiles left{left_.first, runs - skipped};
      for (std::int64_t tile = 0; tile < kRunTiles; ++tile)
        for (std::int64_t run = 0; run < left.runs; ++run) {
          pack_matrix_terms({p, row_, rows, row_}, skipped + run,
                            (key_run * kRunTiles + tile) * kTileColumns, terms);
          turn_tile(terms, left.at(tile, run));
        }
      multiply(left.runs, queries, skipped, feature_tiles_, kRun, to + key_run * kRun * made_row_,
               made_row_, true);
    }
  }
  // A sum that is zero is +0.
  void write(const float* from, std::int64_t rows, RoundedRows to, std::int64_t at,
             std::int64_t row) const {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t d = 0; d < s_.features; ++d) {
        const float sum = from[i * made_row_ + d] + 0.0f;
        to.to[at + i * row + d] = to.rounded ? bf16_rounded(sum) : sum;
      }
  }

  const AttentionShape& s_;
  const Bf16Order order_;
  const std::int64_t feature_runs_, feature_tiles_, key_runs_;
  const std::int64_t row_, made_row_;  // floats of a row of scores, and of what is made of it
  Tiles keys_, values_;                // right operands of the scores and of the sums
  Tiles keys_of_sums_, values_of_scores_, queries_, dy_;
  Tiles left_;
  float *weights_, *made_;
  float *scores_ = nullptr, *dk_ = nullptr, *dv_ = nullptr;
  const std::uint16_t** right_;
  float** out_;
  float* scratch_;
  std::int64_t floats_ = 0;
};

std::int64_t work_of(const AttentionShape& s, std::int64_t heads) {
  return 2 * heads * s.tokens * s.keys * s.features;
}

}  // namespace

std::int64_t attention_bf16_scratch(const AttentionBf16& attention, bool gradient) {
  return Thread(attention, gradient, nullptr).floats();
}
int attention_bf16_parts(const AttentionShape& s) {
  return parts_of(s.sequences * s.heads, work_of(s, 1), kWork);
}
void attention_bf16(const AttentionBf16& attention, const AttentionBf16Operands& in, RoundedRows y,
                    float* scratch, int part) {
  const AttentionShape& s = attention.shape;
  const Range heads = share_of(s.sequences * s.heads, attention_bf16_parts(s), part);
  Thread thread(attention, false, scratch);
  for (std::int64_t number = heads.begin; number < heads.end; ++number)
    thread.forward(in, y, number / s.heads, number % s.heads);
}

int attention_bf16_grad_parts(const AttentionShape& s) {
  return parts_of(s.sequences * s.groups, work_of(s, s.heads_of_group()), kWork);
}
void attention_bf16_grad(const AttentionBf16& attention, const AttentionBf16Operands& in,
                         const float* dy, RoundedRows dq, RoundedRows dk, RoundedRows dv,
                         float* scratch, int part) {
  const AttentionShape& s = attention.shape;
  const Range groups = share_of(s.sequences * s.groups, attention_bf16_grad_parts(s), part);
  Thread thread(attention, true, scratch);
  for (std::int64_t number = groups.begin; number < groups.end; ++number)
    thread.backward(in, dy, dq, dk, dv, number / s.groups, number % s.groups);
}

}  // namespace podium::cpu
