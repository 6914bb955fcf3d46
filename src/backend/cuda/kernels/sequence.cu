// A thread for each element, row or query: plain loops in the contracts' order.
#include <cmath>
#include <limits>

#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/sequence.h"
#include "backend/cuda/kernels/sums.h"
#include "base/functions.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

__device__ inline std::int64_t row_of(const EmbeddingShape& s, const std::int32_t* tokens,
                                      std::int64_t n) {
  return s.period != 0 ? n % s.period : tokens[n];
}

// --- layer norm: half a warp for each row. Loops are not unrolled, so that the operations in the
// GPU's code can be counted (tests/cuda/check_sass.py).

struct RowStatistics {
  float mean, scale;
};
// Of the row at x; all threads of a warp call it, those of a half with one row.
__device__ inline RowStatistics statistics_of(const LayerNormShape& s, const float* x, bool there) {
  const std::int64_t lane = threadIdx.x % kLanes;
  const auto columns = static_cast<float>(s.columns);
  RowStatistics row{0, 0};
  if (s.centred) {
    float sum = 0;
#pragma unroll 1
    for (std::int64_t c = lane; there && c < s.columns; c += kLanes) sum = sum + x[c];
    row.mean = lane_tree(sum) / columns;
  }
  float squares = 0;
#pragma unroll 1
  for (std::int64_t c = lane; there && c < s.columns; c += kLanes) {
    const float d = x[c] - row.mean;
    squares = std::fma(d, d, squares);
  }
  row.scale = 1.0f / std::sqrt(lane_tree(squares) / columns + s.epsilon);
  return row;
}

constexpr int kRowsOfBlock = 2;

__global__ void __launch_bounds__(kRowsOfBlock* kLanes)
    layer_norm_kernel(LayerNormShape s, ConstFloats all_x, ConstFloats scale, ConstFloats shift,
                      Floats all_y) {
  const std::int64_t n =
      static_cast<std::int64_t>(blockIdx.x) * kRowsOfBlock + threadIdx.x / kLanes;
  const bool there = n < s.rows;
  const float* const x = all_x.of(blockIdx.z) + n * s.columns;
  float* const y = all_y.of(blockIdx.z) + n * s.columns;
  const RowStatistics row = statistics_of(s, x, there);
#pragma unroll 1
  for (std::int64_t c = threadIdx.x % kLanes; there && c < s.columns; c += kLanes) {
    const float z = (x[c] - row.mean) * row.scale, w = scale.of(blockIdx.z)[c];
    y[c] = s.centred ? std::fma(z, w, shift.of(blockIdx.z)[c]) : z * w;
  }
}

__global__ void __launch_bounds__(kRowsOfBlock* kLanes)
    layer_norm_grad_kernel(LayerNormShape s, ConstFloats all_dy, ConstFloats all_x,
                           ConstFloats scales, Floats all_dx, Floats statistics) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kRowsOfBlock +
                         threadIdx.x / kLanes,
                     lane = threadIdx.x % kLanes;
  const bool there = n < s.rows;
  const float *const x = all_x.of(blockIdx.z) + n * s.columns,
                     *const dy = all_dy.of(blockIdx.z) + n * s.columns,
                     *const scale = scales.of(blockIdx.z);
  const RowStatistics row = statistics_of(s, x, there);
  float along = 0, sum = 0;
#pragma unroll 1
  for (std::int64_t c = lane; there && c < s.columns; c += kLanes) {
    const float g = dy[c] * scale[c];
    along = std::fma(g, (x[c] - row.mean) * row.scale, along);
    sum = sum + g;
  }
  const auto columns = static_cast<float>(s.columns);
  const float share = lane_tree(along) / columns;
  const float tree = lane_tree(sum);
  const float shift = s.centred ? tree / columns : 0.0f;
#pragma unroll 1
  for (std::int64_t c = lane; there && c < s.columns; c += kLanes)
    all_dx.of(blockIdx.z)[n * s.columns + c] =
        (std::fma(-share, (x[c] - row.mean) * row.scale, dy[c] * scale[c]) - shift) * row.scale;
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

// --- attention: a thread for each query, or key, of a head

__device__ inline float dot(std::int64_t features, const float* a, const float* b) {
  float sum = 0;
  for (std::int64_t d = 0; d < features; ++d) sum = std::fma(a[d], b[d], sum);
  return sum;
}

struct Query {
  std::int64_t sequence, head, i, at, keys_at, keys;
};
// `lengths`: of the keys of each sequence; null: all are seen.
__device__ inline std::int64_t keys_of(const AttentionShape& s, const std::int32_t* lengths,
                                       std::int64_t sequence) {
  return lengths == nullptr ? s.keys : s.keys_within(lengths[sequence]);
}
__device__ inline Query query_of(const AttentionShape& s, std::int64_t number,
                                 const std::int32_t* lengths) {
  Query query;
  query.i = number % s.tokens;
  query.head = number / s.tokens % s.heads;
  query.sequence = number / s.tokens / s.heads;
  query.at = s.query(query.sequence, query.head) + query.i * s.query_row();
  query.keys_at = s.key(query.sequence, query.head / s.heads_of_group());
  query.keys = s.causal ? query.i + 1 : keys_of(s, lengths, query.sequence);
  return query;
}

