// Products of tiles of BF16 numbers (docs/numerics.md, BF16): what convolutions and matrix products
// of BF16 operands are made of. A run has 32 terms.
//
//   left   [16 rows][32 terms]
//   right  [16 pairs of terms][16 columns][2]
//
// Both are 1 KiB, best aligned to 64 bytes; this is how AMX, the matrix unit of newer x86
// processors, takes them. Where there is none, vector instructions compute the same bits. Of the
// right tile, four pairs of terms after the other are octets, the terms that tensor cores add at
// once or twice.
#pragma once

#include <cstdint>

#include "base/numerics/bf16.h"
#include "base/numerics/precision.h"
#include "base/numerics/tensor_core.h"

namespace podium::cpu {

inline constexpr int kTileRows = 16;
inline constexpr int kTileColumns = 16;
inline constexpr int kTileValues = kTileRows * kBf16Run;
inline constexpr std::int64_t kTileFloats = kTileValues / 2;  // memory of a tile, in floats
inline constexpr std::int64_t kHalfTile = kTileValues / 2;    // values of 16 images of a pixel
inline constexpr int kRunOctets = kBf16Run / static_cast<int>(kBf16Octet);
inline constexpr int kOctetValues = kTileValues / kRunOctets;  // of a right tile

// Floats of the sums of two left tiles with a right one.
inline constexpr std::int64_t kPairSums = 2 * kTileRows * kTileColumns;
// Tiles that so many rows or columns fill.
constexpr std::int64_t tiles_of(std::int64_t rows) { return (rows + kTileRows - 1) / kTileRows; }
// Runs that so many terms fill.
constexpr std::int64_t runs_of(std::int64_t terms) { return (terms + kBf16Run - 1) / kBf16Run; }
// Memory that is planned in floats, as what it holds.
template <typename T>
T* in_memory(float* memory) {
  return reinterpret_cast<T*>(memory);
}

// A tile of zeros.
extern const std::uint16_t kZeroTile[kTileValues];

// Rows of the sums of up to two left tiles with several right ones.
struct TileProduct {
  const std::uint16_t* left = nullptr;  // [left tiles][runs] tiles, left tiles `left_stride` apart
  std::int64_t left_stride = 0;         // in BF16 numbers
  const std::uint16_t* const* right = nullptr;  // [columns][runs] addresses of tiles
  std::int64_t runs = 0;
  std::int64_t columns = 0;     // of tiles
  float* const* out = nullptr;  // [columns]: where the first row of 16 sums goes
  std::int64_t out_stride = 0;  // floats from one row to the next
  std::int64_t rows = 0;        // that are written, 1 to 32; two left tiles if above 16
  bool continues = false;       // whether the sums go on from those in `out`
  Bf16Order order = Bf16Order::kAmx;
  // Of a tensor core's order: whether `right` has the addresses of octets, [columns][runs][4].
  bool by_octets = false;
};

// Floats of scratch memory that multiply_tiles() wants for so many runs.
constexpr std::int64_t tile_scratch(Bf16Order order, std::int64_t runs) {
  constexpr std::int64_t kTensorCore = std::int64_t{36} * kTileValues;  // tensor_tiles.h
  return is_tensor_core(order) ? kTensorCore : runs * kTileValues;
}
void multiply_tiles(const TileProduct& product, float* scratch);

// Whether multiply_tiles() uses AMX: the processor and the system have it, it returns the
// contract's bits (tried once), and the vector target is AVX-512.
bool uses_amx();
// The same of VDPBF16PS, where that is faster than FP32 multiply-adds.
bool uses_vdpbf16ps();
// Whether its order takes no longer than FP32: multiply-adds flush subnormal numbers as it does.
bool adds_pairs_fast();
// Tests switch both off.
void allow_amx(bool allowed);

}  // namespace podium::cpu
