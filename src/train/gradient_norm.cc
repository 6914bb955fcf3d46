// Clipping by the global norm (optimizer.clip_norm): the norm of all gradients together, in an
// order of arithmetic that no placement changes (docs/numerics.md), and the factor that brings it
// down to the value of the recipe.
#include <algorithm>
#include <cmath>

#include "base/tree.h"
#include "ops/ops.h"
#include "train/trainer_state.h"

namespace podium {

void Trainer::State::prepare_clipping() {
  for (const FlatEntry& entry : layout().parameters) {
    if (!entry.trained) continue;
    first_runs.push_back(std::ssize(square_runs));
    for (std::int64_t begin = 0; begin < entry.elements(); begin += kSquareRun)
      square_runs.push_back({entry.offset + begin, std::min(kSquareRun, entry.elements() - begin)});
  }
  first_runs.push_back(std::ssize(square_runs));
  square_sums.resize(square_runs.size());
}

// On every worker at once, after each has summed its shard: scales the gradients of this worker's
// shard. False: the norm is not finite, which all workers find.
bool Trainer::State::clip_gradients(std::int64_t index) {
  float* const total = exchange->total();
  exchange->barrier().wait();  // all shards are summed
  const std::int64_t runs = std::ssize(square_runs), count = placement.workers;
  for (std::int64_t i = runs * index / count; i < runs * (index + 1) / count; ++i) {
    const SquareRun& run = square_runs[static_cast<std::size_t>(i)];
    square_sums[static_cast<std::size_t>(i)] =
        backend->sum_of_squares({total + run.offset, static_cast<std::size_t>(run.count)});
  }
  exchange->barrier().wait();
  const auto of_run = [&](std::int64_t i) { return square_sums[static_cast<std::size_t>(i)]; };
  const auto of_parameter = [&](std::int64_t i) {
    const auto p = static_cast<std::size_t>(i);
    return tree_sum(first_runs[p], first_runs[p + 1], of_run);
  };
  const std::int64_t parameters_trained = std::ssize(first_runs) - 1;
  const float norm =
      parameters_trained == 0 ? 0.0f : std::sqrt(tree_sum(0, parameters_trained, of_parameter));
  if (index == 0) gradient_norm = norm;
  if (!std::isfinite(norm)) return false;
  if (norm <= recipe.clip_norm) return true;
  const float factor = recipe.clip_norm / norm;
  const Worker& worker = workers[static_cast<std::size_t>(index)];
  const std::int64_t end = std::min(worker.shard_end, layout().parameter_floats);
  for (std::int64_t i = worker.shard_begin; i < end; ++i) total[i] *= factor;
  return true;
}

}  // namespace podium
