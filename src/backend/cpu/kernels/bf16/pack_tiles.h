// Tiles (tiles.h) from batch values in lanes and from matrices, rounded to BF16.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/kernels/bf16/tiles.h"
#include "backend/cpu/kernels/layout.h"

namespace podium::cpu {

// Right tiles whose terms are 32 channels of a pixel, and whose columns are the images of a block:
// one for each of `count` pixels, the first at x in channel 0 of x[channel][pixels][16]. Images
// from `images` on are 0.
void pack_channels(const float* x, std::int64_t pixels, std::int64_t count, std::int64_t images,
                   std::uint16_t* tiles);

// A right tile of 32 terms, each 16 images of a pixel or null, which is 0.
void pack_terms(const float* const* terms, std::int64_t images, std::uint16_t* tile);

// A left tile whose rows are `rows` channels and whose terms are one or two neighbouring pixels of
// 16 images: of x[channel][pixel][16], of which there are `pixels` in a channel.
void pack_rows(const float* x, std::int64_t rows, std::int64_t pixels, bool two,
               std::int64_t images, std::uint16_t* tile);

// The same with channels as columns, in halves of eight pairs, a half for each pixel: `first` and
// `second` are where the pixels lie in channel 0, or null, which is 0.
void pack_columns(const float* first, const float* second, std::int64_t channels,
                  std::int64_t pixels, std::int64_t images, std::uint16_t* first_half,
                  std::uint16_t* second_half);

// A matrix, its rows `row` floats apart.
struct Matrix {
  const float* first;
  std::int64_t row, rows, columns;
  Matrix from(std::int64_t line) const {
    return {first + line * row, row, std::max<std::int64_t>(rows - line, 0), columns};
  }
};
// The sixteen rows from `row` on and a run of columns as a left tile; zeros where there are none.
void pack_lines(const Matrix& x, std::int64_t row, std::int64_t run, std::uint16_t* tile);
// A run of rows and the sixteen columns from `column` on as a right tile.
void pack_matrix_terms(const Matrix& x, std::int64_t run, std::int64_t column, std::uint16_t* tile);

// Turns a left tile [16][16 pairs] into a right one [16 pairs][16], or the other way.
void turn_tile(const std::uint16_t* from, std::uint16_t* to);

// `count` floats, as BF16 numbers.
void round_to_bf16(const float* from, std::int64_t count, std::uint16_t* to);
// Rounds rows of `count` floats, `stride` floats apart, and writes them as floats; `to` may be
// `from`.
void round_floats(const float* from, std::int64_t rows, std::int64_t count, std::int64_t stride,
                  float* to);

}  // namespace podium::cpu
