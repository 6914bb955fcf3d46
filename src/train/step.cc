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
#include <bit>
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

constexpr std::int64_t kWord = sizeof(float);

}  // namespace

// What a replica's program reads: its examples, and which step and replica it is.
void Trainer::State::bind_batch(Worker& worker, std::int64_t replica) {
  if (prefetcher) {
    const Prefetcher::Batch& batch = prefetcher->wait(done);
    const std::int64_t first = (replica - replicas.begin) * replica_images,
                       image = loader->set().image_bytes();
    const float* const images = batch.images.f32().data() + first * image;
    const std::int32_t* const labels = batch.labels.i32().data() + first;
    auto known = std::ranges::find(worker.adopted, &batch, &Worker::AdoptedBatch::batch);
    if (known == worker.adopted.end()) {
      const auto adopt = [&](const Tensor& tensor) {
        return device->adopt(const_cast<void*>(tensor.data()), tensor.type().bytes());
      };
      worker.adopted.push_back({&batch, adopt(batch.images), adopt(batch.labels)});
      known = worker.adopted.end() - 1;
    }
    if (known->images) {
      const std::int64_t image_bytes = worker.images.bytes(), label_bytes = worker.labels.bytes();
      const std::int64_t own = replica - replicas.begin;
      worker.program.set_input(worker.images_slot,
                               {*known->images, own * image_bytes, image_bytes});
      worker.program.set_input(worker.labels_slot,
                               {*known->labels, own * label_bytes, label_bytes});
    } else {
      device->upload(worker.images.view(), images);
      device->upload(worker.labels.view(), labels);
    }
  } else {
    loader->examples(done, replica * replica_images, replica_images, worker.images.host<float>(),
                     worker.labels.host<std::int32_t>());
    worker.images.send();
    worker.labels.send();
  }
  worker.place.host<std::uint32_t>()[0] = static_cast<std::uint32_t>(done);
  worker.place.host<std::uint32_t>()[1] = static_cast<std::uint32_t>(replica);
  worker.place.send();
}

void Trainer::State::run_replica(Worker& worker, std::int64_t replica, Buffer& buffer) {
  const auto start = Clock::now();
  bind_batch(worker, replica);
  worker.input_seconds += seconds_since(start);
  for (const Worker::FlatOutput& output : worker.flat_outputs)
    worker.program.set_output(output.slot, {buffer, output.offset, output.bytes});
  const View results = worker.results.view();
  const std::int64_t own = replica - worker.replicas.begin;
  worker.program.set_output(worker.correct_slot,
                            results.part((worker.replicas.size() + own) * kWord, kWord));
  worker.program.run();
  device->copy(results.part(own * kWord, kWord), {buffer, layout().loss_offset, kWord});
}

// The sum over a node of the tree that lies within this worker's replicas.
Buffer& Trainer::State::run_node(Worker& worker, ReplicaRange node) {
  if (node.size() == 1) {
    Buffer& buffer = *worker.free_buffers.back();
    worker.free_buffers.pop_back();
    run_replica(worker, node.begin, buffer);
    return buffer;
  }
  const std::int64_t middle = tree_middle(node.begin, node.end);
  Buffer& left = run_node(worker, {node.begin, middle});
  Buffer& right = run_node(worker, {middle, node.end});
  device->accumulate(left, right);
  worker.free_buffers.push_back(&right);
  return left;
}

// What the host looks at of its replicas' step; waits for the device.
void Trainer::State::read_results(Worker& worker) {
  worker.results.receive();
  const auto count = static_cast<std::size_t>(worker.replicas.size()),
             first = static_cast<std::size_t>(worker.replicas.begin);
  for (std::size_t i = 0; i < count; ++i) {
    losses[first + i] = worker.results.host<float>()[i];
    correct[first + i] = worker.results.host<std::int32_t>()[count + i];
  }
}

// Inputs that lie in the sum over all replicas.
void Trainer::State::bind_sums(BoundExecutable& bound,
                               const std::vector<Worker::FlatInput>& inputs) const {
  for (const Worker::FlatInput& input : inputs)
    bound.set_input(input.slot, exchange->sums(input.range.begin, input.range.end));
}

void Trainer::State::update_shard(Worker& worker, const StepOptions& options) {
  if (options.update_parameters) {
    bind_sums(worker.update, worker.update_gradients);
    worker.update.run();
  }
  if (worker.means) {
    bind_sums(worker.means, worker.mean_sums);
    worker.means.run();
  }
  if (options.hash && worker.hashes) worker.hashes.run();
}

