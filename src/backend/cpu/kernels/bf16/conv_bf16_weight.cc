// The gradient to the weights: rows of tiles are channels of dy, columns channels of x, and a run
// is two neighbouring pixels of sixteen images. A tap reads other pixels of x, so these are packed
// once, a pixel half a tile, and a row of them holds what lies outside of the image, too.
#include <algorithm>
#include <cstddef>

#include "backend/cpu/kernels/bf16/conv_bf16.h"
#include "backend/cpu/kernels/bf16/pack_tiles.h"
#include "backend/cpu/kernels/bf16/tiles.h"

namespace podium::cpu {
namespace {

constexpr std::int64_t kChunkRuns = 32;  // that a part sums before it goes to the next weights
constexpr std::int64_t kPartTiles = 16;  // of channels of x

struct WeightPass {
  Bf16Order order;
  const ConvShape& s;
  std::int64_t left_tiles, right_tiles;  // of channels
  std::int64_t row_runs;                 // of a row of dy
  std::int64_t line_pixels;              // of each phase of a row of x, with what lies outside
  std::int64_t rows;                     // of dy, of all blocks
  std::int64_t chunk_rows;

  WeightPass(Bf16Order its_order, const ConvShape& shape)
      : order(its_order),
        s(shape),
        left_tiles(tiles_of(s.out_channels)),
        right_tiles(tiles_of(s.in_channels)),
        row_runs((s.out_width + 1) / 2),
        line_pixels(((2 * row_runs - 1) * s.stride_width + s.kernel_width - 1) / s.stride_width +
                    1),
        rows(blocks_of(s.images) * s.out_height),
        chunk_rows(std::max<std::int64_t>(kChunkRuns / row_runs, 1)) {}

  std::int64_t pairs() const { return (left_tiles + 1) / 2; }
  std::int64_t line_values() const { return s.stride_width * line_pixels * kHalfTile; }
  // Shared: [left tile][row][run] tiles of dy; [block][right tile][row of x] lines; [pair of left
  // tiles][right tile][tap] sums of 32 x 16.
  std::int64_t left_values() const { return left_tiles * rows * row_runs * kTileValues; }
  std::int64_t right_values() const {
    return blocks_of(s.images) * right_tiles * s.in_height * line_values();
  }
  std::int64_t sums_floats() const { return pairs() * right_tiles * s.taps() * kPairSums; }
  // A part's: addresses of tiles, where sums go, and what products want.
  std::int64_t part_columns() const { return std::min(kPartTiles, right_tiles) * s.taps(); }
  std::int64_t address_floats() const {
    return (part_columns() * chunk_rows * row_runs * 2 + kLanes - 1) / kLanes * kLanes;
  }
  std::int64_t out_floats() const { return (part_columns() * 2 + kLanes - 1) / kLanes * kLanes; }

  ConvWork work() const {
    ConvWork work;
    work.parts[work.phases++] = static_cast<int>(left_tiles * blocks_of(s.images));
    work.parts[work.phases++] = static_cast<int>(blocks_of(s.images) * right_tiles);
    work.parts[work.phases++] = static_cast<int>((right_tiles + kPartTiles - 1) / kPartTiles);
    work.shared = (left_values() + right_values()) / 2 + sums_floats();
    work.scratch = address_floats() + out_floats() + tile_scratch(order, chunk_rows * row_runs);
    return work;
  }

  // A tile of channels of a block of dy.
  void pack_left(const float* dy, float* shared, std::int64_t part) const {
    const std::int64_t tile = part / blocks_of(s.images), block = part % blocks_of(s.images),
                       first = tile * kTileRows,
                       count = std::min<std::int64_t>(kTileRows, s.out_channels - first);
    const float* from = dy + (block * s.out_channels + first) * s.out_pixels() * kLanes;
    std::uint16_t* to = in_memory<std::uint16_t>(shared) +
                        (tile * rows + block * s.out_height) * row_runs * kTileValues;
    for (std::int64_t p = 0; p < s.out_height; ++p)
      for (std::int64_t q = 0; q < s.out_width; q += 2, to += kTileValues)
        pack_rows(from + (p * s.out_width + q) * kLanes, count, s.out_pixels(), q + 1 < s.out_width,
                  s.images - block * kLanes, to);
  }