// The tree over lanes that one thread has.
__device__ inline float tree_of(float (&lanes)[kLanes]) {
#pragma unroll
  for (int step = 1; step < kLanes; step *= 2)
#pragma unroll
    for (int lane = 0; lane < kLanes; lane += 2 * step)
      lanes[lane] = lanes[lane] + lanes[lane + step];
  return lanes[0];
}

struct Softmax {
  float most, share;
};
__device__ inline Softmax softmax_of(const AttentionShape& s, const Query& query, const float* q,
                                     const float* k) {
  float most = -std::numeric_limits<float>::infinity();
  for (std::int64_t j = 0; j < query.keys; ++j) {
    const float score = dot(s.features, q, k + j * s.key_row()) * s.scale;
    if (score > most) most = score;
  }
  float lanes[kLanes] = {};
  for (std::int64_t first = 0; first < query.keys; first += kLanes)
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane)
      if (first + lane < query.keys)
        lanes[lane] =
            lanes[lane] +
            exp_f32(dot(s.features, q, k + (first + lane) * s.key_row()) * s.scale - most);
  return {most, 1.0f / tree_of(lanes)};
}
__device__ inline float weight_of(const AttentionShape& s, const Softmax& softmax, const float* q,
                                  const float* k) {
  return exp_f32(dot(s.features, q, k) * s.scale - softmax.most) * softmax.share;
}

}  // namespace

void embedding(const Launch& launch, const EmbeddingShape& s, Each<const std::int32_t> tokens,
               ConstFloats table, Floats y) {
  launch_rows(launch, s.tokens, s.columns, [=] __device__(std::int64_t n, unsigned c, unsigned r) {
    y.of(r)[n * s.columns + c] = table.of(r)[row_of(s, tokens.of(r), n) * s.columns + c];
  });
}

void embedding_grad(const Launch& launch, const EmbeddingShape& s, Each<const std::int32_t> tokens,
                    ConstFloats dy, Each<std::int32_t> next, Each<std::int32_t> is_first,
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
        sum = sum + dy.of(r)[place * s.columns + c];
      for (std::int64_t full = runs; full % 2 == 1; full /= 2) sum = waiting[--depth] + sum;
      waiting[depth++] = sum;
      ++runs;
    }
    float sum = waiting[--depth];
    while (depth > 0) sum = waiting[--depth] + sum;
    dtable.of(r)[row_of(s, tokens.of(r), n) * s.columns + c] = sum;
  });
}

void layer_norm(const Launch& launch, const LayerNormShape& s, ConstFloats x, ConstFloats scale,
                ConstFloats shift, Floats y) {
  launch_norm(launch, layer_norm_kernel, s, x, scale, shift, y);
}

