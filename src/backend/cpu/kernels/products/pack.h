// Between the plain layout and the lanes (layout.h), by transposing tiles of 16x16.
#pragma once

#include <cstdint>

#include "backend/cpu/kernels/layout.h"

namespace podium::cpu {

// plain [N][F] -> lanes [blocks][F][16]; padding lanes become 0.
int pack_lanes_parts(std::int64_t images, std::int64_t features);
void pack_lanes(std::int64_t images, std::int64_t features, const float* plain, float* lanes,
                int part);

// lanes [blocks][F][16] -> plain [N][F].
int unpack_lanes_parts(std::int64_t images, std::int64_t features);
void unpack_lanes(std::int64_t images, std::int64_t features, const float* lanes, float* plain,
                  int part);

// labels [N] -> [blocks * 16]; padding becomes -1, which is no class.
void pack_labels(std::int64_t images, const std::int32_t* plain, std::int32_t* lanes);

// lanes [blocks][F][16] -> rows [tile][padded(N)][16]: a tile is sixteen features, the form in
// which dense_grad_weight reads its input. Padding images and features hold anything.
constexpr std::int64_t rows_floats(std::int64_t images, std::int64_t features) {
  return padded(images) * padded(features);
}
int lanes_to_rows_parts(std::int64_t images, std::int64_t features);
void lanes_to_rows(std::int64_t images, std::int64_t features, const float* lanes, float* rows,
                   int part);

}  // namespace podium::cpu
