// One step, on every worker at once:
//
//   for each replica of mine   batch (a function of seed and step) -> program -> gradients,
//                              statistics, loss; added up the tree as far as my replicas reach
//   barrier                    all sums lie published; who waits long helps the others
//   my shard                   the remaining additions of the tree, the optimizer's update, hash
//   barrier                    everybody sees the new parameters; who waits helps
//
// A caller that wants the gradients in hand makes it in two halves, cut after those additions.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/clock.h"
#include "base/hash.h"
#include "base/tree.h"
#include "train/trainer_state.h"

namespace podium {
namespace {

// Seconds that a worker waits for others who have as many replicas before it helps them. Help takes
// memory that lies in their caches, and their next step fetches it back: where two cores share no
// cache, that costs about as much as this, and most waits are shorter (docs/kernels.md).
constexpr double kPatience = 0.002;

}  // namespace

void Trainer::State::run_replica(Worker& worker, std::int64_t replica, float* buffer) {
  const auto start = Clock::now();
  if (prefetcher) {
    const Prefetcher::Batch& batch = prefetcher->wait(done);
    const std::int64_t first = replica * replica_images;
    worker.program.set_input(worker.images_slot,
                             batch.images.f32().data() + first * loader->set().image_bytes());
    worker.program.set_input(worker.labels_slot, batch.labels.i32().data() + first);
  } else {
    loader->examples(done, replica * replica_images, replica_images,
                     reinterpret_cast<float*>(worker.images.data()),
                     reinterpret_cast<std::int32_t*>(worker.labels.data()));
  }
  worker.input_seconds += seconds_since(start);
  worker.step = static_cast<std::uint32_t>(done);
  worker.replica = static_cast<std::uint32_t>(replica);
  for (const Worker::FlatOutput& output : worker.flat_outputs)
    worker.program.set_output(output.slot, buffer + output.offset);
  worker.program.run();
  losses[static_cast<std::size_t>(replica)] = buffer[layout().loss_offset];
  correct[static_cast<std::size_t>(replica)] = worker.correct;
}

// The sum over a node of the tree that lies within this worker's replicas.
float* Trainer::State::run_node(Worker& worker, ReplicaRange node) {
  if (node.size() == 1) {
    float* buffer = worker.free_buffers.back();
    worker.free_buffers.pop_back();
    run_replica(worker, node.begin, buffer);
    return buffer;
  }
  const std::int64_t middle = tree_middle(node.begin, node.end);
  float* left = run_node(worker, {node.begin, middle});
  float* right = run_node(worker, {middle, node.end});
  const auto count = static_cast<std::size_t>(layout().floats);
  backend->accumulate({left, count}, {right, count});
  worker.free_buffers.push_back(right);
  return left;
}

void Trainer::State::update_shard(Worker& worker, const StepOptions& options) {
  const float* const sums = worker.sums;
  if (options.update_parameters) {
    for (std::size_t i = 0; i < worker.pieces.size(); ++i)
      worker.update.set_input(worker.gradient_slots[i],
                              sums + (worker.pieces[i].begin - worker.shard_begin));
    worker.update.run();
  }
  // Running statistics: the mean over replicas.
  const auto replicas = static_cast<float>(recipe.replicas);
  for (const FlatEntry& entry : layout().statistics) {
    if (!entry.trained) continue;
    const std::int64_t first = std::max(worker.shard_begin, entry.offset);
    const std::int64_t last = std::min(worker.shard_end, entry.offset + entry.elements());
    for (std::int64_t i = first; i < last; ++i)
      statistic_data()[i - layout().parameter_floats] = sums[i - worker.shard_begin] / replicas;
  }
  if (!options.hash) return;
  for (std::size_t i = 0; i < layout().parameters.size(); ++i) {
    const FlatEntry& entry = layout().parameters[i];
    const std::int64_t from = std::max(entry.offset, worker.shard_begin),
                       to = std::min(entry.offset + entry.elements(), worker.shard_end);
    worker.hash_sums[i] =
        from >= to ? 0
                   : hash_sum({parameter_data() + from, static_cast<std::size_t>(to - from)},
                              static_cast<std::uint64_t>(from - entry.offset));
  }
}

// Does a piece of another worker's kernel; false where there was none to be had.
bool Trainer::State::help_others(std::int64_t helper, WorkerProgram what) {
  const auto count = static_cast<std::int64_t>(workers.size());
  const Executable& own = (workers[static_cast<std::size_t>(helper)].*what).executable();
  for (std::int64_t i = 1; i < count; ++i) {
    const std::int64_t other = (helper + i) % count;
    const int guest = guest_number(count, other, helper);
    if (guest < 0) continue;
    if ((workers[static_cast<std::size_t>(other)].*what).executable().help(guest, own)) return true;
  }
  return false;
}

// At the barrier, while the others run `what`; helps after `patience` seconds.
void Trainer::State::wait_for_others(std::int64_t helper, WorkerProgram what, double patience) {
  Worker& worker = workers[static_cast<std::size_t>(helper)];
  const auto arrived = Clock::now();
  double helped = 0;
  exchange->barrier().wait([&] {
    const auto start = Clock::now();
    if (std::chrono::duration<double>(start - arrived).count() < patience) return false;
    if (!help_others(helper, what)) return false;
    helped += seconds_since(start);
    return true;
  });
  worker.waiting_seconds += seconds_since(arrived) - helped;
}

void Trainer::State::release_buffers(Worker& worker) {
  for (float* buffer : worker.held_buffers) worker.free_buffers.push_back(buffer);
  worker.held_buffers.clear();
}

void Trainer::State::run_part(std::int64_t index, Part part, const StepOptions& options) {
  Worker& worker = workers[static_cast<std::size_t>(index)];
  if (part != Part::kUpdate) {
    worker.input_seconds = worker.waiting_seconds = 0;
    release_buffers(worker);  // of gradients that nobody has made an update from
    for (const ReplicaRange node : largest_nodes(recipe.replicas, worker.replicas)) {
      float* sum = run_node(worker, node);
      worker.held_buffers.push_back(sum);
      exchange->publish(node, sum);
    }
    const bool has_less = std::ranges::any_of(workers, [&](const Worker& other) {
      return other.replicas.size() > worker.replicas.size();
    });
    wait_for_others(index, &Worker::program, has_less ? 0 : kPatience);
  }

  // Every worker sees the same losses, so all refuse the update or none does.
  bool updates = losses_are_finite();
  if (updates && part != Part::kUpdate)
    worker.sums = exchange->sum(worker.shard_begin, worker.shard_end);
  if (updates && part == Part::kGradients) return;  // the sums stay where they are
  if (updates && options.update_parameters && recipe.clip_norm != 0)
    updates = clip_gradients(index);
  if (updates) {
    update_shard(worker, options);
  } else if (index == 0) {
    finite = false;
  }
  wait_for_others(index, &Worker::update, 0);
  release_buffers(worker);
  // A refused step's batch is still needed, to find out why.
  if (prefetcher && updates) prefetcher->release(done);
}

bool Trainer::State::losses_are_finite() const {
  return std::ranges::all_of(losses, [](float loss) { return std::isfinite(loss); });
}

// After a step that was refused: the operation that made a value that is not finite, in the first
// replica, in order, whose loss is not; where all losses are, in the first that has such a value.
std::string Trainer::State::diagnose() {
  const bool losses_are = losses_are_finite();
  for (std::size_t replica = 0; replica < losses.size(); ++replica) {
    if (std::isfinite(losses[replica]) && !losses_are) continue;
    Worker& worker = workers[0];
    run_replica(worker, static_cast<std::int64_t>(replica), worker.free_buffers.back());
    if (const auto found = worker.program.find_non_finite()) return *found;
  }
  return losses_are ? "the norm itself" : "the loss";
}

std::string StepResult::divergence() const {
  return cat(std::isfinite(loss) ? "the norm of the gradients" : "the loss",
             " is not finite; the first operation with such a result is ", non_finite);
}

StepResult Trainer::State::make(Part part, const StepOptions& options) {
  const auto start = Clock::now();
  StepResult result;
  const StepInRun at{done, loader->steps_per_epoch(), total_steps};
  result.learning_rate = learning_rate_at(recipe.optimizer, recipe.schedule, at);
  const std::vector<float> scalars = optimizers.scalar_values(recipe.schedule, at);
  for (Worker& worker : workers) std::ranges::copy(scalars, worker.scalars.begin());
  if (placement.input_threads > 0 && !prefetcher)
    prefetcher = std::make_unique<Prefetcher>(loader, prefetch_options());
  if (part != Part::kUpdate) seconds_before = 0;
  finite = true;
  gradients_ready = false;
  gradient_norm = 0;
  threads->run_on_each([&](int worker) { run_part(worker, part, options); },
                       [&] { exchange->barrier().abandon(); });

  result.step = done + 1;
  for (const std::int32_t count : correct) result.correct += count;
  for (const Worker& worker : workers) {
    result.input_seconds += worker.input_seconds / static_cast<double>(workers.size());
    result.waiting_seconds += worker.waiting_seconds / static_cast<double>(workers.size());
  }
  const bool losses_are = losses_are_finite();
  result.loss = losses_are
                    ? exchange->total()[layout().loss_offset] / static_cast<float>(recipe.replicas)
                    : NAN;
  result.gradient_norm = gradient_norm;
  if (!losses_are || !finite) {
    result.non_finite = diagnose();
    if (!options.throw_on_divergence) return result;
    throw UserError(cat("step ", result.step, ": ", result.divergence(),
                        "; try a smaller optimizer.learning_rate"),
                    ExitCode::kDiverged);
  }
  if (part == Part::kGradients) {
    gradients_ready = true;
    float* const total = exchange->total();
    gradient_spans.clear();
    for (const FlatEntry& entry : layout().parameters) {
      const auto count = static_cast<std::size_t>(entry.elements());
      if (entry.trained)
        gradient_spans.push_back({entry.name, entry.shape, {total + entry.offset, count}});
    }
  } else {
    ++done;
    for (std::size_t i = 0; options.hash && i < layout().parameters.size(); ++i) {
      std::uint64_t sum = 0;
      for (const Worker& worker : workers) sum += worker.hash_sums[i];
      const auto count = static_cast<std::uint64_t>(layout().parameters[i].elements());
      result.hash = hash_append(result.hash, hash_tensor(sum, count));
    }
  }
  result.seconds = seconds_before += seconds_since(start);
  return result;
}

StepResult Trainer::step(const StepOptions& options) {
  PODIUM_REQUIRE(!state_->gradients_ready, ExitCode::kUsage, "step ", steps_done() + 1,
                 ": its gradients have been computed by compute_gradients(); end it by "
                 "apply_update()");
  return state_->make(State::Part::kWhole, options);
}

StepResult Trainer::step(const StepOptions& options, const std::function<void(Trainer&)>& between) {
  const StepResult gradients = compute_gradients(options);
  if (!gradients.non_finite.empty()) return gradients;
  between(*this);
  return apply_update(options);
}

StepResult Trainer::compute_gradients(const StepOptions& options) {
  return state_->make(State::Part::kGradients, options);
}

StepResult Trainer::apply_update(const StepOptions& options) {
  state_->require_gradients("apply_update()");
  return state_->make(State::Part::kUpdate, options);
}

std::span<const TensorSpan> Trainer::gradients() {
  state_->require_gradients("gradients()");
  return state_->gradient_spans;
}

std::span<const TensorSpan> Trainer::parameters() { return state_->parameter_spans; }

void Trainer::State::require_gradients(const char* call) const {
  PODIUM_REQUIRE(gradients_ready, ExitCode::kUsage, call, ": the gradients of step ", done + 1,
                 " have not been computed; call compute_gradients() first");
}

}  // namespace podium
