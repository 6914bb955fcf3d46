// A thread for each element, or a few for each row or column: plain loops in the contracts' order.
#include <cmath>

#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/sequence.h"
#include "backend/cuda/kernels/sums.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

__device__ inline std::int64_t row_of(const EmbeddingShape& s, const std::int32_t* tokens,
                                      std::int64_t n) {
  return s.period != 0 ? n % s.period : tokens[n];
}

// Whether a sequence goes on from another one.
__device__ inline bool moves(const CacheShape& s, const std::int32_t* origins) {
  for (std::int64_t b = 0; b < s.sequences; ++b)
    if (origins[b] != b) return true;
  return false;
}

// --- layer norm: half a warp for each row. Loops are not unrolled, so that the operations in the
// GPU's code can be counted (tests/cuda/check_sass.py).

struct RowStatistics {
  float mean, scale;
};
// Of the row at x; all threads of a warp call it, those of a half with one row.
__device__ inline RowStatistics statistics_of(const LayerNormShape& s, const SourceAt& x,
                                              bool there) {
  const std::int64_t lane = threadIdx.x % kLanes;
  const auto columns = static_cast<float>(s.columns);
  RowStatistics row{0, 0};
  if (s.centred) {
    float sum = 0;
#pragma unroll 1
    for (std::int64_t c = lane; there && c < s.columns; c += kLanes) sum = sum + x.at(c);
    row.mean = lane_tree(sum) / columns;
  }
  float squares = 0;
#pragma unroll 1
  for (std::int64_t c = lane; there && c < s.columns; c += kLanes) {
    const float d = x.at(c) - row.mean;
    squares = std::fma(d, d, squares);
  }
  row.scale = 1.0f / std::sqrt(lane_tree(squares) / columns + s.epsilon);
  return row;
}

constexpr int kRowsOfBlock = 2;

__global__ void __launch_bounds__(kRowsOfBlock* kLanes)
    layer_norm_kernel(LayerNormShape s, Source all_x, ConstFloats scale, ConstFloats shift,
                      Result y) {
  const std::int64_t n =
      static_cast<std::int64_t>(blockIdx.x) * kRowsOfBlock + threadIdx.x / kLanes;
  const bool there = n < s.rows;
  const SourceAt x(all_x, blockIdx.z, n * s.columns);
  const RowStatistics row = statistics_of(s, x, there);
#pragma unroll 1
  for (std::int64_t c = threadIdx.x % kLanes; there && c < s.columns; c += kLanes) {
    const float z = (x.at(c) - row.mean) * row.scale, w = scale.of(blockIdx.z)[c];
    store(y, blockIdx.z, n * s.columns + c,
          s.centred ? std::fma(z, w, shift.of(blockIdx.z)[c]) : z * w);
  }
}

__global__ void __launch_bounds__(kRowsOfBlock* kLanes)
    layer_norm_grad_kernel(LayerNormShape s, Source all_dy, Source all_x, ConstFloats scales,
                           Result dx, Floats statistics) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kRowsOfBlock +
                         threadIdx.x / kLanes,
                     lane = threadIdx.x % kLanes;
  const bool there = n < s.rows;
  const SourceAt x(all_x, blockIdx.z, n * s.columns), dy(all_dy, blockIdx.z, n * s.columns);
  const float* const scale = scales.of(blockIdx.z);
  const RowStatistics row = statistics_of(s, x, there);
  float along = 0, sum = 0;
#pragma unroll 1
  for (std::int64_t c = lane; there && c < s.columns; c += kLanes) {
    const float g = dy.at(c) * scale[c];
    along = std::fma(g, (x.at(c) - row.mean) * row.scale, along);
    sum = sum + g;
  }
  const auto columns = static_cast<float>(s.columns);
  const float share = lane_tree(along) / columns;
  const float tree = lane_tree(sum);
  const float shift = s.centred ? tree / columns : 0.0f;
#pragma unroll 1
  for (std::int64_t c = lane; there && c < s.columns; c += kLanes)
    store(dx, blockIdx.z, n * s.columns + c,
          (std::fma(-share, (x.at(c) - row.mean) * row.scale, dy.at(c) * scale[c]) - shift) *
              row.scale);
  if (!there || lane != 0) return;
  statistics.of(blockIdx.z)[2 * n] = row.mean;
  statistics.of(blockIdx.z)[2 * n + 1] = row.scale;
}

