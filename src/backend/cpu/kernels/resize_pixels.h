// The two passes of a resize on vectors. Sums are integers, so their
// order is free: every target gives the same bytes.
//
// A weight has 23 bits. It is split into two numbers of 16 bits, high * 2^11 + low, whose products
// with the bytes of two pixels are added in one instruction.
#pragma once

#include <cstdint>

namespace podium::cpu {

inline constexpr int kResizeBits = 22;  // of a weight behind the point
inline constexpr int kLowBits = 11;
// Neighbouring pixels that are read at once, for one output pixel: a block of 16 bytes.
inline constexpr std::int64_t kPixelGroup = 4;

// How many blocks a vector has: so many output pixels are made at once.
std::int64_t resize_blocks();
// Rows between the passes have a multiple of so many bytes.
std::int64_t resize_row_bytes();

// Output pixel x of a row, of four bytes, for x < width: the sum of the pixels from byte starts[x]
// of `row` on, in `groups` groups, each times its weight. `starts` has whole vectors of blocks.
// `weights`: [x / blocks][group][pair][high, low][x % blocks][channel][pixel of the pair].
void resize_columns(const std::uint8_t* row, std::int64_t width, std::int64_t groups,
                    const std::int64_t* starts, const std::int16_t* weights, std::uint8_t* to);

// The sum of `used` rows of `bytes` bytes, which lie one after the other, each times its weight.
// `weights`: [pair of rows][high, low], each two numbers of 16 bits.
void resize_rows(const std::uint8_t* from, std::int64_t bytes, std::int64_t used,
                 const std::int32_t* weights, std::uint8_t* to);

// `width` pixels of four bytes to three planes, `plane` bytes apart.
void split_pixels(const std::uint8_t* row, std::int64_t width, std::int64_t plane,
                  std::uint8_t* to);

}  // namespace podium::cpu
