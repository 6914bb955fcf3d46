#include "backend/cpu/kernels/bf16/matmul_bf16.h"

#include <algorithm>

#include "backend/cpu/kernels/bf16/pack_tiles.h"
#include "backend/cpu/kernels/bf16/tiles.h"
#include "backend/cpu/kernels/layout.h"

namespace podium::cpu {
namespace {

constexpr std::int64_t kPartColumns = 16;  // tiles

struct Product {
  const MatmulBf16& of;
  const MatmulShape& s;
  std::int64_t runs, left_tiles, right_tiles;

  explicit Product(const MatmulBf16& product)
      : of(product),
        s(product.shape),
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
        address_floats() + kOutFloats + kPartColumns * kPairSums + tile_scratch(of.order, runs);
    return work;
  }

  // Of images in lanes, [block][depth][16], as a right tile: those of a block are the lines.
  void pack_terms_of_block(const float* from, std::int64_t lines, std::int64_t block,
                           std::int64_t run, std::uint16_t* tile) const {
    const float* terms[kBf16Run] = {};
    const std::int64_t width = std::min<std::int64_t>(kBf16Run, s.depth - run * kBf16Run);
    for (std::int64_t k = 0; k < width; ++k)
      terms[k] = from + (block * s.depth + run * kBf16Run + k) * kLanes;
    pack_terms(terms, std::min<std::int64_t>(kLanes, lines - block * kLanes), tile);
  }
  // The terms are images in lanes, [block][lines][16]: a left tile.
  void pack_images_of(const float* from, std::int64_t lines, std::int64_t first, std::int64_t run,
                      std::uint16_t* tile) const {
    const std::int64_t count = std::min<std::int64_t>(kTileRows, lines - first);
    std::fill_n(tile, kTileValues, std::uint16_t{0});
    for (std::int64_t block = run * 2; block < run * 2 + 2; ++block)
      for (std::int64_t i = 0; i < count && block * kLanes < s.depth; ++i)
        round_to_bf16(from + (block * lines + first + i) * kLanes,
                      std::min<std::int64_t>(kLanes, s.depth - block * kLanes),
                      tile + i * kBf16Run + block % 2 * kLanes);
  }
  void pack_left(const float* from, std::uint16_t* to, std::int64_t tile) const {
    if (!of.a_in_lanes) return pack_tile(from, s.rows, s.transpose_a, true, to, tile);
    alignas(64) std::uint16_t other[kTileValues];
    for (std::int64_t run = 0; run < runs; ++run, to += kTileValues)
      if (s.transpose_a) {
        pack_images_of(from, s.rows, tile * kTileRows, run, to);
      } else {
        pack_terms_of_block(from, s.rows, tile, run, other);
        turn_tile(other, to);
      }
  }
  // All runs of a tile of a matrix that is stored [lines][depth], or `by_terms`.
  void pack_tile(const float* from, std::int64_t lines, bool by_terms, bool is_left,
                 std::uint16_t* to, std::int64_t tile) const {
    alignas(64) std::uint16_t other[kTileValues];
    const bool turns = by_terms == is_left;
    for (std::int64_t run = 0; run < runs; ++run, to += kTileValues) {
      std::uint16_t* const into = turns ? other : to;
      if (by_terms)
        pack_matrix_terms({from, lines, s.depth, lines}, run, tile * kTileColumns, into);
      else
        pack_lines({from, s.depth, lines, s.depth}, tile * kTileRows, run, into);
      if (turns) turn_tile(other, to);
    }
  }

  void multiply(const std::uint16_t* left, const std::uint16_t* right_all, float* c, float* scratch,
                std::int64_t part) const {
    const std::int64_t row = part / groups() * 2 * kTileRows,
                       first = part % groups() * kPartColumns,
                       end = std::min(first + kPartColumns, right_tiles);
    auto** const right = reinterpret_cast<const std::uint16_t**>(scratch);
    auto** const to = reinterpret_cast<float**>(scratch + address_floats());
    float* const sums = scratch + address_floats() + kOutFloats;
    const std::int64_t rows = std::min<std::int64_t>(2 * kTileRows, s.rows - row);
    // Whether the sums are made where they are to be.
    const bool fills = of.c_in_lanes || s.columns % kTileColumns == 0;
    const std::int64_t stride = of.c_in_lanes ? kTileColumns : s.columns,
                       tile_stride = of.c_in_lanes ? s.rows * kTileColumns : kTileColumns;
    const auto columns_of = [&](std::int64_t tile) {
      return std::min<std::int64_t>(kTileColumns, s.columns - tile * kTileColumns);
    };
    for (std::int64_t tile = first; tile < end; ++tile) {
      float* const own = c + row * stride + tile * tile_stride;
      to[tile - first] = fills ? own : sums + (tile - first) * kPairSums;
      for (std::int64_t i = 0; i < rows && of.continues && !fills; ++i)
        std::copy_n(own + i * stride, columns_of(tile), to[tile - first] + i * kTileColumns);
      for (std::int64_t run = 0; run < runs; ++run)
        right[(tile - first) * runs + run] = right_all + (tile * runs + run) * kTileValues;
    }
    multiply_tiles({.left = left + row / kTileRows * runs * kTileValues,
                    .left_stride = runs * kTileValues,
                    .right = right,
                    .runs = runs,
                    .columns = end - first,
                    .out = to,
                    .out_stride = fills ? stride : kTileColumns,
                    .rows = rows,
                    .continues = of.continues,
                    .order = of.order},
                   sums + kPartColumns * kPairSums);
    for (std::int64_t tile = first; tile < end && !fills; ++tile)
      for (std::int64_t i = 0; i < rows; ++i)
        std::copy_n(to[tile - first] + i * kTileColumns, columns_of(tile),
                    c + (row + i) * s.columns + tile * kTileColumns);
    float* const made = c + row * s.columns + first * kTileColumns;
    if (of.rounded)
      round_floats(made, rows, std::min(end * kTileColumns, s.columns) - first * kTileColumns,
                   s.columns, made);
  }
};

}  // namespace

ConvWork matmul_bf16_work(const MatmulBf16& product) { return Product(product).work(); }
void matmul_bf16(const MatmulBf16& product, const float* a, const float* b, float* c, float* shared,
                 float* scratch, int phase, int part) {
  const Product all(product);
  auto* left = reinterpret_cast<std::uint16_t*>(shared);
  auto* right = left + all.left_tiles * all.runs * kTileValues;
  if (phase == 0)
    all.pack_left(a, left + part * all.runs * kTileValues, part);
  else if (phase == 1)
    all.pack_tile(b, product.shape.columns, !product.shape.transpose_b, false,
                  right + part * all.runs * kTileValues, part);
  else
    all.multiply(left, right, c, scratch, part);
}

}  // namespace podium::cpu
