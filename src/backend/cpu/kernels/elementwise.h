// Element by element on flat ranges of `count` floats, whatever their layout. Outputs may be
// inputs.
#pragma once

#include <cstdint>

#include "base/numerics/activation.h"

namespace podium::cpu {

// The parts of every kernel here and of update.h: runs of 16384 elements.
inline constexpr std::int64_t kFlatPart = 16384;
constexpr int flat_parts(std::int64_t count) {
  return count <= kFlatPart ? 1 : static_cast<int>((count + kFlatPart - 1) / kFlatPart);
}

// Where a kernel writes, as a pointer, and whether it rounds that to BF16.
struct FlatResult {
  float* floats;
  bool rounded;
  FlatResult(float* to, bool is_rounded = false) : floats(to), rounded(is_rounded) {}  // NOLINT
};

void activate(std::int64_t count, const Activation& activation, const float* x, FlatResult y,
              int part);
// Of the gradient dy + more.
void activate_sum_grad(std::int64_t count, const Activation& activation, const float* dy,
                       const float* more, const float* x, FlatResult dx, int part);
void activate_grad(std::int64_t count, const Activation& activation, const float* dy,
                   const float* x, FlatResult dx, int part);
void add(std::int64_t count, const float* a, const float* b, FlatResult y, int part);
void sub(std::int64_t count, const float* a, const float* b, FlatResult y, int part);
void mul(std::int64_t count, const float* a, const float* b, FlatResult y, int part);
void scale(std::int64_t count, const float* x, float factor, FlatResult y, int part);
void divide(std::int64_t count, const float* x, float divisor, FlatResult y, int part);
// a x + b y, as fma(a, x, b * y); `shared` as in update.h.
void combine(std::int64_t count, float a, const float* x, float b, const float* y, FlatResult out,
             bool shared, int part);
void fill(std::int64_t count, float value, float* y, int part);

// a += b: one addition of the tree.
void add_into(std::int64_t count, const float* b, float* a, int part);

}  // namespace podium::cpu
