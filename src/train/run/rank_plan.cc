#include "train/run/rank_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "backend/planning_device.h"
#include "data/datasets/dataset.h"
#include "data/pictures/pictures.h"
#include "data/text/text.h"
#include "train/loop/trainer_state.h"
#include "train/machine/environment.h"
#include "train/run/run.h"

namespace podium {
namespace {

// What an index takes for a picture: its numbers, and a name of about as many letters.
constexpr std::int64_t kIndexBytes = 64;

// Knows how many ranks there are. Nothing is sent.
class PlannedRanks : public Transport {
 public:
  PlannedRanks(int rank, std::size_t ranks) {
    set_ranks(rank, std::vector<std::string>(ranks, "plan"));
  }
  void start(int, std::span<const Message>, std::span<const Message>) override { refuse(); }
  Clock::time_point wait(int) override { refuse(); }
  bool arrived(int) override { refuse(); }
  void at(std::int64_t, const char*) override {}
  [[noreturn]] void abort(const std::string&, ExitCode) override { refuse(); }
  void leave() override {}
  bool has_left() const override { return true; }

 private:
  [[noreturn]] static void refuse() {
    throw InternalError(__FILE__, __LINE__, "ranks that are only planned were sent something");
  }
};

// Calls visit(name, kind of memory, runs in a step, runs for a batch of evaluation, plan) for each
// program of a worker.
template <typename Visit>
void visit_programs(const Worker& worker, const Visit& visit) {
  const auto program = [&](const char* name, std::int64_t MemoryUse::*kind, std::int64_t step,
                           std::int64_t evaluation, const BoundExecutable& bound) {
    if (bound) visit(name, kind, step, evaluation, bound.executable().plan());
  };
  program("replica", &MemoryUse::training_activations, worker.replicas.size(), 0,
          worker.runs.back().program);
  for (const Shard& shard : worker.shards)
    program("squares", &MemoryUse::gradients, 1, 0, shard.squares);
  program("norm", &MemoryUse::gradients, 1, 0, worker.norm);
  for (const Shard& shard : worker.shards) {
    program("scale", &MemoryUse::gradients, 1, 0, shard.scale);
    program("update", &MemoryUse::optimizer, 1, 0, shard.update);
    program("means", &MemoryUse::statistics, 1, 0, shard.means);
    program("hashes", &MemoryUse::parameters, 1, 0, shard.hashes);
  }
  worker.evaluation->visit_programs([&](const char* name, std::int64_t runs, const Plan& plan) {
    visit(name, &MemoryUse::evaluation_activations, 0, runs, plan);
  });
  program("evaluation loss", &MemoryUse::evaluation_activations, 0, 1, worker.evaluation_loss);
}

}  // namespace

DataShape stated_shape(const Recipe& recipe) {
  PODIUM_CHECK(!has_rows(recipe), "the shape follows from the file");
  if (has_text(recipe))
    return {.fields = text_fields(recipe.text.context, recipe.text.vocabulary),
            .training = recipe.train_examples,
            .held_out = recipe.test_examples,
            .order = VisitOrder::kPermuted};
  if (has_pictures(recipe)) {
    return {.fields = image_fields(3, recipe.pictures.size, recipe.pictures.size,
                                   recipe.pictures.classes),
            .training = recipe.train_examples,
            .held_out = recipe.test_examples,
            .is_slow = true,
            .example_bytes = kIndexBytes};
  }
  const DatasetInfo& info = find_dataset(recipe.data);
  const auto stated = [](std::int64_t asked, std::int64_t own) { return asked != 0 ? asked : own; };
  DataShape shape{.fields = image_fields(info.channels, info.height, info.width, info.classes,
                                         info.class_names),
                  .training = stated(recipe.train_examples, info.train_examples),
                  .held_out = stated(recipe.test_examples, info.test_examples)};
  if (recipe.validation != 0) {
    shape.held_out = recipe.validation;
    shape.training -= recipe.validation;
  }
  // A byte for each value, and the labels.
  constexpr auto kLabel = static_cast<std::int64_t>(sizeof(std::int32_t));
  shape.example_bytes = info.channels * info.height * info.width + kLabel;
  return shape;
}

DataShape shape_of(const Source& train, const Source& held_out) {
  DataShape shape{.fields = train.fields(),
                  .training = train.examples(),
                  .held_out = held_out.examples(),
                  .is_slow = train.is_slow(),
                  .order = train.order(),
                  .buckets = train.bucket_lengths()};
  const std::int64_t bytes = train.memory_bytes() + held_out.memory_bytes(),
                     examples = std::max<std::int64_t>(1, shape.training + shape.held_out);
  shape.example_bytes = bytes / examples;
  if (bytes != shape.bytes()) shape.set_bytes = bytes;
  return shape;
}

std::int64_t DataShape::row_bytes() const {
  return std::accumulate(fields.begin(), fields.end(), std::int64_t{0},
                         [](std::int64_t sum, const Field& field) { return sum + field.bytes(); });
}

std::int64_t DataShape::input_bytes() const {
  std::int64_t sum = 0;
  for (const Field& field : fields) sum += field.target ? 0 : field.bytes();
  return sum;
}

PlannedData planned_data(const Recipe& recipe, const std::string& data_dir) {
  const bool text = has_text(recipe);
  if (!has_files(recipe)) return {stated_shape(recipe), ""};
  try {
    if (text) static_cast<void>(find_text(recipe.pictures.path, data_dir));
    if (text && !recipe.text.held_out_path.empty())
      static_cast<void>(find_text(recipe.text.held_out_path, data_dir));
    if (has_pictures(recipe)) static_cast<void>(find_pictures(recipe.pictures.path, data_dir));
  } catch (const UserError& error) {
    const DataShape shape = stated_shape(recipe);
    const std::int64_t below = text ? recipe.text.vocabulary : recipe.pictures.classes;
    const char* const what = text ? "tokens" : "classes";
    if (shape.training == 0 || shape.held_out == 0 || below == 0)
      throw UserError(
          cat(error.what(), "; or, to plan without ", text ? "it" : "them", ", say how many ",
              text ? "windows " : "",
              "there are to train on and to evaluate: train_examples=N test_examples=N ",
              text ? "data.vocabulary=N" : "data.classes=N"),
          error.code());
    return {shape,
            cat(text ? "the text " : "the pictures ", recipe.pictures.path, text ? " was" : " were",
                " not found; planned for what the recipe states: ", shape.training,
                " to train on, ", shape.held_out, " to evaluate, ", below, " ", what)};
  }
  const RunData data = load_data(recipe, data_dir);
  static_cast<void>(with_counts(recipe, data));
  return {shape_of(*data.train, *data.held_out), ""};
}

MemoryUse& MemoryUse::operator+=(const MemoryUse& other) {
  for (const MemoryKind& kind : kMemoryKinds) this->*kind.bytes += other.*kind.bytes;
  return *this;
}

std::int64_t MemoryUse::total() const {
  std::int64_t sum = 0;
  for (const MemoryKind& kind : kMemoryKinds) sum += this->*kind.bytes;
  return sum;
}

MemoryUse RankPlan::memory() const {
  MemoryUse all = shared;
  for (const WorkerPlan& worker : workers) all += worker.memory;
  return all;
}

MemoryUse RankPlan::memory_of_device(int devices) const {
  const int used = std::min(devices, static_cast<int>(workers.size()));
  if (used <= 1) return memory();
  MemoryUse fullest;
  for (int device = 0; device < used; ++device) {
    MemoryUse own = shared;
    // Where workers share devices, each of these has all of it.
    if (used == std::ssize(workers)) own.optimizer = (own.optimizer + used - 1) / used;
    for (std::size_t w = static_cast<std::size_t>(device); w < workers.size();
         w += static_cast<std::size_t>(used))
      own += workers[w].memory;
    if (own.on_device() > fullest.on_device()) fullest = own;
  }
  return fullest;
}

// Of devices with memory of their own, what a worker gets of the others' sums: its shard of each,
// or, where workers share devices, room for all of it.
std::int64_t Trainer::State::fetched_bytes(const Worker& worker) const {
  const Traits traits = device->traits();
  if (traits.devices <= 1 || traits.memory_bytes == 0) return 0;
  std::int64_t shard_bytes = 0, nodes = 0;
  for (const Shard& shard : worker.shards) shard_bytes += shard.range.bytes();
  if (std::ssize(workers) > traits.devices) shard_bytes = layout().bytes;
  for (const Worker& other : workers) nodes += &other == &worker ? 0 : std::ssize(other.nodes);
  return nodes * shard_bytes;
}

MemoryUse Trainer::State::memory_of(const Worker& worker) const {
  MemoryUse use;
  use.exchange = fetched_bytes(worker);
  visit_programs(worker, [&](const char*, std::int64_t MemoryUse::*kind, std::int64_t, std::int64_t,
                             const Plan& plan) { use.*kind += plan.arena_bytes; });
  for (const auto& buffer : worker.buffers) use.gradients += buffer->bytes();
  for (const ReplicaRun& run : worker.runs) {
    use.batches += run.batch.bytes();
    if (&run != &worker.runs.back())
      use.training_activations += run.program.executable().plan().arena_bytes;
  }
  if ((takes_whole_steps() && device->traits().replicas_together) || joins_replicas()) {
    // Instead of one replica at a time; and what each of several adds to the sum.
    const std::int64_t count = worker.replicas.size();
    use.training_activations +=
        (count - 1) * worker.runs.back().program.executable().plan().arena_bytes;
    if (count > 1) use.gradients += count * worker.buffers[0]->bytes();
  }
  use.gradients += worker.norm_values.bytes() + worker.correction.bytes() + worker.results.bytes();
  use.optimizer += worker.scalars.bytes();
  for (const Shard& shard : worker.shards) use.parameters += shard.hash_words.bytes();
  use.batches += worker.batch.examples.bytes() + worker.batch.places.bytes();
  use.batches +=
      worker.place.bytes() + worker.evaluation->batch_bytes() + worker.evaluation_batch.bytes();
  for (const auto& [name, memory] : worker.scores) use.batches += memory.bytes();
  return use;
}

MemoryUse Trainer::State::shared_memory() const {
  MemoryUse use;
  use.parameters = parameters->bytes();
  use.statistics = statistics->bytes();
  use.carried = carried.bytes();
  for (const auto& state : states) use.optimizer += state->bytes();
  use.gradients = mean_loss_value.bytes() + mean_loss.executable().plan().arena_bytes +
                  (squares ? squares->bytes() : 0);
  use.exchange = exchange->buffer_bytes();
  use.batches += whole_step.hash_wanted.bytes();
  if (placement.input_threads > 0) {
    const PrefetchOptions options = prefetch_options();
    use.batches += options.depth * options.examples * data.row_bytes();
  }
  for (const DeviceTensor& place : places()) use.checkpoint += place.type.bytes();
  for (const FlatEntry& entry : program.carried) use.checkpoint += all_carried(entry).bytes();
  // Before, and after both times; what another backend computes beside the steps was computed from
  // the second, and it reads a third.
  if (recipe.audit_every_steps != 0) use.checkpoint *= recipe.audit_backend == "none" ? 3 : 5;
  use.data = data.bytes() + placement.keep_decoded;
  return use;
}

MemoryUse Trainer::memory_use() const {
  MemoryUse use = state_->shared_memory();
  for (const Worker& worker : state_->workers) use += state_->memory_of(worker);
  if (!state_->whole_step.program) return use;
  const ProgramMemory step = state_->whole_step.program->memory();
  if (step.total() == 0) return use;
  use.training_activations = std::ssize(state_->workers) * (step.temporary + step.results);
  use.gradients = 0;
  return use;
}

RankPlan Trainer::State::plan() const {
  RankPlan plan{.shared = shared_memory(), .workers = {}, .evaluation_batch = evaluation_batch};
  for (const Worker& worker : workers) {
    WorkerPlan& own = plan.workers.emplace_back(
        WorkerPlan{.replicas = worker.replicas, .memory = memory_of(worker), .programs = {}});
    visit_programs(worker, [&](const char* name, std::int64_t MemoryUse::*, std::int64_t step,
                               std::int64_t evaluation, const Plan& its) {
      own.programs.push_back({name, step, evaluation, its});
    });
  }
  return plan;
}

RankPlan plan_rank(const Recipe& recipe, const Model& model, const DataShape& data,
                   const Placement& placement, const std::vector<int>& workers, int rank,
                   StopToken stop) {
  PlannedRanks ranks(rank, workers.size());
  Trainer::State state(recipe);
  state.model = model;
  state.data = data;
  state.placement = placement;
  state.placement.workers = workers[static_cast<std::size_t>(rank)];
  state.placement.ranks = workers.size() == 1 ? nullptr : &ranks;
  state.resolve_placement(workers);
  const Placement& resolved = state.placement;
  state.device =
      std::make_unique<PlanningDevice>(make_device(resolved.backend, device_options(resolved)));
  state.precision = precision_on(*state.device, recipe);
  state.start_input_threads();
  state.build_program();
  state.allocate_values();
  state.make_workers(stop);
  state.prepare_evaluation();
  RankPlan plan = state.plan();
  plan.program_bytes = resident_memory_bytes();
  return plan;
}

std::string whole_step_text(const Recipe& recipe, const Model& model, const DataShape& data,
                            const Placement& placement, std::unique_ptr<Device> device) {
  Trainer::State state(recipe);
  state.model = model;
  state.data = data;
  state.placement = placement;
  state.resolve_placement();
  state.device = std::move(device);
  state.precision = precision_on(*state.device, recipe);
  state.build_program();
  state.allocate_values();
  state.make_workers({});
  PODIUM_REQUIRE(state.whole_step.program, ExitCode::kUsage, "recipe ", recipe.name,
                 ": its step is not one program on ", state.device->description(),
                 " with --workers ", state.placement.workers,
                 "; that needs as many replicas for each device");
  return state.whole_step.program->text();
}

}  // namespace podium