template <typename Kernel, typename... Arguments>
void launch_norm(const Launch& launch, const Kernel& kernel, const LayerNormShape& s,
                 Arguments... arguments) {
  simt::launch(kernel,
               {.blocks = {static_cast<unsigned>((s.rows + kRowsOfBlock - 1) / kRowsOfBlock), 1,
                           static_cast<unsigned>(launch.replicas)},
                .threads = {kRowsOfBlock * kLanes, 1, 1}},
               launch.stream, s, arguments...);
}

// --- column sums: a block has kTreeColumns columns, with a thread for each lane

__global__ void __launch_bounds__(kTreeColumns* kLanes)
    channel_sum_rows_kernel(std::int64_t rows, std::int64_t columns, Source x, Floats sum) {
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * kTreeColumns + threadIdx.x;
  const SourceAt from(x, blockIdx.z, c);
  const float own = c < columns ? image_lane(rows, threadIdx.y,
                                             [&](std::int64_t n) { return from.at(n * columns); })
                                : 0.0f;
  const float total = column_tree(simt::shared<LaneTable>(), own);
  if (c < columns && threadIdx.y == 0) sum.of(blockIdx.z)[c] = total;
}

}  // namespace

void bias_add_rows(const Launch& launch, std::int64_t rows, std::int64_t columns, Source x,
                   ConstFloats bias, const Result& y) {
  launch_rows(launch, rows, columns, [=] __device__(std::int64_t n, unsigned c, unsigned r) {
    store(y, r, n * columns + c, load(x, r, n * columns + c) + bias.of(r)[c]);
  });
}
void channel_sum_rows(const Launch& launch, std::int64_t rows, std::int64_t columns, Source x,
                      Floats sum) {
  PODIUM_CHECK(rows * columns < std::int64_t{1} << 32, "a matrix of 2^32 elements or more");
  simt::launch(channel_sum_rows_kernel,
               {.blocks = {static_cast<unsigned>((columns + kTreeColumns - 1) / kTreeColumns), 1,
                           static_cast<unsigned>(launch.replicas)},
                .threads = {kTreeColumns, kLanes, 1},
                .shared_bytes = sizeof(LaneTable)},
               launch.stream, rows, columns, x, sum);
}

void embedding(const Launch& launch, const EmbeddingShape& s, Each<const std::int32_t> tokens,
               ConstFloats table, const Result& y) {
  launch_rows(launch, s.tokens, s.columns, [=] __device__(std::int64_t n, unsigned c, unsigned r) {
    store(y, r, n * s.columns + c, table.of(r)[row_of(s, tokens.of(r), n) * s.columns + c]);
  });
}

void cache_row(const Launch& launch, const CacheShape& s, Each<const std::int32_t> positions,
               Each<const std::int32_t> origins, ConstFloats row, ConstFloats kept, Floats moved,
               Floats next, Each<std::int32_t> seen) {
  const std::int64_t own = s.tokens * s.features;
  // Where sequences go on from others, these are copied first: `next` may lie where `kept` does.
  launch_flat(launch, s.sequences * own, [=] __device__(std::int64_t i, unsigned r) {
    if (moves(s, origins.of(r)))
      moved.of(r)[i] = kept.of(r)[origins.of(r)[i / own] * own + i % own];
  });
  launch_flat(launch, s.sequences * own, [=] __device__(std::int64_t i, unsigned r) {
    const std::int64_t sequence = i / own, feature = i % s.features;
    const std::int32_t position = positions.of(r)[sequence];
    if (i < s.sequences) seen.of(r)[i] = positions.of(r)[i] + 1;
    if (i % own / s.features == position)
      next.of(r)[i] = row.of(r)[sequence * s.features + feature];
    else if (moves(s, origins.of(r)))
      next.of(r)[i] = moved.of(r)[i];
    else if (next.of(r) != kept.of(r))
      next.of(r)[i] = kept.of(r)[i];
  });
}

