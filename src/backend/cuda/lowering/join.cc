// Many small tensors in one launch: a launch costs as long as such a tensor by itself.
#include <algorithm>
#include <utility>
#include <variant>

#include "backend/cuda/lowering/lowering.h"

namespace podium::PODIUM_CUDA_SPACE {
namespace {

template <typename Part>
using Bind = std::function<Part(const Memory&)>;

bool meet(const std::vector<Slot>& a, const std::vector<Slot>& b) {
  return std::ranges::any_of(a, [&](Slot slot) { return std::ranges::find(b, slot) != b.end(); });
}

// Whether `step` must see what `earlier` does, or must be seen by it.
bool depends(const Step& step, const Step& earlier) {
  return meet(step.reads, earlier.writes) || meet(step.writes, earlier.reads) ||
         meet(step.writes, earlier.writes);
}

template <typename Part, typename Kernel>
Step joined(std::vector<Step> steps, const Kernel& kernel) {
  if (steps.size() == 1) return std::move(steps[0]);
  Step all{.name = cat(steps[0].name.substr(0, steps[0].name.find(' ')), " of ", steps.size(),
                       " tensors"),
           .reads = {},
           .writes = {},
           .run = {}};
  std::vector<Bind<Part>> binds;
  for (Step& step : steps) {
    all.reads.insert(all.reads.end(), step.reads.begin(), step.reads.end());
    all.writes.insert(all.writes.end(), step.writes.begin(), step.writes.end());
    all.cost.flops += step.cost.flops;
    all.cost.bytes += step.cost.bytes;
    binds.push_back(std::get<Bind<Part>>(std::move(step.part)));
  }
  all.run = [binds = std::move(binds), kernel](const Launch& launch, const Memory& m) {
    std::vector<Part> parts;
    parts.reserve(binds.size());
    for (const Bind<Part>& bind : binds) parts.push_back(bind(m));
    kernel(launch, parts);
  };
  return all;
}

// Those of one kind wait until a step depends on one of them, or there are no more of this kind.
template <typename Part, typename Kernel>
std::vector<Step> join(std::vector<Step> steps, const Kernel& kernel) {
  std::vector<Step> result, waiting;
  const auto is_one = [](const Step& step) {
    return std::holds_alternative<Bind<Part>>(step.part);
  };
  auto left = std::ranges::count_if(steps, is_one);
  const auto flush = [&] {
    if (!waiting.empty()) result.push_back(joined<Part>(std::exchange(waiting, {}), kernel));
  };
  for (Step& step : steps) {
    if (std::ranges::any_of(waiting, [&](const Step& earlier) { return depends(step, earlier); }))
      flush();
    const bool waits = is_one(step);
    (waits ? waiting : result).push_back(std::move(step));
    if (waits && --left == 0) flush();
  }
  return result;
}

}  // namespace

std::vector<Step> join_steps(std::vector<Step> steps) {
  return join<RunningPart>(join<SgdPart>(std::move(steps), sgd_update), batch_norm_running);
}

}  // namespace podium::PODIUM_CUDA_SPACE
