// Offsets into one arena for values that live for a while: two values share memory only if their
// lives do not overlap.
#pragma once

#include <cstdint>
#include <vector>

namespace podium {

struct Lifetime {
  std::int64_t bytes = 0;
  std::int64_t first = 0,
               last =
                   0;  // the steps of the program that write it first and read it last, inclusive
};

struct MemoryPlan {
  std::vector<std::int64_t> offsets;  // multiples of 64, in the order of the lifetimes
  std::int64_t bytes = 0;             // of the arena
};

// Largest first, each at the lowest offset that is free during its whole life.
MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes);

}  // namespace podium
