// How two checkpoints differ, tensor by tensor, to the bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/loop/checkpoint.h"

namespace podium {

struct TensorDifference {
  std::string name;
  std::string note;  // not empty: they were not compared, and why
  std::int64_t values = 0, different = 0;
  // Of FP32: the largest distance, in units in the last place and as a number.
  std::int64_t most_ulps = 0;
  double most_absolute = 0;
};

// The tensors that differ, in the order of `a`, then those that only `b` has. Empty: all are equal.
std::vector<TensorDifference> tensor_differences(const Checkpoint& a, const Checkpoint& b);

}  // namespace podium
