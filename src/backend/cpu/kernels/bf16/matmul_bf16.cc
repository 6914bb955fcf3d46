#include "backend/cpu/kernels/bf16/matmul_bf16.h"

#include <algorithm>

#include "backend/cpu/kernels/bf16/tiles.h"

namespace podium::cpu {
namespace {

constexpr std::int64_t kPartColumns = 16;  // tiles
constexpr std::int64_t kSumsFloats = 2 * kTileRows * kTileColumns;

constexpr std::int64_t tiles_of(std::int64_t rows) { return (rows + kTileRows - 1) / kTileRows; }

struct Product {
  const MatmulShape& s;
  std::int64_t runs, left_tiles, right_tiles;

  explicit Product(const MatmulShape& shape)
      : s(shape),
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
    work.scratch = address_floats() + kOutFloats + kPartColumns * kSumsFloats + tile_scratch(runs);
    return work;
  }

  void pack_left(const float* a, std::uint16_t* to, std::int64_t tile) const {
    for (std::int64_t run = 0; run < runs; ++run)
      for (std::int64_t i = tile * kTileRows; i < (tile + 1) * kTileRows; ++i)
        for (std::int64_t k = run * kBf16Run; k < (run + 1) * kBf16Run; ++k)
          *to++ = i < s.rows && k < s.depth
                      ? bf16_bits(a[s.transpose_a ? k * s.rows + i : i * s.depth + k])
                      : std::uint16_t{0};
  }
  void pack_right(const float* b, std::uint16_t* to, std::int64_t tile) const {
    for (std::int64_t k = 0; k < runs * kBf16Run; k += 2)
      for (std::int64_t j = tile * kTileColumns; j < (tile + 1) * kTileColumns; ++j)
        for (std::int64_t m = k; m < k + 2; ++m)
          *to++ = j < s.columns && m < s.depth
                      ? bf16_bits(b[s.transpose_b ? j * s.depth + m : m * s.columns + j])
                      : std::uint16_t{0};
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
      to[tile - first] = sums + (tile - first) * kSumsFloats;
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
                    .rows = rows},
                   sums + kPartColumns * kSumsFloats);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = first * kTileColumns; j < std::min(end * kTileColumns, s.columns); ++j)
        c[(row + i) * s.columns + j] =
            sums[(j / kTileColumns - first) * kSumsFloats + i * kTileColumns + j % kTileColumns];
  }
};

}  // namespace

ConvWork matmul_bf16_work(const MatmulShape& shape) { return Product(shape).work(); }
void matmul_bf16(const MatmulShape& shape, const float* a, const float* b, float* c, float* shared,
                 float* scratch, int phase, int part) {
  const Product product(shape);
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
