// Which steps of a program may run side by side. Most kernels have enough parts for a few threads;
// some, such as a Winograd gradient to the weights of few images, have one. But the gradients of a
// convolution need nothing of each other, nor does the packing of filters of what comes before it.
#pragma once

#include <cstddef>
#include <vector>

#include "backend/cpu/lowering.h"
#include "compile/memory_plan.h"

namespace podium::cpu {

// Steps that follow one another and are done at once: their parts, one step's after the other's,
// may run on any thread in any order.
struct Job {
  std::size_t begin, end;  // steps
  int parts;
};

// The jobs of a program, in its order: a step joins those before it where neither writes what the
// other reads or writes. With one thread each step is a job of its own.
std::vector<Job> jobs_of(const Program& program, int threads);

// When each of `slots` is used, in jobs: steps of one job run before, after and beside each other,
// so memory is planned by jobs. A step may take the memory of an operand (Step::in_place) where no
// other step of its job uses that. A slot that nobody uses is free throughout.
std::vector<Lifetime> lifetimes_of(const Program& program, const std::vector<Job>& jobs,
                                   const std::vector<Slot>& slots);

}  // namespace podium::cpu
