#include "backend/cuda/kernels/flat.h"
#include "backend/cuda/kernels/move.h"
#include "backend/cuda/seeded_fault.h"
#include "base/numerics/view.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

// A block turns a tile of 32 x 32 words, eight rows at a time.
constexpr int kTile = 32, kRows = 8;
struct TransposeTile {
  std::uint32_t words[kTile][kTile + 1];  // one more: columns lie in different banks
};

__global__ void __launch_bounds__(kTile* kRows)
    transpose_kernel(std::int64_t rows, std::int64_t columns, ConstWords x, Words y) {
  auto& tile = simt::shared<TransposeTile>();
  const std::int64_t across = (columns + kTile - 1) / kTile;
  const std::int64_t row0 = blockIdx.x / across * kTile, column0 = blockIdx.x % across * kTile;
  const int lane = static_cast<int>(threadIdx.x);
  const std::uint32_t* const from = x.of(blockIdx.z);
  std::uint32_t* const to = y.of(blockIdx.z);
  for (int i = static_cast<int>(threadIdx.y); i < kTile; i += kRows)
    if (row0 + i < rows && column0 + lane < columns)
      tile.words[i][lane] = from[(row0 + i) * columns + column0 + lane];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.y); i < kTile; i += kRows)
    if (column0 + i < columns && row0 + lane < rows)
      to[(column0 + i) * rows + row0 + lane] = tile.words[lane][i];
}

}  // namespace

void copy_words(const Launch& launch, std::int64_t count, ConstWords x, Words y) {
  launch_flat(launch, count, [=] __device__(std::int64_t i, unsigned replica) {
    y.of(replica)[i] = x.of(replica)[i];
  });
}

void transpose(const Launch& launch, std::int64_t rows, std::int64_t columns, ConstWords x,
               Words y) {
  const std::int64_t blocks = (rows + kTile - 1) / kTile * ((columns + kTile - 1) / kTile);
  simt::launch(
      transpose_kernel,
      {.blocks = {static_cast<unsigned>(blocks), 1, static_cast<unsigned>(launch.replicas)},
       .threads = {kTile, kRows, 1},
       .shared_bytes = seeded(SeededFault::kSharedTooSmall) ? 4 : sizeof(TransposeTile)},
      launch.stream, rows, columns, x, y);
}

void fill(const Launch& launch, std::int64_t count, float value, Floats y) {
  launch_flat(launch, count,
              [=] __device__(std::int64_t i, unsigned replica) { y.of(replica)[i] = value; });
}

void copy_range(const Launch& launch, std::int64_t from, std::int64_t count, std::int64_t to,
                std::int64_t size, ConstFloats x, Floats y) {
  launch_flat(launch, size, [=] __device__(std::int64_t i, unsigned replica) {
    const bool inside = i >= to && i < to + count;
    y.of(replica)[i] = inside ? x.of(replica)[i - to + from] : 0.0f;
  });
}

void permute(const Launch& launch, const PermuteShape& s, ConstFloats x, Floats y) {
  launch_flat(launch, s.values() * s.images, [=] __device__(std::int64_t at, unsigned replica) {
    const std::int64_t image = at % s.images, value = at / s.images;
    const std::int64_t k = value % s.extents[2], line = value / s.extents[2];
    const std::int64_t j = line % s.extents[1], i = line / s.extents[1];
    const std::int64_t source = i * s.steps[0] + j * s.steps[1] + k * s.steps[2];
    y.of(replica)[at] = x.of(replica)[source * s.images + image];
  });
}

void view(const Launch& launch, const ViewShape& shape, ConstFloats x, Floats y) {
  const ViewPixels pixels(shape.view);
  launch_flat(launch, shape.planes * shape.height * shape.width * shape.inner,
              [=] __device__(std::int64_t i, unsigned replica) {
                const std::int64_t inner = i % shape.inner, pixel = i / shape.inner;
                const std::int64_t column = pixel % shape.width, line = pixel / shape.width;
                const std::int64_t row = line % shape.height, plane = line / shape.height;
                const std::int64_t source =
                    (plane * shape.height + pixels.row(row, shape.height)) * shape.width +
                    pixels.column(column, shape.width);
                y.of(replica)[i] = x.of(replica)[source * shape.inner + inner];
              });
}

}  // namespace podium::PODIUM_CUDA_SPACE
