// Offsets into one arena for values that live for a while: two values share memory only if their
// lives do not overlap, or if one takes the place of the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace podium {

struct Lifetime {
  std::int64_t bytes = 0;
  // The steps of the program that write it first and read it last, inclusive.
  std::int64_t first = 0, last = 0;
  // Values of the same plan in whose place it may be written, best first: the step that writes it
  // then finds no other memory in the caches' way. It takes that of one as large that is read last
  // by this very step.
  std::vector<std::size_t> may_take = {};
};

struct MemoryPlan {
  std::vector<std::int64_t> offsets;  // multiples of 64, in the order of the lifetimes
  std::int64_t bytes = 0;             // of the arena
};

// Those that follow one another in one place count as one; largest first, each at the lowest offset
// that is free during its whole life.
MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes);

}  // namespace podium
