#include "backend/cpu/jobs.h"

#include <algorithm>

namespace podium::cpu {
namespace {

bool meet(const std::vector<Slot>& a, const std::vector<Slot>& b) {
  return std::ranges::any_of(a, [&](Slot slot) { return std::ranges::find(b, slot) != b.end(); });
}

bool independent(const Step& a, const Step& b) {
  // What an update writes may be the memory of what another step reads, under another slot; but
  // updates of different parameters stand beside each other.
  if (a.updates != b.updates) return false;
  return !meet(a.writes, b.reads) && !meet(a.writes, b.writes) && !meet(b.writes, a.reads);
}

bool uses(const Step& step, Slot slot) {
  return meet({slot}, step.reads) || meet({slot}, step.writes);
}

}  // namespace

std::vector<Job> jobs_of(const Program& program, int threads) {
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    bool joins = threads > 1 && !jobs.empty();
    for (std::size_t k = joins ? jobs.back().begin : i; k < i; ++k)
      joins = joins && independent(program.steps[k], step);
    if (joins) {
      jobs.back().end = i + 1;
      jobs.back().parts += step.parts;
    } else {
      jobs.push_back({i, i + 1, step.parts});
    }
  }
  return jobs;
}

std::vector<Lifetime> lifetimes_of(const Program& program, const std::vector<Job>& jobs,
                                   const std::vector<Slot>& slots) {
  std::vector<Lifetime> lifetimes;
  std::vector<int> index_of(program.slots.size(), -1);
  for (const Slot slot : slots) {
    index_of[static_cast<std::size_t>(slot)] = static_cast<int>(lifetimes.size());
    lifetimes.push_back({program.slots[static_cast<std::size_t>(slot)].bytes,
                         static_cast<std::int64_t>(jobs.size()), -1});
  }
  const auto life = [&](Slot slot) -> Lifetime* {
    const int index = index_of[static_cast<std::size_t>(slot)];
    return index < 0 ? nullptr : &lifetimes[static_cast<std::size_t>(index)];
  };
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const auto at = static_cast<std::int64_t>(j);
    for (std::size_t i = jobs[j].begin; i < jobs[j].end; ++i) {
      const Step& step = program.steps[i];
      for (const auto* used : {&step.reads, &step.writes}) {
        for (const Slot slot : *used) {
          if (Lifetime* known = life(slot)) {
            known->first = std::min(known->first, at);
            known->last = std::max(known->last, at);
          }
        }
      }
      for (const Slot slot : step.in_place) {
        Lifetime* result = life(step.writes[0]);
        if (result == nullptr || life(slot) == nullptr) continue;
        bool shared = false;
        for (std::size_t k = jobs[j].begin; k < jobs[j].end; ++k)
          shared = shared || (k != i && uses(program.steps[k], slot));
        if (!shared)
          result->may_take.push_back(
              static_cast<std::size_t>(index_of[static_cast<std::size_t>(slot)]));
      }
    }
  }
  return lifetimes;
}

}  // namespace podium::cpu
