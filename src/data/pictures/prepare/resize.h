// Resizing with anti-aliasing, in the arithmetic of Pillow's Image.resize(BILINEAR), with equal
// bytes (docs/numerics.md, Photographs): along each axis a triangle as wide as an output pixel, at
// least one input pixel, whose weights are made in double precision with + - * / alone and rounded
// to 22 binary digits; sums are integers, rounded to bytes after the columns and after the rows.
#pragma once

#include <cstdint>
#include <vector>

#include "data/pictures/formats/picture.h"

namespace podium {

// The weights of one axis.
struct ResizeAxis {
  std::int64_t begin = 0, end = 0;    // of the input pixels that any weight is for
  std::int64_t taps = 0;              // weights kept for each output pixel
  std::vector<std::int32_t> first;    // by output pixel: the input pixel of its first weight
  std::vector<std::int32_t> used;     // how many of its weights are not padding
  std::vector<std::int32_t> weights;  // [output][taps], in units of 2^-22
  std::int64_t size() const { return static_cast<std::int64_t>(first.size()); }
};

// The axis that maps [start, start + extent) of the input to `out_size` output pixels, of which
// [out_first, out_first + out_count) are wanted. Input pixels from outside of floor(start) to
// ceil(start + extent) take no part: a crop is resized as if there were nothing around it.
void make_resize_axis(double start, double extent, std::int64_t out_size, std::int64_t out_first,
                      std::int64_t out_count, ResizeAxis& axis);

// Writes [3, rows.size(), columns.size()] bytes. `pixels` has all that the axes name.
void resize(const PicturePixels& pixels, const ResizeAxis& rows, const ResizeAxis& columns,
            std::uint8_t* out);

}  // namespace podium