  // A tile of channels of a block of x.
  void pack_right(const float* x, float* shared, std::int64_t part) const {
    const std::int64_t block = part / right_tiles, first = part % right_tiles * kTileColumns,
                       count = std::min<std::int64_t>(kTileColumns, s.in_channels - first);
    const float* from = x + (block * s.in_channels + first) * s.in_pixels() * kLanes;
    std::uint16_t* to =
        in_memory<std::uint16_t>(shared) + left_values() + part * s.in_height * line_values();
    for (std::int64_t h = 0; h < s.in_height; ++h)
      for (std::int64_t phase = 0; phase < s.stride_width; ++phase)
        for (std::int64_t i = 0; i < line_pixels; i += 2) {
          const auto pixel = [&](std::int64_t index) -> const float* {
            const std::int64_t v = index * s.stride_width + phase - s.pad_left;
            return v < 0 || v >= s.in_width ? nullptr : from + (h * s.in_width + v) * kLanes;
          };
          const bool two = i + 1 < line_pixels;
          pack_columns(pixel(i), two ? pixel(i + 1) : nullptr, count, s.in_pixels(),
                       s.images - block * kLanes, to, two ? to + kHalfTile : nullptr);
          to += two ? kTileValues : kHalfTile;
        }
  }

  void multiply(float* dw, float* shared, float* scratch, std::int64_t part) const {
    const std::int64_t first = part * kPartTiles, end = std::min(first + kPartTiles, right_tiles),
                       columns = (end - first) * s.taps();
    const auto* left = in_memory<std::uint16_t>(shared);
    const auto* lines = left + left_values();
    float* sums = shared + (left_values() + right_values()) / 2;
    auto** const right = in_memory<const std::uint16_t*>(scratch);
    auto** const to = in_memory<float*>(scratch + address_floats());
    float* const own = scratch + address_floats() + out_floats();
    for (std::int64_t row = 0; row < rows; row += chunk_rows) {
      const std::int64_t last = std::min(row + chunk_rows, rows);
      const auto** next = right;
      for (std::int64_t tile = first; tile < end; ++tile)
        for (std::int64_t tap = 0; tap < s.taps(); ++tap)
          for (std::int64_t i = row; i < last; ++i) {
            const std::int64_t column = tap % s.kernel_width,
                               h = i % s.out_height * s.stride_height + tap / s.kernel_width -
                                   s.pad_top;
            const std::uint16_t* line =
                lines +
                ((i / s.out_height * right_tiles + tile) * s.in_height + h) * line_values() +
                (column % s.stride_width * line_pixels + column / s.stride_width) * kHalfTile;
            const bool outside = h < 0 || h >= s.in_height;
            for (std::int64_t run = 0; run < row_runs; ++run)
              *next++ = outside ? kZeroTile : line + run * kTileValues;
          }
      for (std::int64_t pair = 0; pair < pairs(); ++pair) {
        for (std::int64_t i = 0; i < columns; ++i)
          to[i] = sums + ((pair * right_tiles + first) * s.taps() + i) * kPairSums;
        multiply_tiles({.left = left + (2 * pair * rows + row) * row_runs * kTileValues,
                        .left_stride = rows * row_runs * kTileValues,
                        .right = right,
                        .runs = (last - row) * row_runs,
                        .columns = columns,
                        .out = to,
                        .out_stride = kTileColumns,
                        .rows = (2 * pair + 1 < left_tiles ? 2 : 1) * kTileRows,
                        .continues = row != 0,
                        .order = order},
                       own);
      }
    }
    for (std::int64_t k = 0; k < s.out_channels; ++k)
      for (std::int64_t tile = first; tile < end; ++tile) {
        const std::int64_t c = tile * kTileColumns,
                           count = std::min<std::int64_t>(kTileColumns, s.in_channels - c);
        const float* from = sums +
                            (k / (2 * kTileRows) * right_tiles + tile) * s.taps() * kPairSums +
                            k % (2 * kTileRows) * kTileColumns;
        float* row = dw + (k * s.in_channels + c) * s.taps();
        for (std::int64_t tap = 0; tap < s.taps(); ++tap)
          for (std::int64_t i = 0; i < count; ++i)
            row[i * s.taps() + tap] = from[tap * kPairSums + i];
      }
  }
};

}  // namespace

ConvWork conv_bf16_grad_weight_work(Bf16Order order, const ConvShape& shape) {
  return is_tensor_core(order) ? conv_bf16_grad_weight_in_parts_work(shape)
                               : WeightPass(order, shape).work();
}
void conv_bf16_grad_weight(Bf16Order order, const ConvShape& shape, const float* dy, const float* x,
                           float* dw, float* shared, float* scratch, int phase, int part) {
  if (is_tensor_core(order))
    return conv_bf16_grad_weight_in_parts(order, shape, dy, x, dw, shared, scratch, phase, part);
  const WeightPass pass(order, shape);
  if (phase == 0) return pass.pack_left(dy, shared, part);
  if (phase == 1) return pass.pack_right(x, shared, part);
  pass.multiply(dw, shared, scratch, part);
}

}  // namespace podium::cpu