// At the barrier, while others are busy; helps them after `patience` seconds.
void Trainer::State::wait_for_others(Worker& worker, double patience) {
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

void Trainer::State::run_part(std::int64_t index, Part part, const StepOptions& options) {
  Worker& worker = workers[static_cast<std::size_t>(index)];
  if (part != Part::kUpdate) {
    worker.input_seconds = worker.waiting_seconds = 0;
    release_buffers(worker);  // of gradients that nobody has made an update from
    for (const ReplicaRange node : largest_nodes(recipe.replicas, worker.replicas)) {
      Buffer& sum = run_node(worker, node);
      worker.held_buffers.push_back(&sum);
      exchange->publish(node, sum);
    }
    read_results(worker);
    const bool has_less = std::ranges::any_of(workers, [&](const Worker& other) {
      return other.replicas.size() > worker.replicas.size();
    });
    wait_for_others(worker, has_less ? 0 : kPatience);
  }

  // With the sums come the losses of other ranks.
  if (part != Part::kUpdate) exchange->sum(worker.number);
  // Every worker sees the same losses, so all refuse the update or none does.
  bool updates = losses_are_finite();
  if (updates && part == Part::kGradients) return;  // the sums stay where they are
  if (updates && options.update_parameters && recipe.clip_norm != 0)
    updates = clip_gradients(worker);
  if (updates) {
    update_shard(worker, options);
  } else if (index == 0) {
    finite = false;
  }
  wait_for_others(worker, 0);
  release_buffers(worker);
  // A refused step's batch is still needed, to find out why.
  if (prefetcher && updates) prefetcher->release(done);
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
    if (const auto found = worker.program.find_non_finite()) return *found;
  }
  return "";
}

std::string StepResult::divergence() const {
  return cat(std::isfinite(loss) ? "the norm of the gradients" : "the loss",
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
    if (!worker.hashes) continue;
    worker.hash_words.receive();
    for (std::size_t i = 0; i < worker.hashed.size(); ++i) {
      const std::uint32_t* const words = worker.hash_words.host<std::uint32_t>() + 2 * i;
      sums[worker.hashed[i]] += std::uint64_t{words[1]} << 32 | words[0];
    }
  }
}

// The mean loss, where the sum over all replicas is in this rank.
float Trainer::State::total_loss() {
  mean_loss.bind_input("sum/0", exchange->sums(layout().loss_offset, layout().loss_offset + kWord));
  mean_loss.run();
  mean_loss_value.receive();
  return *mean_loss_value.host<float>();
}

// After an update: all ranks get what the others updated, the loss, and the hash of all parameters.
void Trainer::State::share_updates(const StepOptions& options, StepResult& result) {
  const std::size_t count = layout().parameters.size();
  std::uint64_t* const mine = tail(exchange->rank());
  std::fill_n(mine, count + 1, 0);
  if (options.hash) add_hashes(mine);
  int holder = 0;  // of the sum of all losses
  while (shards.end(holder) <= layout().loss_offset) ++holder;
  if (holder == exchange->rank()) mine[count] = std::bit_cast<std::uint32_t>(total_loss());
  exchange->share();
  result.loss = std::bit_cast<float>(static_cast<std::uint32_t>(tail(holder)[count]));
  for (std::size_t i = 0; options.hash && i < count; ++i) {
    std::uint64_t sum = 0;
    for (int rank = 0; rank < ranks(); ++rank) sum += tail(rank)[i];
    const auto elements = static_cast<std::uint64_t>(layout().parameters[i].elements());
    result.hash = hash_append(result.hash, hash_tensor(sum, elements));
  }
}

StepResult Trainer::State::make(Part part, const StepOptions& options) {
  const auto start = Clock::now();
  StepResult result;
  const StepInRun at{done, loader->steps_per_epoch(), total_steps};
  result.learning_rate = learning_rate_at(recipe.optimizer, recipe.schedule, at);
  const std::vector<float> scalars = optimizers.scalar_values(recipe.schedule, at);
  for (Worker& worker : workers) {
    std::ranges::copy(scalars, worker.scalars.host<float>());
    worker.scalars.send();
  }
  parameter_mirror.push();
  if (part == Part::kUpdate) gradient_mirror.push();
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
  result.loss = NAN;
  result.gradient_norm = gradient_norm;
  if (!losses_are || !finite) {
    if (losses_are) {
      exchange->gather_sums();
      result.loss = total_loss();
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
    result.loss = total_loss();
    float* const total = gradient_mirror.open(*device, exchange->sums(0, layout().bytes));
    gradient_spans = spans_of(total, true);
  } else {
    ++done;
    share_updates(options, result);
    parameter_mirror.pull();
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

std::span<const TensorSpan> Trainer::parameters() {
  State& s = *state_;
  if (!s.parameter_mirror.is_open())
    s.parameter_spans = s.spans_of(s.parameter_mirror.open(*s.device, *s.parameters), false);
  return s.parameter_spans;
}

void Trainer::State::require_gradients(const char* call) const {
  PODIUM_REQUIRE(gradients_ready, ExitCode::kUsage, call, ": the gradients of step ", done + 1,
                 " have not been computed; call compute_gradients() first");
}

}  // namespace podium
