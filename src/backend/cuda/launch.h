// What the functions that launch kernels (kernels/kernels.h) take. Free of CUDA's headers, so that
// any compiler reads it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backend/cuda/space.h"
#include "base/numerics/device_function.h"

namespace podium::PODIUM_CUDA_SPACE {

using Stream = void*;  // of runtime.h

// Hears, while operations are timed, what the next launches of an operation do.
class Phases {
 public:
  virtual ~Phases() = default;
  virtual void begin(const char* phase) = 0;
};
// The phase that has the operation's cost.
inline constexpr const char* kProductsPhase = "products";

// Where and for how many replicas a kernel runs. The replicas of a worker differ in memory alone: a
// launch computes all of them, replica blockIdx.z being one.
struct Launch {
  Stream stream = nullptr;
  int replicas = 1;
  Phases* phases = nullptr;
  bool warpgroups = false;  // whether products of BF16 may be those of warpgroups

  // Of functions with several kernels that take long.
  void begin(const char* phase) const {
    if (phases != nullptr) phases->begin(phase);
  }
};

// A tensor of each replica. That of replica r begins `stride` elements after that of replica r - 1;
// with stride 0, all share one.
template <typename T>
struct Each {
  T* first = nullptr;
  std::int64_t stride = 0;

  PODIUM_DEVICE_FUNCTION T* of(unsigned replica) const {
    return first + static_cast<std::int64_t>(replica) * stride;
  }
  // What begins `count` elements later.
  Each from(std::int64_t count) const { return {first + count, stride}; }
  // As a pointer converts.
  operator Each<const T>() const  // NOLINT
      requires(!std::is_const_v<T>) {
    return {first, stride};
  }
};

using Floats = Each<float>;
using ConstFloats = Each<const float>;
// Numbers in BF16 (base/numerics/bf16.h).
using Halves = Each<std::uint16_t>;
using ConstHalves = Each<const std::uint16_t>;

// Where a kernel writes a result: its floats, the same rounded to BF16, or both; null where nobody
// reads it. Both have one layout. `rounded`: the floats are rounded, too.
struct Result {
  Floats floats;
  Halves halves;
  bool rounded = false;
  // What begins `count` elements later.
  Result from(std::int64_t count) const {
    return {floats.first == nullptr ? floats : floats.from(count),
            halves.first == nullptr ? halves : halves.from(count), rounded};
  }
};

// Where a kernel reads an operand: its floats, or, if it is rounded, its halves; the other is null.
struct Source {
  ConstFloats floats;
  ConstHalves halves;

  Source() = default;
  Source(ConstFloats of) : floats(of) {}  // NOLINT: as a pointer converts
  Source(Floats of) : floats(of) {}       // NOLINT
  explicit Source(ConstHalves of) : halves(of) {}
  PODIUM_DEVICE_FUNCTION bool has_halves() const { return halves.first != nullptr; }
  // What begins `count` elements later.
  Source from(std::int64_t count) const {
    return has_halves() ? Source(halves.from(count)) : Source(floats.from(count));
  }
};

// Calls f with a constant: true or false.
template <typename F>
void with_constant(bool value, const F& f) {
  if (value)
    f(std::true_type());
  else
    f(std::false_type());
}

}  // namespace podium::PODIUM_CUDA_SPACE
