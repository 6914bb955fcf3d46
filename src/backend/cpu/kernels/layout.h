// The layout of the CPU kernels: the batch in the lanes.
//
//   activation   x[block][feature][lane], block = n / 16, lane = n % 16; features as (C, H, W)
//   per image    v[block][lane], which is v[n]
//   parameters, their gradients, per-channel vectors: plain, row-major
//
// Where the number of images is no multiple of 16, the last block's remaining lanes are padding:
// they hold anything, NaN included, and reach no sum over images.
//
// Every kernel `k` is cut into k_parts(shape) parts, a number fixed by the shape alone; a caller
// runs k(shape, ..., part) for part = 0 ... k_parts - 1 in any order, on any threads. A part owns
// whole output elements. Kernels check nothing, allocate nothing and keep no state. Pointers need
// the alignment of float only; 64 bytes are faster.
#pragma once

#include <cstdint>

namespace podium::cpu {

inline constexpr int kLanes = 16;

// The number of blocks that hold `images` images, and of floats in a vector [images].
constexpr std::int64_t blocks_of(std::int64_t images) { return (images + kLanes - 1) / kLanes; }
constexpr std::int64_t padded(std::int64_t images) { return blocks_of(images) * kLanes; }

// [N, C, H, W], or [N, C] with height = width = 1.
struct ActivationShape {
  std::int64_t images = 0;
  std::int64_t channels = 0;
  std::int64_t height = 1;
  std::int64_t width = 1;

  constexpr std::int64_t blocks() const { return blocks_of(images); }
  constexpr std::int64_t pixels() const { return height * width; }
  constexpr std::int64_t features() const { return channels * pixels(); }
  // Floats in memory, padding included.
  constexpr std::int64_t floats() const { return blocks() * features() * kLanes; }
};

// Whether a tensor is written past the caches: it would have left them before it is read, and needs
// the alignment of whole lines.
inline constexpr std::int64_t kStreamedFloats = 2 << 20;
inline bool whole_lines(const float* to) {
  return reinterpret_cast<std::uintptr_t>(to) % (kLanes * sizeof(float)) == 0;
}
inline bool streams(const float* to, std::int64_t floats) {
  return floats >= kStreamedFloats && whole_lines(to);
}

// A half-open range, and the share of [0, total) that falls to one of `parts` parts: shares differ
// by one at most.
struct Range {
  std::int64_t begin;
  std::int64_t end;
};
constexpr Range share_of(std::int64_t total, std::int64_t parts, std::int64_t part) {
  return {total * part / parts, total * (part + 1) / parts};
}
// As many parts as units of at least `work` floating-point operations (or the like) fill, between 1
// and the number of units.
constexpr int parts_of(std::int64_t units, std::int64_t work_per_unit, std::int64_t work) {
  const std::int64_t least = work_per_unit < 1 ? work : (work + work_per_unit - 1) / work_per_unit;
  const std::int64_t parts = units / (least < 1 ? 1 : least);
  return static_cast<int>(parts < 1 ? 1 : parts);
}

// The columns of a product are packed in panels, one vector wide or two, as a target has registers:
// these are whole panels of every target.
inline constexpr std::int64_t kPairColumns = 2 * kLanes;
constexpr std::int64_t pairs_of(std::int64_t columns) {
  return (columns + kPairColumns - 1) / kPairColumns;
}

// How a pass over memory writes its result: past the caches, rounded to BF16.
struct Writing {
  bool streamed = false, rounded = false;
};

}  // namespace podium::cpu