void embedding_grad(const Launch& launch, const EmbeddingShape& s, Each<const std::int32_t> tokens,
                    Source dy, Each<std::int32_t> next, Each<std::int32_t> is_first,
                    Floats dtable) {
  launch_flat(launch, s.rows * s.columns,
              [=] __device__(std::int64_t i, unsigned r) { dtable.of(r)[i] = 0; });
  launch_flat(launch, s.tokens, [=] __device__(std::int64_t n, unsigned r) {
    const std::int64_t row = row_of(s, tokens.of(r), n);
    std::int64_t before = n - 1, after = n + 1;
    while (before >= 0 && row_of(s, tokens.of(r), before) != row) --before;
    while (after < s.tokens && row_of(s, tokens.of(r), after) != row) ++after;
    is_first.of(r)[n] = before < 0 ? 1 : 0;
    next.of(r)[n] = static_cast<std::int32_t>(after);
  });
  // The thread of a row's first place goes on to the others.
  launch_rows(launch, s.tokens, s.columns, [=] __device__(std::int64_t n, unsigned c, unsigned r) {
    if (is_first.of(r)[n] == 0) return;
    float waiting[40];
    std::int64_t runs = 0;
    int depth = 0;
    for (std::int64_t place = n; place < s.tokens;) {
      float sum = 0;
      for (int i = 0; i < kEmbeddingRun && place < s.tokens; ++i, place = next.of(r)[place])
        sum = sum + load(dy, r, place * s.columns + c);
      for (std::int64_t full = runs; full % 2 == 1; full /= 2) sum = waiting[--depth] + sum;
      waiting[depth++] = sum;
      ++runs;
    }
    float sum = waiting[--depth];
    while (depth > 0) sum = waiting[--depth] + sum;
    dtable.of(r)[row_of(s, tokens.of(r), n) * s.columns + c] = sum;
  });
}

void layer_norm(const Launch& launch, const LayerNormShape& s, Source x, ConstFloats scale,
                ConstFloats shift, const Result& y) {
  launch_norm(launch, layer_norm_kernel, s, x, scale, shift, y);
}

std::int64_t layer_norm_grad_scratch(const LayerNormShape& s) {
  return 2 * s.rows + 2 * (s.rows + kRowRun - 1) / kRowRun * s.columns + 2 * s.columns;
}
void layer_norm_grad(const Launch& launch, const LayerNormShape& s, Source dy, Source x,
                     ConstFloats scale, const Result& dx, Floats dscale, Floats dshift,
                     Floats scratch) {
  launch_norm(launch, layer_norm_grad_kernel, s, dy, x, scale, dx, scratch);
  const std::int64_t runs = (s.rows + kRowRun - 1) / kRowRun;
  const Floats partial = scratch.from(2 * s.rows);
  launch_rows(launch, runs, s.columns, [=] __device__(std::int64_t run, unsigned c, unsigned r) {
    float of_scale = 0, of_shift = 0;
    for (std::int64_t n = run * kRowRun; n < s.rows && n < (run + 1) * kRowRun; ++n) {
      const float g = load(dy, r, n * s.columns + c);
      const float z =
          (load(x, r, n * s.columns + c) - scratch.of(r)[2 * n]) * scratch.of(r)[2 * n + 1];
      of_scale = std::fma(g, z, of_scale);
      of_shift = of_shift + g;
    }
    partial.of(r)[2 * run * s.columns + c] = of_scale;
    partial.of(r)[(2 * run + 1) * s.columns + c] = of_shift;
  });
  launch_flat(launch, s.columns, [=] __device__(std::int64_t c, unsigned r) {
    float of_scale = 0, of_shift = 0;
    for (std::int64_t run = 0; run < runs; ++run) {
      const float a = partial.of(r)[2 * run * s.columns + c],
                  b = partial.of(r)[(2 * run + 1) * s.columns + c];
      of_scale = run == 0 ? a : of_scale + a;
      of_shift = run == 0 ? b : of_shift + b;
    }
    dscale.of(r)[c] = of_scale;
    if (s.centred) dshift.of(r)[c] = of_shift;
  });
}

void rotary(const Launch& launch, const RotaryShape& s, ConstFloats table, Source x,
            Each<const std::int32_t> positions, const Result& y) {
  // A thread for each pair of a row.
  launch_rows(
      launch, s.rows, s.columns() / 2, [=] __device__(std::int64_t n, unsigned pair, unsigned r) {
        const std::int64_t half = s.features / 2, i = pair % half,
                           at = n * s.columns() + pair / half * s.features + i,
                           position =
                               positions.first != nullptr ? positions.of(r)[n] : n % s.tokens;
        const float* angles = table.of(r) + position * s.features;
        const float cosine = angles[i], sine = s.inverse ? -angles[half + i] : angles[half + i],
                    a = load(x, r, at), b = load(x, r, at + half);
        store(y, r, at, std::fma(a, cosine, -(b * sine)));
        store(y, r, at + half, std::fma(a, sine, b * cosine));
      });
}

}  // namespace podium::PODIUM_CUDA_SPACE
