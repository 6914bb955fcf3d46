#include "backend/cpu/kernels/bf16/matmul_bf16.h"

#include <algorithm>
#include <iterator>

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

  // Terms of a run of the sixteen lines from `first` on of a matrix [lines][depth]: a left tile.
  void pack_lines(const float* from, std::int64_t lines, std::int64_t first, std::int64_t run,
                  std::uint16_t* tile) const {
    const std::int64_t count = std::min<std::int64_t>(kTileRows, lines - first),
                       width = std::min<std::int64_t>(kBf16Run, s.depth - run * kBf16Run);
    if (count < kTileRows || width < kBf16Run) std::fill_n(tile, kTileValues, std::uint16_t{0});
    for (std::int64_t i = 0; i < count && width > 0; ++i)
      round_to_bf16(from + (first + i) * s.depth + run * kBf16Run, width, tile + i * kBf16Run);
  }
  // The same of a matrix [depth][lines]: a right tile.
  void pack_terms_of(const float* from, std::int64_t lines, std::int64_t first, std::int64_t run,
                     std::uint16_t* tile) const {
    const std::int64_t count = std::min<std::int64_t>(kTileColumns, lines - first),
                       width = std::min<std::int64_t>(kBf16Run, s.depth - run * kBf16Run);
    const float* terms[kBf16Run] = {};
    float copies[kBf16Run][kTileColumns];  // of lines that fill no vector
    for (std::int64_t k = 0; k < width; ++k) {
      terms[k] = from + (run * kBf16Run + k) * lines + first;
      if (count == kTileColumns) continue;
      std::fill(std::copy_n(terms[k], count, copies[k]), std::end(copies[k]), 0.0f);
      terms[k] = copies[k];
    }
    pack_terms(terms, kTileColumns, tile);
  }
  // All runs of a tile of a matrix that is stored [lines][depth], or `by_terms`.
  void pack_tile(const float* from, std::int64_t lines, bool by_terms, bool is_left,
                 std::uint16_t* to, std::int64_t tile) const {
    alignas(64) std::uint16_t other[kTileValues];
    const bool turns = by_terms == is_left;
    for (std::int64_t run = 0; run < runs; ++run, to += kTileValues) {
      std::uint16_t* const into = turns ? other : to;
      if (by_terms)
        pack_terms_of(from, lines, tile * kTileRows, run, into);
      else
        pack_lines(from, lines, tile * kTileRows, run, into);
      if (turns) turn_tile(other, to);
    }
  }

  void multiply(const std::uint16_t* left, const std::uint16_t* right_all, bool rounded, float* c,
                float* scratch, std::int64_t part) const {
    const std::int64_t row = part / groups() * 2 * kTileRows,
                       first = part % groups() * kPartColumns,
                       end = std::min(first + kPartColumns, right_tiles);
    auto** const right = reinterpret_cast<const std::uint16_t**>(scratch);
    auto** const to = reinterpret_cast<float**>(scratch + address_floats());
    float* const sums = scratch + address_floats() + kOutFloats;
    const bool fills = s.columns % kTileColumns == 0;  // the sums are made where they are to be
    for (std::int64_t tile = first; tile < end; ++tile) {
      to[tile - first] =
          fills ? c + row * s.columns + tile * kTileColumns : sums + (tile - first) * kPairSums;
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
                    .out_stride = fills ? s.columns : kTileColumns,
                    .rows = rows,
                    .order = order},
                   sums + kPartColumns * kPairSums);
    for (std::int64_t tile = first; tile < end && !fills; ++tile)
      for (std::int64_t i = 0; i < rows; ++i)
        std::copy_n(to[tile - first] + i * kTileColumns,
                    std::min<std::int64_t>(kTileColumns, s.columns - tile * kTileColumns),
                    c + (row + i) * s.columns + tile * kTileColumns);
    float* const made = c + row * s.columns + first * kTileColumns;
    if (rounded)
      round_floats(made, rows, std::min(end * kTileColumns, s.columns) - first * kTileColumns,
                   s.columns, made);
  }
};

}  // namespace

ConvWork matmul_bf16_work(Bf16Order order, const MatmulShape& shape) {
  return Product(order, shape).work();
}
void matmul_bf16(Bf16Order order, bool rounded, const MatmulShape& shape, const float* a,
                 const float* b, float* c, float* shared, float* scratch, int phase, int part) {
  const Product product(order, shape);
  auto* left = reinterpret_cast<std::uint16_t*>(shared);
  auto* right = left + product.left_tiles * product.runs * kTileValues;
  if (phase == 0)
    product.pack_tile(a, shape.rows, shape.transpose_a, true,
                      left + part * product.runs * kTileValues, part);
  else if (phase == 1)
    product.pack_tile(b, shape.columns, !shape.transpose_b, false,
                      right + part * product.runs * kTileValues, part);
  else
    product.multiply(left, right, rounded, c, scratch, part);
}

}  // namespace podium::cpu
