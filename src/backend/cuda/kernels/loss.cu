#include <limits>

#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/loss.h"
#include "backend/cuda/kernels/sums.h"
#include "backend/cuda/seeded_fault.h"
#include "base/numerics/functions.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

// Of a block; each has a thread for each lane of the class sums.
constexpr int kImages = kTreeColumns;

struct SoftmaxShared {
  LaneTable lanes;
  float d_of_label[kImages];
};

// The largest logit of each image. NaN is left out: it makes every result NaN all the same.
__device__ inline float largest(SoftmaxShared& shared, float lane_value) {
  const int i = static_cast<int>(threadIdx.x), lane = static_cast<int>(threadIdx.y);
  __syncthreads();
  shared.lanes.of[lane][i] = lane_value;
  for (int step = 1; step < kLanes; step *= 2) {
    __syncthreads();
    if (lane % (2 * step) == 0 && shared.lanes.of[lane + step][i] > shared.lanes.of[lane][i])
      shared.lanes.of[lane][i] = shared.lanes.of[lane + step][i];
  }
  __syncthreads();
  return shared.lanes.of[0][i];
}

// The loss of each image, or with kGradient dz. A thread has the classes of one lane of one image.
template <bool kGradient>
__global__ void __launch_bounds__(kLanes* kImages)
    softmax_kernel(SoftmaxShape s, ConstFloats logits, Each<const std::int32_t> labels,
                   ConstFloats dloss, Floats result) {
  auto& shared = simt::shared<SoftmaxShared>();
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kImages + threadIdx.x;
  const std::int64_t lane = threadIdx.y;
  const bool inside = n < s.images;
  const float* const z = logits.of(blockIdx.z);
  const unsigned of_labels = seeded(SeededFault::kReplicaForgotten) ? 0 : blockIdx.z;
  const std::int64_t label = inside ? labels.of(of_labels)[n] : -1;

  float most = -std::numeric_limits<float>::infinity();
  for (std::int64_t k = lane; inside && k < s.classes; k += kLanes) {
    const float value = z[k * s.images + n];
    if (value > most) most = value;
  }
  most = largest(shared, most);
  float sum_e = 0, sum_d = 0;
  for (std::int64_t k = lane; inside && k < s.classes; k += kLanes) {
    const float d = z[k * s.images + n] - most;
    sum_e = sum_e + exp_f32(d);
    sum_d = sum_d + d;
    if (k == label) shared.d_of_label[threadIdx.x] = d;
  }
  sum_e = column_tree(shared.lanes, sum_e);
  const float a = s.smoothing;
  if constexpr (kGradient) {
    const float other = a / static_cast<float>(s.classes);
    const float own = (1.0f - a) + other;
    const float weight = inside ? dloss.of(blockIdx.z)[n] : 0.0f;
    for (std::int64_t k = lane; inside && k < s.classes; k += kLanes)
      result.of(blockIdx.z)[k * s.images + n] =
          (exp_f32(z[k * s.images + n] - most) / sum_e - (k == label ? own : other)) * weight;
  } else {
    if (a != 0) sum_d = column_tree(shared.lanes, sum_d);
    if (!inside || lane != 0) return;
    const float d = shared.d_of_label[threadIdx.x];
    const float lse = log_f32(sum_e);
    result.of(blockIdx.z)[n] =
        a == 0 ? lse - d : lse - std::fma(1.0f - a, d, (a / static_cast<float>(s.classes)) * sum_d);
  }
}

template <bool kGradient>
void softmax(const Launch& launch, const SoftmaxShape& s, ConstFloats z,
             Each<const std::int32_t> labels, ConstFloats dloss, Floats result) {
  simt::launch(softmax_kernel<kGradient>,
               {.blocks = {static_cast<unsigned>((s.images + kImages - 1) / kImages), 1,
                           static_cast<unsigned>(launch.replicas)},
                .threads = {kImages, kLanes, 1},
                .shared_bytes = sizeof(SoftmaxShared)},
               launch.stream, s, z, labels, dloss, result);
}

// --- plain rows: a block has one ---

constexpr int kRowThreads = 512, kRowTile = 2048;

struct RowShared {
  float e[kRowTile], d[kRowTile];
  float sum_e, sum_d;
};

// The largest value of the row; NaN is left out.
__device__ inline float largest_of_row(RowShared& shared, const float* z, std::int64_t classes) {
  float most = -std::numeric_limits<float>::infinity();
  for (std::int64_t k = threadIdx.x; k < classes; k += kRowThreads)
    if (z[k] > most) most = z[k];
  shared.e[threadIdx.x] = most;
  for (unsigned step = kRowThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step && shared.e[threadIdx.x + step] > shared.e[threadIdx.x])
      shared.e[threadIdx.x] = shared.e[threadIdx.x + step];
  }
  __syncthreads();
  return shared.e[0];
}

