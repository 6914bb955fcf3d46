// Kernels that work in phases (kernels/conv/conv.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/kernels/conv/conv.h"
#include "backend/cpu/lowering.h"

namespace podium::cpu {

// kernel(memory, shared, scratch, phase, part); a step a phase, and the shared buffer lives through
// all of them. Their name and cost are those of the node where none are given.
template <typename Kernel>
void emit_phases(Lowering& l, const ConvWork& work, const Kernel& kernel, std::vector<Slot> reads,
                 std::vector<Slot> writes, const std::string& name = "", const Cost& cost = {}) {
  const Slot shared = l.temporary(work.shared);
  l.need_scratch(work.scratch);
  reads.push_back(shared);
  writes.push_back(shared);
  const double bytes = cost.bytes / work.phases;
  for (int phase = 0; phase < work.phases; ++phase)
    l.emit({.name = name,
            .parts = work.parts[phase],
            .reads = reads,
            .writes = writes,
            .run = [=](const Memory& m, int part,
                       int thread) { kernel(m, m.f32(shared), m.scratch(thread), phase, part); },
            .cost = {phase + 1 == work.phases ? cost.flops : 0, bytes}});
}

}  // namespace podium::cpu
