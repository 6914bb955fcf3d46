// Items that do not all count alike. A replica gives the gradient of the sum of its losses, each
// times its weight, over the number of all items, which is known when the program is built. The sum
// of the weights of a step, over all replicas, is known when their losses are: what is missing then
// is the factor N / W, N all items and W their weights (docs/numerics.md).
#include <cmath>
#include <numeric>

#include "train/loop/trainer_state.h"

namespace podium {

// -1: a replica has a negative weight, or more than 31 bits of them.
std::int64_t Trainer::State::weight_of_step() const {
  if (!program.is_weighted()) return items_of_step;
  std::int64_t sum = 0;
  for (const std::int32_t weight : counts.back()) {
    if (weight < 0) return -1;
    sum += weight;
  }
  return sum;
}

float Trainer::State::correction_of_step() const {
  if (!program.is_weighted()) return 1;
  return static_cast<float>(items_of_step) / static_cast<float>(weight_of_step());
}

void Trainer::State::set_correction(Worker& worker, float correction) const {
  *worker.correction.host<float>() = correction;
  worker.correction.send();
}

// Of this worker's shard of a bucket, whose sum is complete.
void Trainer::State::correct_gradients(Worker& worker, int bucket) const {
  Shard& shard = worker.shards[static_cast<std::size_t>(bucket)];
  if (!shard.scale || *worker.correction.host<float>() == 1.0f) return;
  shard.scale.bind_input("factor", worker.correction.view());
  bind_sums(shard.scale, shard.scale_values);
  shard.scale.run();
}

bool Trainer::State::may_update() const { return losses_are_finite() && weight_of_step() > 0; }

void Trainer::State::require_weight() const {
  const std::int64_t weight = weight_of_step();
  PODIUM_REQUIRE(weight != 0, ExitCode::kData, "step ", done + 1,
                 ": all items of its batch have the weight 0, so there is nothing to learn from; "
                 "use a larger batch, or leave such examples out of the data");
  PODIUM_REQUIRE(weight > 0, ExitCode::kData, "step ", done + 1,
                 ": an item has a negative weight, or the weights of a replica add up to more than "
                 "2147483647; weights must be small whole numbers, not negative");
}

}  // namespace podium
