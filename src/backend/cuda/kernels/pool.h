// Pooling of batch-last images [channels][height][width][images].
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"

namespace podium::PODIUM_CUDA_SPACE {

// Windows, which may overlap and reach into the padding.
struct PoolShape {
  std::int64_t images, channels, height, width, out_height, out_width;
  std::int64_t window_height, window_width, stride_height, stride_width, pad_top, pad_left;
  bool tiles;  // whether the windows tile the image
};

// `places` may be null: where in its window each maximum stands, row by row, as a float.
void max_pool(const Launch& launch, const PoolShape& shape, Source x, const Result& y,
              Floats places);
// From x, or from the places of its maxima.
void max_pool_grad(const Launch& launch, const PoolShape& shape, bool places, Source dy,
                   Source from, const Result& dx);
// `share`: 1 / (pixels of a window).
void avg_pool(const Launch& launch, const PoolShape& shape, float share, Source x, const Result& y);
void avg_pool_grad(const Launch& launch, const PoolShape& shape, float share, Source dy,
                   const Result& dx);

}  // namespace podium::PODIUM_CUDA_SPACE