// All threads compute the exponentials of a tile; then the first sixteen add them, each its lane of
// the class sum, and sixteen of the second warp the distances.
__global__ void __launch_bounds__(kRowThreads)
    softmax_rows_kernel(SoftmaxShape s, SoftmaxRows rows) {
  auto& shared = simt::shared<RowShared>();
  const std::int64_t n = blockIdx.x, classes = s.classes;
  const float* const z = rows.z.of(blockIdx.z) + n * classes;
  const std::int64_t label = rows.labels.of(blockIdx.z)[n];
  const float a = s.smoothing, most = largest_of_row(shared, z, classes);
  const bool known = label >= 0 && label < classes;
  const float d_of_label = known ? z[label] - most : 0.0f;
  const int lane = static_cast<int>(threadIdx.x % kLanes),
            group = static_cast<int>(threadIdx.x / kLanes);
  float sum = 0;  // of the first group the exponentials, of the third the distances
  for (std::int64_t begin = 0; begin < classes; begin += kRowTile) {
    const std::int64_t left = classes - begin;
    const int count = static_cast<int>(left < kRowTile ? left : kRowTile);
    __syncthreads();
    for (int k = static_cast<int>(threadIdx.x); k < count; k += kRowThreads) {
      const float d = z[begin + k] - most;
      shared.d[k] = d;
      shared.e[k] = exp_f32(d);
    }
    __syncthreads();
    if (group == 0)
      for (int k = lane; k < count; k += kLanes) sum = sum + shared.e[k];
    else if (group == 2 && a != 0)
      for (int k = lane; k < count; k += kLanes) sum = sum + shared.d[k];
  }
  sum = lane_tree(sum);
  if (group == 0 && lane == 0) shared.sum_e = sum;
  if (group == 2 && lane == 0) shared.sum_d = sum;
  __syncthreads();
  const float sum_e = shared.sum_e, other = a / static_cast<float>(classes);
  if (rows.loss.first != nullptr && threadIdx.x == 0) {
    const float lse = log_f32(sum_e);
    rows.loss.of(blockIdx.z)[n] =
        a == 0 ? lse - d_of_label : lse - std::fma(1.0f - a, d_of_label, other * shared.sum_d);
  }
  if (rows.dz.floats.first == nullptr && rows.dz.halves.first == nullptr) return;
  const float own = (1.0f - a) + other, weight = rows.dloss.of(blockIdx.z)[n];
  for (std::int64_t k = threadIdx.x; k < classes; k += kRowThreads)
    store(rows.dz, blockIdx.z, n * classes + k,
          (exp_f32(z[k] - most) / sum_e - (k == label ? own : other)) * weight);
}

__global__ void __launch_bounds__(2 * kLanes)
    batch_mean_kernel(std::int64_t images, ConstFloats x, Floats mean) {
  float lane = 0;
  for (std::int64_t n = threadIdx.x; threadIdx.x < kLanes && n < images; n += kLanes)
    lane = lane + x.of(blockIdx.z)[n];
  const float sum = lane_tree(lane);
  if (threadIdx.x == 0) *mean.of(blockIdx.z) = sum / static_cast<float>(images);
}

// The first largest value; -1 if one is NaN.
__device__ inline std::int32_t first_largest(const float* z, std::int64_t images,
                                             std::int64_t classes, std::int64_t n) {
  std::int64_t best = 0;
  float most = z[n];
  bool nan = false;
  for (std::int64_t k = 0; k < classes; ++k) {
    const float value = z[k * images + n];
    nan = nan || value != value;
    if (value > most) best = k, most = value;
  }
  return nan ? -1 : static_cast<std::int32_t>(best);
}

constexpr int kCountThreads = 256;
struct Counts {
  std::int32_t of[kCountThreads];
};
__global__ void __launch_bounds__(kCountThreads)
    correct_kernel(std::int64_t images, std::int64_t classes, ConstFloats z,
                   Each<const std::int32_t> labels, Each<std::int32_t> count) {
  auto& shared = simt::shared<Counts>();
  std::int32_t own = 0;
  for (std::int64_t n = threadIdx.x; n < images; n += kCountThreads)
    own += first_largest(z.of(blockIdx.z), images, classes, n) == labels.of(blockIdx.z)[n] ? 1 : 0;
  shared.of[threadIdx.x] = own;
  for (unsigned step = kCountThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) shared.of[threadIdx.x] += shared.of[threadIdx.x + step];
  }
  if (threadIdx.x == 0) *count.of(blockIdx.z) = shared.of[0];
}

}  // namespace

void softmax_cross_entropy(const Launch& launch, const SoftmaxShape& shape, ConstFloats z,
                           Each<const std::int32_t> labels, Floats loss) {
  softmax<false>(launch, shape, z, labels, {}, loss);
}
void softmax_cross_entropy_grad(const Launch& launch, const SoftmaxShape& shape, ConstFloats z,
                                Each<const std::int32_t> labels, ConstFloats dloss, Floats dz) {
  softmax<true>(launch, shape, z, labels, dloss, dz);
}

void softmax_cross_entropy_rows(const Launch& launch, const SoftmaxShape& shape,
                                const SoftmaxRows& rows) {
  simt::launch(
      softmax_rows_kernel,
      {.blocks = {static_cast<unsigned>(shape.images), 1, static_cast<unsigned>(launch.replicas)},
       .threads = {kRowThreads, 1, 1},
       .shared_bytes = sizeof(RowShared)},
      launch.stream, shape, rows);
}

void batch_mean(const Launch& launch, std::int64_t images, ConstFloats x, Floats mean) {
  simt::launch(
      batch_mean_kernel,
      {.blocks = {1, 1, static_cast<unsigned>(launch.replicas)}, .threads = {2 * kLanes, 1, 1}},
      launch.stream, images, x, mean);
}

void argmax(const Launch& launch, std::int64_t images, std::int64_t classes, ConstFloats z,
            Each<std::int32_t> guesses) {
  launch_flat(launch, images, [=] __device__(std::int64_t n, unsigned r) {
    guesses.of(r)[n] = first_largest(z.of(r), images, classes, n);
  });
}

void correct(const Launch& launch, std::int64_t images, std::int64_t classes, ConstFloats z,
             Each<const std::int32_t> labels, Each<std::int32_t> count) {
  simt::launch(correct_kernel,
               {.blocks = {1, 1, static_cast<unsigned>(launch.replicas)},
                .threads = {kCountThreads, 1, 1},
                .shared_bytes = sizeof(Counts)},
               launch.stream, images, classes, z, labels, count);
}

}  // namespace podium::PODIUM_CUDA_SPACE
