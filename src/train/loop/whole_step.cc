// A step as one program of the device, where there is a device that takes it as such: for one
// worker with all replicas, or for several, each on a device of its own. The program is made of
// what the workers would run: their calls, bound to batches of their own. Where the step is not one
// program, the replicas of each worker may be one.
#include <cmath>

#include "base/clock.h"
#include "train/loop/trainer_state.h"

namespace podium {

bool Trainer::State::takes_whole_steps() const {
  const Traits traits = device->traits();
  if (traits.step_workers == 0 || ranks() != 1) return false;
  // What gradients are multiplied by is known to the host alone, from all replicas' weights.
  if (program.is_weighted()) return false;
  // One program for examples of one length.
  if (lengths() > 1) return false;
  // Such a program has the same memory in every step, and carried values change places.
  if (!program.carried.empty()) return false;
  if (recipe.clip_norm != 0 && runs.count() == 0) return false;
  // One program for all devices: all have as many replicas.
  const auto count = std::ssize(workers);
  return count == 1 || (count <= traits.step_workers && recipe.replicas % count == 0);
}

// Whether each worker's replicas are one program, of which the rest of the step knows nothing: for
// several workers or ranks, or where items have weights.
bool Trainer::State::joins_replicas() const {
  return device->traits().joint_replicas && !takes_whole_steps() && lengths() == 1 &&
         program.carried.empty();
}

void Trainer::State::allocate_batch(Worker& worker) {
  const std::int64_t count = worker.replicas.size();
  worker.batch.examples = BatchMemory(*device, data.fields, count * replica_rows);
  worker.batch.places = Staging(*device, count * 2 * kWord);
}

void Trainer::State::prepare_whole_step() {
  for (Worker& worker : workers) prepare_all_replicas(worker);
  if (!takes_whole_steps()) return;
  const View sum = *workers[0].buffers[0];
  if (device->traits().complete_steps) whole_step.hash_wanted = Staging(*device, kWord);
  StepProgram step{.workers = {}, .sum = sum, .loss = sum.part(layout().loss_offset, kWord)};
  for (Worker& worker : workers) {
    allocate_batch(worker);
    step.workers.push_back(whole_step_of(worker, sum));
  }
  whole_step.program = device->compile_step(step);
}

// Each node of the tree has the buffer of its number.
void Trainer::State::prepare_all_replicas(Worker& worker) {
  if (!joins_replicas()) return;
  allocate_batch(worker);
  const View sum = *worker.buffers[0];
  ReplicasProgram all{.worker = worker.number,
                      .replicas = replica_calls(worker, sum),
                      .sum = sum,
                      .loss = sum.part(layout().loss_offset, kWord),
                      .losses = worker.results.view().part(0, worker.replicas.size() * kWord),
                      .sums = {},
                      .milestones = {}};
  for (std::size_t i = 0; i < worker.nodes.size(); ++i)
    all.sums.push_back(
        {.first = static_cast<std::size_t>(worker.nodes[i].begin - worker.replicas.begin),
         .count = static_cast<std::size_t>(worker.nodes[i].size()),
         .view = *worker.buffers[i]});
  for (const std::vector<std::int64_t>& cuts : shards.cuts)
    all.milestones.push_back(sum.part(cuts.front(), cuts.back() - cuts.front()));
  worker.all_replicas = device->compile_replicas(all);
}

void Trainer::compile_step() {
  if (state_->whole_step.program) state_->whole_step.program->compile();
}

// Bound to the worker's batch; what they write to flat memory goes to `sum`.
std::vector<Call> Trainer::State::replica_calls(Worker& worker, View sum) {
  ReplicaRun& run = worker.runs.front();
  const std::int64_t count = worker.replicas.size();
  const View results = worker.results.view();
  std::vector<Call> calls;
  for (std::int64_t i = 0; i < count; ++i) {
    bind_examples(run, worker.batch.examples, i * replica_rows,
                  worker.batch.places.view().part(i * 2 * kWord, 2 * kWord));
    for (const ReplicaRun::FlatOutput& output : run.flat_outputs)
      run.program.set_output(output.slot, sum.part(output.offset, output.bytes));
    for (std::size_t k = 0; k < run.count_slots.size(); ++k)
      run.program.set_output(
          run.count_slots[k],
          results.part(((static_cast<std::int64_t>(k) + 1) * count + i) * kWord, kWord));
    calls.push_back(run.program.call());
  }
  bind_examples(run, run.batch, 0, worker.place.view());
  return calls;
}

StepProgram::Worker Trainer::State::whole_step_of(Worker& worker, View sum) {
  StepProgram::Worker part{.replicas = replica_calls(worker, sum),
                           .losses = worker.results.view().part(0, worker.replicas.size() * kWord),
                           .updates = {},
                           .norm_values = {},
                           .hash_words = {},
                           .hash_wanted = {}};
  const auto add = [&](std::vector<Call>& calls, BoundExecutable& bound,
                       const std::vector<Shard::FlatInput>& inputs) {
    if (!bound) return;
    for (const Shard::FlatInput& input : inputs)
      bound.set_input(input.slot, sum.part(input.range.begin, input.range.bytes()));
    calls.push_back(bound.call());
  };
  for (Shard& shard : worker.shards) {
    // All workers' scalars are the same: those of the first go to all devices.
    if (shard.update) bind_scalars(shard, workers[0].scalars.view());
    add(part.updates, shard.update, shard.update_gradients);
    if (shard.update) bind_scalars(shard, worker.scalars.view());
    add(part.updates, shard.means, shard.mean_sums);
    if (shard.range.begin <= layout().loss_offset && layout().loss_offset < shard.range.end)
      add(part.updates, mean_loss, mean_loss_sum);
  }
  if (device->traits().complete_steps) {
    part.hash_words = worker.shards[0].hash_words.view();
    part.hash_wanted = whole_step.hash_wanted.view();
    if (worker.shards[0].hashes) part.hashes.push_back(worker.shards[0].hashes.call());
  }
  if (recipe.clip_norm == 0) return part;
  for (Shard& shard : worker.shards) {
    add(part.squares, shard.squares, shard.square_gradients);
    add(part.scales, shard.scale, shard.scale_values);
  }
  part.norm = worker.norm.call();
  part.norm_values = worker.norm_values.view();
  return part;
}

// Makes a worker's part of the batch of a step and sends it to the device, unless it is there.
void Trainer::State::send_batch(Worker& worker, std::int64_t step) {
  if (worker.batch.sent == step) return;
  const TraceSpan span(placement.trace, worker.lane, "batch of step", step);
  const Prefetcher::Batch* const ready = prefetcher ? &prefetcher->wait(step) : nullptr;
  const ReplicaRange own = worker.replicas;
  const std::int64_t count = own.size() * replica_rows;
  if (ready != nullptr) {
    std::vector<void*> from;
    for (std::size_t i = 0; i < data.fields.size(); ++i)
      from.push_back(
          const_cast<std::byte*>(static_cast<const std::byte*>(ready->fields[i].data())) +
          (own.begin - replicas.begin) * replica_rows * data.fields[i].bytes());
    worker.batch.examples.upload(*device, from);
  } else {
    loader->examples(step, own.begin * replica_rows, count, worker.batch.examples.host());
    worker.batch.examples.send();
  }
  for (std::int64_t i = 0; i < own.size(); ++i) {
    std::uint32_t* const place = worker.batch.places.host<std::uint32_t>() + 2 * i;
    place[0] = static_cast<std::uint32_t>(step);
    place[1] = static_cast<std::uint32_t>(own.begin + i);
  }
  worker.batch.places.send();
  worker.batch.sent = step;
}

void Trainer::State::forget_batches() {
  for (Worker& worker : workers) worker.batch.sent = -1;
}

// All nodes of the worker at once. What a bucket needs of others is under way while the device
// computes the next ones.
void Trainer::State::run_all_replicas(Worker& worker) {
  const auto start = Clock::now();
  send_batch(worker, done);
  worker.input_seconds += seconds_since(start);
  for (std::size_t i = 0; i < worker.nodes.size(); ++i) {
    Buffer* const buffer = worker.buffers[i].get();
    std::erase(worker.free_buffers, buffer);
    worker.held_buffers.push_back(buffer);
    exchange->publish(worker.nodes[i], *buffer);
  }
  if (ranks() > 1) exchange->finish_updates();
  const TraceSpan span(placement.trace, worker.lane, "all replicas", done);
  worker.all_replicas->run([&](std::size_t bucket) {
    if (bucket == 0) read_results(worker);
    const TraceSpan joins(placement.trace, worker.lane, "join bucket",
                          static_cast<std::int64_t>(bucket));
    exchange->complete(worker.number, static_cast<int>(bucket));
  });
  // While the device computes. Memory that the host shares with it would be in use.
  if (worker.batch.examples.view(0).host() == nullptr && done + 1 < total_steps)
    send_batch(worker, done + 1);
}

// Of a program that also hashes.
void Trainer::State::want_hashes(bool wanted) {
  const Staging& word = whole_step.hash_wanted;
  if (word.bytes() == 0 || whole_step.are_hashes_wanted == wanted) return;
  *word.host<std::uint32_t>() = wanted ? 1 : 0;
  word.send();
  whole_step.are_hashes_wanted = wanted;
}

void Trainer::State::run_whole_step(const StepOptions& options) {
  for (Worker& worker : workers) worker.input_seconds = worker.waiting_seconds = 0;
  Worker& first = workers[0];
  const auto start = Clock::now();
  for (Worker& worker : workers) send_batch(worker, done);
  first.input_seconds = seconds_since(start);
  want_hashes(options.hash);
  const TraceSpan span(placement.trace, first.lane, "whole step", done);
  whole_step.program->run();
  // While the device computes. Memory that the host shares with it would be in use.
  for (Worker& worker : workers)
    if (worker.batch.examples.view(0).host() == nullptr && done + 1 < total_steps)
      send_batch(worker, done + 1);
  for (Worker& worker : workers) read_results(worker);
  if (!losses_are_finite()) return;
  if (recipe.clip_norm != 0) {
    first.norm_values.receive();
    gradient_norm = first.norm_values.host<float>()[0];
    finite = std::isfinite(gradient_norm);
    if (!finite) return;
  }
  const bool are_hashed = whole_step.hash_wanted.bytes() > 0;
  for (Worker& worker : workers)
    for (Shard& shard : worker.shards)
      if (options.hash && shard.hashes && !are_hashed) shard.hashes.run();
  // A refused step's batch is still needed, to find out why.
  for (std::size_t i = 0; prefetcher && !is_repeated && i < workers.size(); ++i)
    prefetcher->release(done);
}

}  // namespace podium
