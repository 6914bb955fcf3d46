// Clipping by the global norm (optimizer.clip_norm): the norm of all gradients together, in an
// order of arithmetic that no placement changes (docs/numerics.md), and the factor that brings it
// down to the value of the recipe.
#include <algorithm>
#include <cmath>

#include "train/trainer_state.h"

namespace podium {

void Trainer::State::prepare_clipping() {
  constexpr std::int64_t kWord = sizeof(float);
  runs = square_runs(layout());
  squares = device->allocate(std::max<std::int64_t>(runs.count(), 1) * kWord);
  // A run is of the shard that it begins in, and ends there: cut_shards() sees to that.
  const auto first_from = [&](std::int64_t byte) {
    return std::ranges::lower_bound(runs.ranges, byte, {}, &FlatRange::begin) - runs.ranges.begin();
  };
  for (int rank = 0; rank < ranks(); ++rank) {
    const std::int64_t first = first_from(shards.begin(rank)), end = first_from(shards.end(rank));
    square_parts.emplace_back(*squares, first * kWord, (end - first) * kWord);
  }
  for (Worker& worker : workers) {
    const CompileOptions options{.worker = worker.number};
    const std::vector<SquarePiece> pieces =
        square_pieces(runs, first_from(worker.shard_begin), first_from(worker.shard_end));
    if (!pieces.empty())
      worker.squares = BoundExecutable(*device, build_square_program(pieces), options);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      worker.square_gradients.push_back(
          {worker.squares.input_slot(cat("gradient/", i)), pieces[i].range});
      worker.squares.bind_output(cat("squares/", i),
                                 {*squares, pieces[i].first_run * kWord, pieces[i].runs * kWord});
    }
    worker.norm_values = Staging(*device, 2 * kWord);
    worker.norm = BoundExecutable(*device, build_norm_program(runs, recipe.clip_norm), options);
    worker.norm.bind_input("squares", *squares);
    worker.norm.bind_output("norm", worker.norm_values.view().part(0, kWord));
    worker.norm.bind_output("factor", worker.norm_values.view().part(kWord, kWord));
    const std::int64_t bytes =
        std::min(worker.shard_end, layout().parameter_bytes) - worker.shard_begin;
    if (bytes <= 0) continue;
    worker.scale = BoundExecutable(*device, build_scale_program(bytes),
                                   {.worker = worker.number, .donations = {{"scaled", "values"}}});
    worker.scale.bind_input("factor", worker.norm_values.view().part(kWord, kWord));
  }
}

// On every worker at once, after each has summed its shard: scales the gradients of this worker's
// shard. False: the norm is not finite, which all workers find.
bool Trainer::State::clip_gradients(Worker& worker) {
  if (worker.squares) {
    bind_sums(worker.squares, worker.square_gradients);
    worker.squares.run();
  }
  exchange->barrier().wait();
  if (ranks() > 1) {
    if (worker.number == 0) exchange->all_gather(square_parts);
    exchange->barrier().wait();
  }
  worker.norm.run();
  worker.norm_values.receive();
  const float norm = worker.norm_values.host<float>()[0],
              factor = worker.norm_values.host<float>()[1];
  if (worker.number == 0) gradient_norm = norm;
  if (!std::isfinite(norm)) return false;
  if (factor == 1.0f || !worker.scale) return true;
  const std::int64_t end = std::min(worker.shard_end, layout().parameter_bytes);
  worker.scale.bind_input("values", exchange->sums(worker.shard_begin, end));
  worker.scale.run();
  return true;
}

}  // namespace podium
