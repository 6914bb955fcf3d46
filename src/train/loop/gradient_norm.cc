// Clipping by the global norm (optimizer.clip_norm): the norm of all gradients together, in an
// order of arithmetic that no placement changes (docs/numerics.md), and the factor that brings it
// down to the value of the recipe.
#include <algorithm>
#include <cmath>

#include "train/loop/trainer_state.h"

namespace podium {

// What multiplies the gradients of each shard.
void Trainer::State::prepare_scaling() {
  for (Worker& worker : workers) {
    worker.norm_values = Staging(*device, 2 * kWord);
    if (program.is_weighted()) worker.correction = Staging(*device, kWord);
    for (Shard& shard : worker.shards) {
      const FlatRange range = {shard.range.begin,
                               std::min(shard.range.end, layout().parameter_bytes)};
      if (range.bytes() <= 0) continue;
      shard.scale = BoundExecutable(*device, build_scale_program(range.bytes()),
                                    {.worker = worker.number, .donations = {{"scaled", "values"}}});
      shard.scale.bind_input("factor", worker.norm_values.view().part(kWord, kWord));
      shard.scale_values = {{shard.scale.input_slot("values"), range}};
    }
  }
}

void Trainer::State::prepare_clipping() {
  runs = square_runs(layout());
  squares = device->allocate(std::max<std::int64_t>(runs.count(), 1) * kWord);
  // A run is of the shard that it begins in, and ends there: cut_shards() sees to that.
  const auto first_from = [&](std::int64_t byte) {
    return std::ranges::lower_bound(runs.ranges, byte, {}, &FlatRange::begin) - runs.ranges.begin();
  };
  for (int bucket = 0; bucket < shards.buckets(); ++bucket) {
    std::vector<View> parts;
    for (int rank = 0; rank < ranks(); ++rank) {
      const std::int64_t first = first_from(shards.begin(bucket, rank)),
                         end = first_from(shards.end(bucket, rank));
      parts.emplace_back(*squares, first * kWord, (end - first) * kWord);
    }
    exchange->add(square_round, parts);
  }
  for (Worker& worker : workers) {
    const CompileOptions options{.worker = worker.number};
    worker.norm = BoundExecutable(
        *device, build_norm_program(runs, recipe.clip_norm, program.is_weighted()), options);
    if (program.is_weighted()) worker.norm.bind_input("correction", worker.correction.view());
    worker.norm.bind_input("squares", *squares);
    worker.norm.bind_output("norm", worker.norm_values.view().part(0, kWord));
    worker.norm.bind_output("factor", worker.norm_values.view().part(kWord, kWord));
    for (Shard& shard : worker.shards) {
      const std::vector<SquarePiece> pieces =
          square_pieces(runs, first_from(shard.range.begin), first_from(shard.range.end));
      if (!pieces.empty())
        shard.squares = BoundExecutable(*device, build_square_program(pieces), options);
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        shard.square_gradients.push_back(
            {shard.squares.input_slot(cat("gradient/", i)), pieces[i].range});
        shard.squares.bind_output(cat("squares/", i),
                                  {*squares, pieces[i].first_run * kWord, pieces[i].runs * kWord});
      }
    }
  }
}

// On every worker at once, after each has summed its shards: scales the gradients of this worker's
// shards. False: the norm is not finite, which all workers find.
bool Trainer::State::clip_gradients(Worker& worker) {
  for (Shard& shard : worker.shards) {
    if (!shard.squares) continue;
    bind_sums(shard.squares, shard.square_gradients);
    shard.squares.run();
  }
  exchange->barrier().wait();
  if (ranks() > 1) {
    if (worker.number == 0) exchange->exchange(square_round);
    exchange->barrier().wait();
  }
  worker.norm.run();
  worker.norm_values.receive();
  const float norm = worker.norm_values.host<float>()[0],
              factor = worker.norm_values.host<float>()[1];
  if (worker.number == 0) gradient_norm = norm;
  if (!std::isfinite(norm)) return false;
  for (Shard& shard : worker.shards) {
    if (factor == 1.0f || !shard.scale) continue;
    shard.scale.bind_input("factor", worker.norm_values.view().part(kWord, kWord));
    bind_sums(shard.scale, shard.scale_values);
    shard.scale.run();
  }
  return true;
}

}  // namespace podium
