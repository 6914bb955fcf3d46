#include "backend/cpu/kernels/bf16/matmul_bf16.h"

#include <algorithm>

#include "backend/cpu/kernels/bf16/pack_tiles.h"
#include "backend/cpu/kernels/bf16/tiles.h"

namespace podium::cpu {
namespace {

constexpr std::int64_t kPartColumns = 16;  // tiles

struct Product {
  const Bf16Order order;
  const MatmulShape& s;
  std::int64_t runs, left_tiles, right_tiles;

  Product(Bf16Order its_order, const MatmulShape& shape)
      : order(its_order),
        s(shape),
        runs(std::max<std::int64_t>((s.depth + kBf16Run - 1) / kBf16Run, 1)),
        left_tiles(tiles_of(s.rows)),
        right_tiles(tiles_of(s.columns)) {}

  std::int64_t pairs() const { return (left_tiles + 1) / 2; }
  std::int64_t groups() const { return (right_tiles + kPartColumns - 1) / kPartColumns; }
  // A part's: addresses of tiles, where sums go, the sums, and what products want.
  std::int64_t address_floats() const { return kPartColumns * runs * 2; }
  static constexpr std::int64_t kOutFloats = kPartColumns * 2;

  ConvWork work() const {
    ConvWork work;
    work.parts[work.phases++] = static_cast<int>(left_tiles);
    work.parts[work.phases++] = static_cast<int>(right_tiles);
    work.parts[work.phases++] = static_cast<int>(pairs() * groups());
    work.shared = (left_tiles + right_tiles) * runs * kTileFloats;
    work.scratch =
        address_floats() + kOutFloats + kPartColumns * kPairSums + tile_scratch(order, runs);
    return work;
  }

  // Of a matrix [lines][depth], or turned: where number k of a line lies is for the caller to say.
  template <typename Put>
  void pack(const float* from, std::int64_t lines, bool turned, std::int64_t first,
            const Put& put) const {
    const std::int64_t count = std::min<std::int64_t>(kTileRows, lines - first);
    std::uint16_t rounded[kBf16Run];
    if (!turned) {
      for (std::int64_t i = 0; i < count; ++i)
        for (std::int64_t k = 0; k < s.depth; k += kBf16Run) {
          const std::int64_t width = std::min<std::int64_t>(kBf16Run, s.depth - k);
          round_to_bf16(from + (first + i) * s.depth + k, width, rounded);
          for (std::int64_t m = 0; m < width; ++m) put(i, k / kBf16Run, m, rounded[m]);
        }
      return;
    }
    for (std::int64_t k = 0; k < s.depth; ++k) {
      round_to_bf16(from + k * lines + first, count, rounded);
      for (std::int64_t i = 0; i < count; ++i) put(i, k / kBf16Run, k % kBf16Run, rounded[i]);
    }
  }
  void pack_left(const float* a, std::uint16_t* to, std::int64_t tile) const {
    std::fill_n(to, runs * kTileValues, std::uint16_t{0});
    pack(a, s.rows, s.transpose_a, tile * kTileRows,
         [&](std::int64_t i, std::int64_t run, std::int64_t m, std::uint16_t value) {
           to[run * kTileValues + i * kBf16Run + m] = value;
         });
  }
  void pack_right(const float* b, std::uint16_t* to, std::int64_t tile) const {
    std::fill_n(to, runs * kTileValues, std::uint16_t{0});
    pack(b, s.columns, !s.transpose_b, tile * kTileColumns,
         [&](std::int64_t i, std::int64_t run, std::int64_t m, std::uint16_t value) {
           to[run * kTileValues + (m / 2 * kTileColumns + i) * 2 + m % 2] = value;
         });
  }

  void multiply(const std::uint16_t* left, const std::uint16_t* right_all, float* c, float* scratch,
                std::int64_t part) const {
    const std::int64_t row = part / groups() * 2 * kTileRows,
                       first = part % groups() * kPartColumns,
                       end = std::min(first + kPartColumns, right_tiles);
    auto** const right = reinterpret_cast<const std::uint16_t**>(scratch);
    auto** const to = reinterpret_cast<float**>(scratch + address_floats());
    float* const sums = scratch + address_floats() + kOutFloats;
    for (std::int64_t tile = first; tile < end; ++tile) {
      to[tile - first] = sums + (tile - first) * kPairSums;
      for (std::int64_t run = 0; run < runs; ++run)
        right[(tile - first) * runs + run] = right_all + (tile * runs + run) * kTileValues;
    }
    const std::int64_t rows = std::min<std::int64_t>(2 * kTileRows, s.rows - row);
    multiply_tiles({.left = left + row / kTileRows * runs * kTileValues,
                    .left_stride = runs * kTileValues,
                    .right = right,
                    .runs = runs,
                    .columns = end - first,
                    .out = to,
                    .out_stride = kTileColumns,
                    .rows = rows,
                    .order = order},
                   sums + kPartColumns * kPairSums);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = first * kTileColumns; j < std::min(end * kTileColumns, s.columns); ++j)
        c[(row + i) * s.columns + j] =
            sums[(j / kTileColumns - first) * kPairSums + i * kTileColumns + j % kTileColumns];
  }
};

}  // namespace

ConvWork matmul_bf16_work(Bf16Order order, const MatmulShape& shape) {
  return Product(order, shape).work();
}
void matmul_bf16(Bf16Order order, const MatmulShape& shape, const float* a, const float* b,
                 float* c, float* shared, float* scratch, int phase, int part) {
  const Product product(order, shape);
  auto* left = reinterpret_cast<std::uint16_t*>(shared);
  auto* right = left + product.left_tiles * product.runs * kTileValues;
  if (phase == 0)
    product.pack_left(a, left + part * product.runs * kTileValues, part);
  else if (phase == 1)
    product.pack_right(b, right + part * product.runs * kTileValues, part);
  else
    product.multiply(left, right, c, scratch, part);
}

}  // namespace podium::cpu
