// One step, on every worker at once:
//
//   for each replica of mine   batch (a function of seed and step) -> program -> gradients,
//                              statistics, loss; added up the tree as far as my replicas reach;
//                              of the last one bucket by bucket, as they go to other ranks
//   barrier                    all sums lie published; who waits long helps the others
//   my shards                  the remaining additions of the tree, the optimizer's update, hash
//   barrier                    everybody sees the new parameters; who waits helps
//
// A caller that wants the gradients in hand makes it in two halves, cut after those additions. A
// device may take all that one worker does as one program (whole_step.cc).
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <numeric>

#include "base/clock.h"
#include "base/numerics/hash.h"
#include "base/numerics/tree.h"
#include "train/loop/trainer_state.h"

namespace podium {
namespace {

// Seconds that a worker waits for others who have as many replicas before it helps them. Help takes
// memory that lies in their caches, and their next step fetches it back: where two cores share no
// cache, that costs about as much as this, and most waits are shorter (docs/kernels.md).
constexpr double kPatience = 0.002;

}  // namespace

// What a replica's program reads: its examples, and which step and replica it is.
void Trainer::State::bind_batch(Worker& worker, std::int64_t replica) {
  ReplicaRun& run = run_of(worker);
  if (prefetcher) {
    const Prefetcher::Batch& batch = prefetcher->wait(done);
    auto known = std::ranges::find(worker.adopted, &batch, &Worker::AdoptedBatch::batch);
    if (known == worker.adopted.end()) {
      worker.adopted.push_back({&batch, {}});
      known = worker.adopted.end() - 1;
      for (const Tensor& field : batch.fields)
        known->fields.push_back(
            device->adopt(const_cast<void*>(field.data()), field.type().bytes()));
    }
    for (std::size_t i = 0; i < batch.fields.size(); ++i) {
      const View own = run.batch.view(i);
      const std::int64_t first = (replica - replicas.begin) * own.bytes;
      if (known->fields[i]) {
        run.program.set_input(run.field_slots[i], {*known->fields[i], first, own.bytes});
      } else {
        device->upload(own, static_cast<const std::byte*>(batch.fields[i].data()) + first);
      }
    }
  } else {
    loader->examples(done, replica * replica_rows, replica_rows, run.batch.host());
    run.batch.send();
  }
  send_place(worker, replica);
}

void Trainer::State::send_place(Worker& worker, std::int64_t replica) {
  worker.place.host<std::uint32_t>()[0] = static_cast<std::uint32_t>(done);
  worker.place.host<std::uint32_t>()[1] = static_cast<std::uint32_t>(replica);
  worker.place.send();
}

// What a replica's program writes: to `buffer`, and its counts as those of the worker's replica
// `own`.
void Trainer::State::bind_outputs(Worker& worker, std::int64_t replica, std::int64_t own,
                                  Buffer& buffer) {
  ReplicaRun& run = run_of(worker);
  for (const ReplicaRun::FlatOutput& output : run.flat_outputs)
    run.program.set_output(output.slot, {buffer, output.offset, output.bytes});
  bind_carried(worker, replica);
  for (std::size_t i = 0; i < run.count_slots.size(); ++i)
    run.program.set_output(
        run.count_slots[i],
        worker.results.view().part(
            ((static_cast<std::int64_t>(i) + 1) * worker.replicas.size() + own) * kWord, kWord));
}

// Its program writes to the buffer of a node of the tree, in another one for each replica.
void Trainer::State::bind_replica(Worker& worker, std::int64_t replica, Buffer& buffer) {
  const auto start = Clock::now();
  {
    const TraceSpan span(placement.trace, worker.lane, "batch of replica", replica);
    bind_batch(worker, replica);
  }
  worker.input_seconds += seconds_since(start);
  bind_outputs(worker, replica, replica - worker.replicas.begin, buffer);
  if (ranks() == 1) return;
  const TraceSpan span(placement.trace, worker.lane, "wait for parameters");
  exchange->finish_updates();
}

void Trainer::State::run_replica(Worker& worker, std::int64_t replica, Buffer& buffer) {
  bind_replica(worker, replica, buffer);
  const TraceSpan span(placement.trace, worker.lane, "replica", replica);
  run_of(worker).program.run();
  keep_loss(worker, replica, buffer);
}

void Trainer::State::keep_loss(Worker& worker, std::int64_t replica, Buffer& buffer) {
  const std::int64_t own = replica - worker.replicas.begin;
  device->copy(worker.results.view().part(own * kWord, kWord),
               {buffer, layout().loss_offset, kWord});
}

// The sum over a node of the tree that lies within this worker's replicas. Its last replica is
// added bucket by bucket, each as soon as it is made.
Buffer& Trainer::State::run_node(Worker& worker, ReplicaRange node) {
  const bool is_last = node.end == worker.replicas.end;
  if (node.size() == 1) {
    Buffer& buffer = *worker.free_buffers.back();
    worker.free_buffers.pop_back();
    if (is_last) {
      run_last_replica(worker, buffer);
    } else {
      run_replica(worker, node.begin, buffer);
    }
    return buffer;
  }
  const std::int64_t middle = tree_middle(node.begin, node.end);
  Buffer& left = run_node(worker, {node.begin, middle});
  if (is_last) worker.left_sums.push_back(&left);
  Buffer& right = run_node(worker, {middle, node.end});
  if (!is_last) device->accumulate(left, right, worker.number);
  worker.free_buffers.push_back(&right);
  return left;
}

void Trainer::State::run_last_replica(Worker& worker, Buffer& buffer) {
  Buffer& sum = worker.left_sums.empty() ? buffer : *worker.left_sums.front();
  worker.held_buffers.push_back(&sum);
  exchange->publish(worker.nodes.back(), sum);
  worker.last_buffer = &buffer;
  bind_replica(worker, worker.replicas.end - 1, buffer);
  const TraceSpan span(placement.trace, worker.lane, "replica", worker.replicas.end - 1);
  run_of(worker).program.run_to_milestones(worker.reached);
}

// The last replica has made this bucket, as all before it have.
void Trainer::State::complete_bucket(Worker& worker, int bucket) {
  // The first one has the losses, too, which go to other ranks with it.
  if (bucket == 0) {
    keep_loss(worker, worker.replicas.end - 1, *worker.last_buffer);
    read_results(worker);
  }
  const TraceSpan span(placement.trace, worker.lane, "join bucket", bucket);
  const std::vector<std::int64_t>& cuts = shards.cuts[static_cast<std::size_t>(bucket)];
  const std::int64_t begin = cuts.front(), bytes = cuts.back() - begin;
  Buffer* right = worker.last_buffer;
  for (auto left = worker.left_sums.rbegin(); left != worker.left_sums.rend(); right = *left++)
    device->accumulate({**left, begin, bytes}, {*right, begin, bytes}, worker.number);
  exchange->complete(worker.number, bucket);
}

// What the host looks at of its replicas' step; waits for the device.
void Trainer::State::read_results(Worker& worker) {
  worker.results.receive();
  const auto count = static_cast<std::size_t>(worker.replicas.size()),
             first = static_cast<std::size_t>(worker.replicas.begin);
  for (std::size_t i = 0; i < count; ++i) {
    losses[first + i] = worker.results.host<float>()[i];
    for (std::size_t k = 0; k < counts.size(); ++k)
      counts[k][first + i] = worker.results.host<std::int32_t>()[(k + 1) * count + i];
  }
}

// Inputs that lie in the sum over all replicas.
void Trainer::State::bind_sums(BoundExecutable& bound,
                               const std::vector<Shard::FlatInput>& inputs) const {
  for (const Shard::FlatInput& input : inputs)
    bound.set_input(input.slot, exchange->sums(input.range.begin, input.range.end));
}

void Trainer::State::update_shard(Worker& worker, int bucket, const StepOptions& options) {
  const TraceSpan span(placement.trace, worker.lane, "update bucket", bucket);
  Shard& shard = worker.shards[static_cast<std::size_t>(bucket)];
  if (options.update_parameters && shard.update) {
    bind_sums(shard.update, shard.update_gradients);
    shard.update.run();
  }
  if (shard.means) {
    bind_sums(shard.means, shard.mean_sums);
    shard.means.run();
  }
  exchange->updated(bucket);
  if (options.hash && shard.hashes) shard.hashes.run();
}

// At the barrier, while others are busy; helps them after `patience` seconds.
void Trainer::State::wait_for_others(Worker& worker, double patience) {
  const TraceSpan span(placement.trace, worker.lane, "wait for workers");
  const auto arrived = Clock::now();
  double helped = 0;
  exchange->barrier().wait([&] {
    const auto start = Clock::now();
    if (std::chrono::duration<double>(start - arrived).count() < patience) return false;
    if (!device->idle(worker.number)) return false;
    helped += seconds_since(start);
    return true;
  });
  worker.waiting_seconds += seconds_since(arrived) - helped;
}

void Trainer::State::release_buffers(Worker& worker) {
  for (Buffer* buffer : worker.held_buffers) worker.free_buffers.push_back(buffer);
  worker.held_buffers.clear();
}

void Trainer::State::run_nodes(Worker& worker) {
  for (const ReplicaRange node : worker.nodes) {
    Buffer& sum = run_node(worker, node);
    if (node == worker.nodes.back()) break;  // published before its last replica ran
    worker.held_buffers.push_back(&sum);
    exchange->publish(node, sum);
  }
}

void Trainer::State::run_part(std::int64_t index, Part part, const StepOptions& options) {
  Worker& worker = workers[static_cast<std::size_t>(index)];
  if (part != Part::kUpdate) {
    worker.input_seconds = worker.waiting_seconds = 0;
    release_buffers(worker);  // of gradients that nobody has made an update from
    worker.left_sums.clear();
    if (worker.all_replicas) {
      run_all_replicas(worker);
    } else {
      run_nodes(worker);
    }
    const bool has_less = std::ranges::any_of(workers, [&](const Worker& other) {
      return other.replicas.size() > worker.replicas.size();
    });
    wait_for_others(worker, has_less ? 0 : kPatience);
  }
  const bool updates = sum_and_update(worker, part, options);
  if (updates && part == Part::kGradients) return;  // the sums stay where they are
  if (!updates && index == 0) finite = false;
  wait_for_others(worker, 0);
  release_buffers(worker);
  // A refused step's batch is still needed, to find out why.
  if (prefetcher && updates && !is_repeated) prefetcher->release(done);
}

// This worker's shards, each as soon as its sums have come. False: the step is refused, by all
// workers alike.
bool Trainer::State::sum_and_update(Worker& worker, Part part, const StepOptions& options) {
  const bool clips = options.update_parameters && recipe.clip_norm != 0,
             weighted = program.is_weighted();
  bool updates = part == Part::kUpdate;
  for (int bucket = 0; bucket < exchange->buckets(); ++bucket) {
    if (part != Part::kUpdate) {
      const auto start = Clock::now();
      const TraceSpan span(placement.trace, worker.lane, "sum bucket", bucket);
      exchange->sum(worker.number, bucket);
      if (ranks() > 1) worker.waiting_seconds += seconds_since(start);
      // With the first bucket come the losses of other ranks, so all see the same ones.
      if (bucket == 0) {
        updates = may_update();
        if (weighted) set_correction(worker, updates ? correction_of_step() : 1);
      }
      // Where they are clipped, both factors are one.
      if (updates && weighted && (part == Part::kGradients || !clips))
        correct_gradients(worker, bucket);
    } else if (bucket == 0 && weighted) {
      set_correction(worker, 1);  // as compute_gradients() did
    }
    if (updates && part != Part::kGradients && !clips) update_shard(worker, bucket, options);
  }
  if (!updates || part == Part::kGradients || !clips) return updates;
  if (!clip_gradients(worker)) return false;
  for (int bucket = 0; bucket < exchange->buckets(); ++bucket)
    update_shard(worker, bucket, options);
  return true;
}

Worker& Trainer::State::owner(std::int64_t replica) {
  return *std::ranges::find_if(workers,
                               [&](const Worker& worker) { return replica < worker.replicas.end; });
}

bool Trainer::State::losses_are_finite() const {
  return std::ranges::all_of(losses, [](float loss) { return std::isfinite(loss); });
}

// After a step that was refused: the operation that made a value that is not finite, in the first
// replica, in order, whose loss is not; where all losses are, in the first that has such a value.
std::string Trainer::State::diagnose() {
  std::string found = first_bad_operation();
  if (ranks() > 1) {
    for (const std::string& other : placement.ranks->gather(found)) {
      found = other;
      if (!found.empty()) break;
    }
  }
  if (!found.empty()) return found;
  return losses_are_finite() ? "the norm itself" : "the loss";
}

// Of this rank's replicas; empty: they have none.
std::string Trainer::State::first_bad_operation() {
  const bool losses_are = losses_are_finite();
  for (std::int64_t replica = replicas.begin; replica < replicas.end; ++replica) {
    if (std::isfinite(losses[static_cast<std::size_t>(replica)]) && !losses_are) continue;
    Worker& worker = owner(replica);
    run_replica(worker, replica, *worker.free_buffers.back());
    if (const auto found = run_of(worker).program.find_non_finite()) return *found;
  }
  return "";
}

std::string StepResult::divergence() const {
  return cat(std::isfinite(sums.loss) ? "the norm of the gradients" : "the loss",
             " is not finite; the first operation with such a result is ", non_finite);
}

// The tensors of the parameters, or those alone that are trained, from where flat memory begins.
std::vector<TensorSpan> Trainer::State::spans_of(float* flat, bool trained_only) const {
  std::vector<TensorSpan> spans;
  for (const FlatEntry& entry : layout().parameters) {
    if (trained_only && !entry.trained) continue;
    float* const first = flat + entry.offset / static_cast<std::int64_t>(sizeof(float));
    spans.push_back(
        {entry.name, entry.shape(), {first, static_cast<std::size_t>(entry.elements())}});
  }
  return spans;
}

// Adds what the workers of this rank computed of the hashes of their shards.
void Trainer::State::add_hashes(std::uint64_t* sums) const {
  for (const Worker& worker : workers) {
    for (const Shard& shard : worker.shards) {
      if (!shard.hashes) continue;
      shard.hash_words.receive();
      for (std::size_t i = 0; i < shard.hashed.size(); ++i) {
        const std::uint32_t* const words = shard.hash_words.host<std::uint32_t>() + 2 * i;
        sums[shard.hashed[i]] += std::uint64_t{words[1]} << 32 | words[0];
      }
    }
  }
}

// The mean loss, where the sum over all replicas is in this rank.
float Trainer::State::total_loss() {
  if (!is_whole) {  // else it is a part of the step's program
    bind_sums(mean_loss, mean_loss_sum);
    mean_loss.run();
  }
  mean_loss_value.receive();
  return *mean_loss_value.host<float>() * correction_of_step();
}

// After an update: all ranks get the loss and the hash of all parameters.
void Trainer::State::share_results(const StepOptions& options, StepResult& result) {
  const std::size_t count = layout().parameters.size();
  std::uint64_t* const mine = tail(exchange->rank());
  std::fill_n(mine, count + 1, 0);
  if (options.hash) add_hashes(mine);
  int holder = 0;  // of the sum of all losses
  while (shards.end(0, holder) <= layout().loss_offset) ++holder;
  if (holder == exchange->rank()) mine[count] = std::bit_cast<std::uint32_t>(total_loss());
  exchange->exchange(tail_round);
  result.sums.loss = std::bit_cast<float>(static_cast<std::uint32_t>(tail(holder)[count]));
  for (std::size_t i = 0; options.hash && i < count; ++i) {
    std::uint64_t sum = 0;
    for (int rank = 0; rank < ranks(); ++rank) sum += tail(rank)[i];
    const auto elements = static_cast<std::uint64_t>(layout().parameters[i].elements());
    result.hash = hash_append(result.hash, hash_tensor(sum, elements));
  }
  if (options.hash) result.hash = with_carried_hash(result.hash);
}

// But for the loss.
Sums Trainer::State::sums_of_step() const {
  Sums sums{.examples = recipe.batch, .items = items_of_step};
  sums.weight = weight_of_step();
  for (std::size_t i = 0; i < counts.size(); ++i)
    sums.counts[program.counts[i]] =
        std::accumulate(counts[i].begin(), counts[i].end(), std::int64_t{0});
  return sums;
}

StepResult Trainer::State::make(Part part, const StepOptions& options) {
  const auto start = Clock::now();
  StepResult result;
  const StepInRun at{done, loader->steps_per_epoch(), total_steps};
  items_of_step = program_of(loader->bucket_of(done)).items * recipe.replicas;
  result.learning_rate = learning_rate_at(recipe.optimizer, recipe.schedule, at);
  const std::vector<float> scalars = optimizers.scalar_values(recipe.schedule, at);
  for (Worker& worker : workers) {
    std::ranges::copy(scalars, worker.scalars.host<float>());
    worker.scalars.send();
  }
  parameter_mirror.push();
  if (part == Part::kUpdate) {
    gradient_mirror.push();
  } else {
    exchange->begin_step();
  }
  if (placement.input_threads > 0 && !prefetcher)
    prefetcher = std::make_unique<Prefetcher>(loader, prefetch_options());
  if (part != Part::kUpdate) seconds_before = 0;
  finite = true;
  gradients_ready = false;
  carried.of_all_replicas.clear();
  gradient_norm = 0;
  is_whole = whole_step.program && part == Part::kWhole && options.update_parameters;
  if (is_whole) {
    run_whole_step(options);
  } else {
    const int count = static_cast<int>(workers.size());
    threads->run_on_each([&](int thread) { run_part((thread + moved_by) % count, part, options); },
                         [&] { exchange->barrier().abandon(); });
  }

  result.step = done + 1;
  result.sums = sums_of_step();
  for (const Worker& worker : workers) {
    result.input_seconds += worker.input_seconds / static_cast<double>(workers.size());
    result.waiting_seconds += worker.waiting_seconds / static_cast<double>(workers.size());
  }
  require_weight();
  const bool losses_are = losses_are_finite();
  result.sums.loss = NAN;
  result.gradient_norm = gradient_norm;
  if (!losses_are || !finite) {
    if (losses_are && is_whole) {
      const float sum = tree_sum(0, recipe.replicas, [&](std::int64_t replica) {
        return losses[static_cast<std::size_t>(replica)];
      });
      result.sums.loss = sum / static_cast<float>(recipe.replicas);
    } else if (losses_are) {
      exchange->gather_sums();
      result.sums.loss = total_loss();
    }
    result.non_finite = diagnose();
    if (!options.throw_on_divergence) return result;
    throw UserError(cat("step ", result.step, ": ", result.divergence(),
                        "; try a smaller optimizer.learning_rate"),
                    ExitCode::kDiverged);
  }
  if (part == Part::kGradients) {
    gradients_ready = true;
    exchange->gather_sums();
    result.sums.loss = total_loss();
    float* const total = gradient_mirror.open(*device, exchange->sums(0, layout().bytes));
    gradient_spans = spans_of(total, true);
  } else {
    ++done;
    share_results(options, result);
    last_hash = options.hash ? std::optional(result.hash) : std::nullopt;
    if (parameter_mirror.is_open()) {
      exchange->finish_updates();
      parameter_mirror.pull();
    }
  }
  result.seconds = seconds_before += seconds_since(start);
  return result;
}

StepResult Trainer::step(const StepOptions& options) {
  PODIUM_REQUIRE(!state_->gradients_ready, ExitCode::kUsage, "step ", steps_done() + 1,
                 ": its gradients have been computed by compute_gradients(); end it by "
                 "apply_update()");
  return options.audit ? state_->audited(options) : state_->make(State::Part::kWhole, options);
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

std::span<const TensorSpan> Trainer::parameters() {
  State& s = *state_;
  s.settle();
  if (!s.parameter_mirror.is_open())
    s.parameter_spans = s.spans_of(s.parameter_mirror.open(*s.device, *s.parameters), false);
  return s.parameter_spans;
}

void Trainer::State::require_gradients(const char* call) const {
  PODIUM_REQUIRE(gradients_ready, ExitCode::kUsage, call, ": the gradients of step ", done + 1,
                 " have not been computed; call compute_gradients() first");
}

}  // namespace podium