std::int64_t layer_norm_grad_scratch(const LayerNormShape& s) {
  return 2 * s.rows + 2 * (s.rows + kRowRun - 1) / kRowRun * s.columns + 2 * s.columns;
}
void layer_norm_grad(const Launch& launch, const LayerNormShape& s, ConstFloats dy, ConstFloats x,
                     ConstFloats scale, Floats dx, Floats dscale, Floats dshift, Floats scratch) {
  launch_norm(launch, layer_norm_grad_kernel, s, dy, x, scale, dx, scratch);
  const std::int64_t runs = (s.rows + kRowRun - 1) / kRowRun;
  const Floats partial = scratch.from(2 * s.rows);
  launch_rows(launch, runs, s.columns, [=] __device__(std::int64_t run, unsigned c, unsigned r) {
    float of_scale = 0, of_shift = 0;
    for (std::int64_t n = run * kRowRun; n < s.rows && n < (run + 1) * kRowRun; ++n) {
      const float g = dy.of(r)[n * s.columns + c];
      const float z =
          (x.of(r)[n * s.columns + c] - scratch.of(r)[2 * n]) * scratch.of(r)[2 * n + 1];
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

void rotary(const Launch& launch, const RotaryShape& s, ConstFloats table, ConstFloats x,
            Floats y) {
  // A thread for each pair of a row.
  launch_rows(
      launch, s.rows, s.columns() / 2, [=] __device__(std::int64_t n, unsigned pair, unsigned r) {
        const std::int64_t half = s.features / 2, i = pair % half,
                           at = n * s.columns() + pair / half * s.features + i;
        const float* angles = table.of(r) + n % s.tokens * s.features;
        const float cosine = angles[i], sine = s.inverse ? -angles[half + i] : angles[half + i],
                    a = x.of(r)[at], b = x.of(r)[at + half];
        y.of(r)[at] = std::fma(a, cosine, -(b * sine));
        y.of(r)[at + half] = std::fma(a, sine, b * cosine);
      });
}

void attention(const Launch& launch, const AttentionShape& s, ConstFloats all_q, ConstFloats all_k,
               ConstFloats all_v, Each<const std::int32_t> lengths, Floats all_y) {
  launch_flat(launch, s.sequences * s.heads * s.tokens,
              [=] __device__(std::int64_t number, unsigned r) {
                const Query query = query_of(s, number, lengths.of(r));
                const float *q = all_q.of(r) + query.at, *k = all_k.of(r) + query.keys_at,
                            *v = all_v.of(r) + query.keys_at;
                float* y = all_y.of(r) + query.at;
                const Softmax softmax = softmax_of(s, query, q, k);
                for (std::int64_t d = 0; d < s.features; ++d) y[d] = 0;
                for (std::int64_t j = 0; j < query.keys; ++j) {
                  const float p = weight_of(s, softmax, q, k + j * s.key_row());
                  for (std::int64_t d = 0; d < s.features; ++d)
                    y[d] = std::fma(p, v[j * s.key_row() + d], y[d]);
                }
              });
}

std::int64_t attention_scratch(const AttentionShape& s) {
  return 3 * s.sequences * s.heads * s.tokens;
}
void attention_grad(const Launch& launch, const AttentionShape& s, const AttentionGrad& g,
                    Floats statistics) {
  launch_flat<2>(
      launch, s.sequences * s.heads * s.tokens, [=] __device__(std::int64_t number, unsigned r) {
        const Query query = query_of(s, number, g.lengths.of(r));
        const float *q = g.q.of(r) + query.at, *dy = g.dy.of(r) + query.at,
                    *k = g.k.of(r) + query.keys_at, *v = g.v.of(r) + query.keys_at;
        float* dq = g.dq.of(r) + query.at;
        const Softmax softmax = softmax_of(s, query, q, k);
        float lanes[kLanes] = {};
        for (std::int64_t first = 0; first < query.keys; first += kLanes)
#pragma unroll
          for (int lane = 0; lane < kLanes; ++lane)
            if (first + lane < query.keys) {
              const std::int64_t key = (first + lane) * s.key_row();
              lanes[lane] = std::fma(weight_of(s, softmax, q, k + key),
                                     dot(s.features, dy, v + key), lanes[lane]);
            }
        const float mean = tree_of(lanes);
        for (std::int64_t d = 0; d < s.features; ++d) dq[d] = 0;
        for (std::int64_t j = 0; j < query.keys; ++j) {
          const float* key = k + j * s.key_row();
          const float ds =
              (weight_of(s, softmax, q, key) * (dot(s.features, dy, v + j * s.key_row()) - mean)) *
              s.scale;
          for (std::int64_t d = 0; d < s.features; ++d) dq[d] = std::fma(ds, key[d], dq[d]);
        }
        float* own = statistics.of(r) + 3 * number;
        own[0] = softmax.most, own[1] = softmax.share, own[2] = mean;
      });
  launch_flat(
      launch, s.sequences * s.groups * s.keys, [=] __device__(std::int64_t number, unsigned r) {
        const std::int64_t j = number % s.keys, group = number / s.keys % s.groups,
                           sequence = number / s.keys / s.groups,
                           at = s.key(sequence, group) + j * s.key_row();
        const float *k = g.k.of(r) + at, *v = g.v.of(r) + at;
        float *dk = g.dk.of(r) + at, *dv = g.dv.of(r) + at;
        for (std::int64_t d = 0; d < s.features; ++d) dk[d] = 0, dv[d] = 0;
        if (!s.causal && j >= keys_of(s, g.lengths.of(r), sequence)) return;
        for (std::int64_t head = group * s.heads_of_group();
             head < (group + 1) * s.heads_of_group(); ++head)
          for (std::int64_t i = s.causal ? j : 0; i < s.tokens; ++i) {
            const std::int64_t query = s.query(sequence, head) + i * s.query_row();
            const float *q = g.q.of(r) + query, *dy = g.dy.of(r) + query;
            const float* own = statistics.of(r) + 3 * ((sequence * s.heads + head) * s.tokens + i);
            const float p = weight_of(s, {own[0], own[1]}, q, k);
            const float ds = (p * (dot(s.features, dy, v) - own[2])) * s.scale;
            for (std::int64_t d = 0; d < s.features; ++d) {
              dk[d] = std::fma(ds, q[d], dk[d]);
              dv[d] = std::fma(p, dy[d], dv[d]);
            }
          }
      });
}

}  // namespace podium::PODIUM_CUDA_SPACE
