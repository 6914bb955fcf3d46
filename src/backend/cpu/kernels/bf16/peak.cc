#include "backend/cpu/kernels/bf16/peak.h"

#include <cstdint>
#include <vector>

#include "backend/cpu/kernels/best_rate.h"
#include "backend/cpu/kernels/bf16/tiles.h"

namespace podium::cpu {

double bf16_peak(Bf16Order order) {
  constexpr std::int64_t kRuns = 4, kColumns = 2, kRounds = 50;
  constexpr std::int64_t kRows = std::int64_t{2} * kTileRows;
  constexpr double kOperations = 2.0 * kRounds * kRuns * kBf16Run * kRows * kColumns * kTileColumns;
  struct alignas(64) Tile {
    std::uint16_t values[kTileValues] = {};
  };
  std::vector<Tile> left(2 * kRuns), right(kColumns * kRuns);
  std::vector<float> sums(kColumns * kRows * kTileColumns), scratch(tile_scratch(order, kRuns));
  const std::uint16_t* tiles[kColumns * kRuns];
  for (std::size_t i = 0; i < right.size(); ++i) tiles[i] = right[i].values;
  float* const out[kColumns] = {sums.data(), sums.data() + kRows * kTileColumns};
  return best_rate([&] {
    for (std::int64_t i = 0; i < kRounds; ++i)
      multiply_tiles({.left = left.front().values,
                      .left_stride = kRuns * kTileValues,
                      .right = tiles,
                      .runs = kRuns,
                      .columns = kColumns,
                      .out = out,
                      .out_stride = kTileColumns,
                      .rows = kRows,
                      .order = order},
                     scratch.data());
    return kOperations;
  });
}

}  // namespace podium::cpu
