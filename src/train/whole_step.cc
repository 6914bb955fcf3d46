// A step as one program of the device, where there is a device that takes it as such and one worker
// with all replicas. The program is made of what the worker would run: its calls, bound to batches
// of their own.
#include "base/clock.h"
#include "train/trainer_state.h"

namespace podium {

void Trainer::State::prepare_whole_step() {
  // Clipping decides on the host whether a step updates.
  if (!device->traits().whole_steps || workers.size() != 1 || ranks() != 1 || recipe.clip_norm != 0)
    return;
  Worker& worker = workers[0];
  const std::int64_t image_bytes = worker.images.bytes(), label_bytes = worker.labels.bytes();
  whole_step.images = Staging(*device, recipe.replicas * image_bytes);
  whole_step.labels = Staging(*device, recipe.replicas * label_bytes);
  whole_step.places = Staging(*device, recipe.replicas * 2 * kWord);
  const View sum = *worker.buffers[0];
  StepProgram step{.replicas = {},
                   .sum = sum,
                   .loss = sum.part(layout().loss_offset, kWord),
                   .losses = worker.results.view().part(0, recipe.replicas * kWord),
                   .updates = {}};
  for (std::int64_t i = 0; i < recipe.replicas; ++i) {
    bind_examples(worker, whole_step.images.view().part(i * image_bytes, image_bytes),
                  whole_step.labels.view().part(i * label_bytes, label_bytes),
                  whole_step.places.view().part(i * 2 * kWord, 2 * kWord));
    for (const Worker::FlatOutput& output : worker.flat_outputs)
      worker.program.set_output(output.slot, sum.part(output.offset, output.bytes));
    worker.program.set_output(worker.correct_slot,
                              worker.results.view().part((recipe.replicas + i) * kWord, kWord));
    step.replicas.push_back(worker.program.call());
  }
  bind_examples(worker, worker.images.view(), worker.labels.view(), worker.place.view());
  const auto add = [&](BoundExecutable& bound, const std::vector<Shard::FlatInput>& inputs) {
    if (!bound) return;
    for (const Shard::FlatInput& input : inputs)
      bound.set_input(input.slot, sum.part(input.range.begin, input.range.bytes()));
    step.updates.push_back(bound.call());
  };
  for (Shard& shard : worker.shards) {
    add(shard.update, shard.update_gradients);
    add(shard.means, shard.mean_sums);
  }
  add(mean_loss, mean_loss_sum);
  whole_step.program = device->compile_step(step);
}

// Makes the batch of a step and sends it to the device, unless it is there.
void Trainer::State::send_batch(std::int64_t step) {
  if (whole_step.sent == step) return;
  const TraceSpan span(placement.trace, workers[0].lane, "batch of step", step);
  if (prefetcher) {
    const Prefetcher::Batch& batch = prefetcher->wait(step);
    device->upload(whole_step.images.view(), batch.images.data());
    device->upload(whole_step.labels.view(), batch.labels.data());
  } else {
    loader->examples(step, 0, recipe.batch, whole_step.images.host<float>(),
                     whole_step.labels.host<std::int32_t>());
    whole_step.images.send();
    whole_step.labels.send();
  }
  for (std::int64_t i = 0; i < recipe.replicas; ++i) {
    std::uint32_t* const place = whole_step.places.host<std::uint32_t>() + 2 * i;
    place[0] = static_cast<std::uint32_t>(step);
    place[1] = static_cast<std::uint32_t>(i);
  }
  whole_step.places.send();
  whole_step.sent = step;
}

void Trainer::State::run_whole_step(const StepOptions& options) {
  Worker& worker = workers[0];
  worker.input_seconds = worker.waiting_seconds = 0;
  const auto start = Clock::now();
  send_batch(done);
  worker.input_seconds = seconds_since(start);
  const TraceSpan span(placement.trace, worker.lane, "whole step", done);
  whole_step.program->run();
  // While the device computes. Memory that the host shares with it would be in use.
  if (whole_step.images.view().host() == nullptr && done + 1 < total_steps) send_batch(done + 1);
  read_results(worker);
  if (!losses_are_finite()) return;
  for (Shard& shard : worker.shards)
    if (options.hash && shard.hashes) shard.hashes.run();
  // A refused step's batch is still needed, to find out why.
  if (prefetcher) prefetcher->release(done);
}

}  // namespace podium
