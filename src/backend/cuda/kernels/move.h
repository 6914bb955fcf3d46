// Kernels that compute nothing: they copy, turn, fill.
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"
#include "ops/geometry.h"

namespace podium::PODIUM_CUDA_SPACE {

using Words = Each<std::uint32_t>;
using ConstWords = Each<const std::uint32_t>;

// y[i] = x[i]
void copy_words(const Launch& launch, std::int64_t count, ConstWords x, Words y);
// x [rows][columns] to y [columns][rows].
void transpose(const Launch& launch, std::int64_t rows, std::int64_t columns, ConstWords x,
               Words y);
void fill(const Launch& launch, std::int64_t count, float value, Floats y);
// Of x, `count` elements from `from` on, to y [size] from its element `to` on; the others of y
// become +0. Channels of batch-last images lie together, so this pads and slices them.
void copy_range(const Launch& launch, std::int64_t from, std::int64_t count, std::int64_t to,
                std::int64_t size, ConstFloats x, Floats y);

// Batch-last images, whose axes get another order.
void permute(const Launch& launch, const PermuteShape& shape, ConstFloats x, Floats y);

// Images of `planes` planes of height x width pixels, each of `inner` floats: batch last, planes
// are channels and inner the images; plain, planes are channels of images and inner is 1.
struct ViewShape {
  std::int64_t planes, height, width, inner;
  std::int64_t view;  // number of the view (base/numerics/view.h)
};
void view(const Launch& launch, const ViewShape& shape, ConstFloats x, Floats y);

}  // namespace podium::PODIUM_CUDA_SPACE
