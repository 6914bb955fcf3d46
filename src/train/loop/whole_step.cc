// A step as one program of the device, where there is a device that takes it as such: for one
// worker with all replicas, or for several, each on a device of its own. The program is made of
// what the workers would run: their calls, bound to batches of their own.
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

void Trainer::State::prepare_whole_step() {
  if (!takes_whole_steps()) return;
  const View sum = *workers[0].buffers[0];
  if (device->traits().complete_steps) whole_step.hash_wanted = Staging(*device, kWord);
  StepProgram step{.workers = {}, .sum = sum, .loss = sum.part(layout().loss_offset, kWord)};
  for (Worker& worker : workers) {
    const std::int64_t count = worker.replicas.size();
    WholeStepState::Batch& batch = whole_step.batches.emplace_back();
    batch.examples = BatchMemory(*device, data.fields, count * replica_rows);
    batch.places = Staging(*device, count * 2 * kWord);
    step.workers.push_back(whole_step_of(worker, sum));
  }
  whole_step.program = device->compile_step(step);
}

void Trainer::compile_step() {
  if (state_->whole_step.program) state_->whole_step.program->compile();
}

StepProgram::Worker Trainer::State::whole_step_of(Worker& worker, View sum) {
  const WholeStepState::Batch& batch = whole_step.batches.back();
  ReplicaRun& run = worker.runs.front();
  const std::int64_t count = worker.replicas.size();
  const View results = worker.results.view();
  StepProgram::Worker part{.replicas = {},
                           .losses = results.part(0, count * kWord),
                           .updates = {},
                           .norm_values = {},
                           .hash_words = {},
                           .hash_wanted = {}};
  for (std::int64_t i = 0; i < count; ++i) {
    bind_examples(run, batch.examples, i * replica_rows,
                  batch.places.view().part(i * 2 * kWord, 2 * kWord));
    for (const ReplicaRun::FlatOutput& output : run.flat_outputs)
      run.program.set_output(output.slot, sum.part(output.offset, output.bytes));
    for (std::size_t k = 0; k < run.count_slots.size(); ++k)
      run.program.set_output(
          run.count_slots[k],
          results.part(((static_cast<std::int64_t>(k) + 1) * count + i) * kWord, kWord));
    part.replicas.push_back(run.program.call());
  }
  bind_examples(run, run.batch, 0, worker.place.view());
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

// Makes the batch of a step and sends it to the device, unless it is there.
void Trainer::State::send_batch(std::int64_t step) {
  if (whole_step.sent == step) return;
  const TraceSpan span(placement.trace, workers[0].lane, "batch of step", step);
  const Prefetcher::Batch* const ready = prefetcher ? &prefetcher->wait(step) : nullptr;
  for (std::size_t w = 0; w < workers.size(); ++w) {
    const ReplicaRange own = workers[w].replicas;
    WholeStepState::Batch& batch = whole_step.batches[w];
    const std::int64_t first = own.begin * replica_rows, count = own.size() * replica_rows;
    if (ready != nullptr) {
      std::vector<void*> from;
      for (std::size_t i = 0; i < data.fields.size(); ++i)
        from.push_back(
            const_cast<std::byte*>(static_cast<const std::byte*>(ready->fields[i].data())) +
            first * data.fields[i].bytes());
      batch.examples.upload(*device, from);
    } else {
      loader->examples(step, first, count, batch.examples.host());
      batch.examples.send();
    }
    for (std::int64_t i = 0; i < own.size(); ++i) {
      std::uint32_t* const place = batch.places.host<std::uint32_t>() + 2 * i;
      place[0] = static_cast<std::uint32_t>(step);
      place[1] = static_cast<std::uint32_t>(own.begin + i);
    }
    batch.places.send();
  }
  whole_step.sent = step;
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
  send_batch(done);
  first.input_seconds = seconds_since(start);
  want_hashes(options.hash);
  const TraceSpan span(placement.trace, first.lane, "whole step", done);
  whole_step.program->run();
  // While the device computes. Memory that the host shares with it would be in use.
  if (whole_step.batches[0].examples.view(0).host() == nullptr && done + 1 < total_steps)
    send_batch(done + 1);
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
