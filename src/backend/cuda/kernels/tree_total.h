// The tree (base/numerics/tree.h) over parts that a thread takes one after the other. For *.cu
// files only.
#pragma once

#include "backend/cuda/simt.h"

namespace podium::PODIUM_CUDA_SPACE {

// Sums of 1, 2, 4, ... parts wait for their neighbour on the right, as in a binary counter.
class TreeTotal {
 public:
  static constexpr int kLevels = 16;

  // At most 2^16 - 1 parts.
  __device__ void add(float part) {
    bool carried = true;
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      const bool waits = (count_ >> level & 1) != 0;
      if (carried && waits) part = waiting_[level] + part;
      if (carried && !waits) waiting_[level] = part;
      carried = carried && waits;
    }
    ++count_;
  }
  // Of at least one part.
  __device__ float total() const {
    float sum = 0;
    bool any = false;
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      if ((count_ >> level & 1) == 0) continue;
      sum = any ? waiting_[level] + sum : waiting_[level];
      any = true;
    }
    return sum;
  }

 private:
  float waiting_[kLevels] = {};
  unsigned count_ = 0;
};

}  // namespace podium::PODIUM_CUDA_SPACE
