#include "train/trainer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "base/contract.h"
#include "base/hash.h"
#include "base/thread_pool.h"
#include "train/trainer_state.h"
#include "train/whitening.h"

namespace podium {
namespace {

constexpr const char* kDataKey = "training_data";
constexpr const char* kEvaluationDataKey = "evaluation_data";

std::string shapes_differ(const std::string& name, const Shape& expected, const Tensor* found) {
  return found == nullptr ? cat("has no tensor \"", name, "\"")
                          : cat("has \"", name, "\" as ", to_string(found->type()),
                                ", this recipe's model needs ", to_string(expected));
}

}  // namespace

std::int64_t default_workers(std::int64_t replicas) {
  return std::clamp<std::int64_t>(usable_cores(), 1, replicas);
}

WorkerThreads::WorkerThreads(std::int64_t workers, std::function<void()> on_failure)
    : on_failure_(std::move(on_failure)) {
  start_threads(
      threads_, workers, [this](std::int64_t worker) { serve(worker); }, [this] { stop(); });
}

WorkerThreads::~WorkerThreads() { stop(); }

void WorkerThreads::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    ++job_;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerThreads::call(std::int64_t worker) {
  try {
    (*work_)(worker);
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
    on_failure_();
  }
}

void WorkerThreads::run(const std::function<void(std::int64_t)>& work) {
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    error_ = nullptr;
    busy_ = static_cast<std::int64_t>(threads_.size());
    ++job_;
  }
  wake_.notify_all();
  call(0);
  while (busy_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  if (error_) std::rethrow_exception(error_);
}

void WorkerThreads::serve(std::int64_t worker) {
  std::uint64_t seen = 0;
  while (true) {
    constexpr int kSpins = 2000;
    for (int spin = 0; spin < kSpins && job_.load(std::memory_order_acquire) == seen; ++spin)
      std::this_thread::yield();
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return job_.load() != seen; });
      seen = job_.load();
      if (stop_) return;
    }
    call(worker);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

// --- construction

namespace {

// Whole tensors and runs of them, in shards that differ by one alignment at most, but that an
// optimizer of matrices wants them whole. A shard's bounds are even, as the hash needs, and no
// result depends on them.
void cut_shards(std::vector<Worker>& workers, const FlatLayout& layout,
                const Optimizers& optimizers) {
  const auto count = static_cast<std::int64_t>(workers.size());
  const std::int64_t units = layout.floats / kFlatAlign;
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t end = units * (i + 1) / count * kFlatAlign;
    for (const FlatEntry& entry : layout.parameters) {
      const std::int64_t last =
          (entry.offset + entry.elements() + kFlatAlign - 1) / kFlatAlign * kFlatAlign;
      if (entry.offset < end && end < last && needs_matrices(optimizers.of(entry)))
        end = end - entry.offset < last - end ? entry.offset : last;
    }
    end = std::max(begin, end);
    workers[static_cast<std::size_t>(i)].shard_begin = begin;
    workers[static_cast<std::size_t>(i)].shard_end = end;
    begin = end;
  }
}

// How many sums of nodes a worker holds at once at most.
std::int64_t buffers_needed(std::int64_t replicas, ReplicaRange range) {
  std::int64_t most = 0, held = 0;
  for (const ReplicaRange node : largest_nodes(replicas, range)) {
    std::int64_t depth = 1;
    for (std::int64_t size = 1; size < node.size(); size *= 2) ++depth;
    most = std::max(most, held + depth);
    ++held;
  }
  return std::max<std::int64_t>(most, 1);
}

}  // namespace

Trainer::Trainer(Recipe recipe_value, Model model, std::shared_ptr<const ImageSet> train,
                 std::shared_ptr<const ImageSet> held_out, Placement placement_value,
                 StopToken stop)
    : state_(std::make_unique<State>(std::move(recipe_value))) {
  State& s = *state_;
  s.model = std::move(model);
  s.placement = std::move(placement_value);
  if (s.placement.workers == 0) s.placement.workers = default_workers(s.recipe.replicas);
  PODIUM_REQUIRE(
      s.placement.workers >= 1 && s.placement.workers <= s.recipe.replicas, ExitCode::kUsage,
      "--workers ", s.placement.workers, ": a run of ", s.recipe.replicas, " replicas has 1 to ",
      s.recipe.replicas,
      " workers (a worker runs whole replicas); use --threads to give a worker more cores");
  const auto require_threads = [](const char* flag, int threads, int least) {
    // Far more than cores would only wait for each other, and each has scratch memory of its own.
    const int most = std::max(64, 4 * usable_cores());
    PODIUM_REQUIRE(threads >= least && threads <= most, ExitCode::kUsage, flag, " ", threads, ": ",
                   least, " to ", most, " on this machine, where podium may use ", usable_cores(),
                   " cores");
  };
  require_threads("--threads", s.placement.threads, 1);
  require_threads("--input-threads", s.placement.input_threads, 0);
  PODIUM_REQUIRE(s.recipe.batch % s.recipe.replicas == 0, ExitCode::kUsage,
                 "batch = ", s.recipe.batch, " is not divisible by replicas = ", s.recipe.replicas);
  s.backend = make_backend(s.placement.backend);
  s.held_out = std::move(held_out);
  s.replica_images = s.recipe.batch / s.recipe.replicas;
  PODIUM_REQUIRE(s.held_out->channels == train->channels && s.held_out->height == train->height &&
                     s.held_out->width == train->width && s.held_out->classes == train->classes,
                 ExitCode::kUsage, "the training set (", train->source, ") and the held-out one (",
                 s.held_out->source, ") differ in the shape or the classes of their images");
  const ReplicaInputs inputs{.image = Shape{train->channels, train->height, train->width},
                             .images = s.replica_images,
                             .classes = train->classes};
  s.loader = std::make_shared<const Loader>(std::move(train),
                                            LoaderOptions{.seed = s.recipe.seed,
                                                          .batch = s.recipe.batch,
                                                          .augment = s.recipe.augment,
                                                          .normalise = s.recipe.normalise});
  s.held_out_loader =
      std::make_unique<Loader>(s.held_out, LoaderOptions{.normalise = s.recipe.normalise});
  s.total_steps =
      s.recipe.steps != 0 ? s.recipe.steps : s.recipe.epochs * s.loader->steps_per_epoch();

  try {
    s.program = build_replica_program(s.model, inputs, s.recipe.seed, s.recipe.batch,
                                      s.recipe.label_smoothing, false, s.optimizers);
  } catch (const UserError& error) {
    // An operation's rule knows nothing of recipes.
    throw UserError(cat("recipe ", s.recipe.name, " (batch = ", s.recipe.batch,
                        ", replicas = ", s.recipe.replicas, ", so a replica has ", s.replica_images,
                        s.replica_images == 1 ? " image" : " images", "): ", error.what()),
                    error.code());
  }
  const FlatLayout& layout = s.layout();
  s.optimizers.require_parameters(layout, s.recipe.model);
  s.parameters = AlignedBytes(float_bytes(layout.parameter_floats));
  s.statistics =
      AlignedBytes(float_bytes(layout.loss_offset - layout.parameter_floats + kFlatAlign));
  for (std::size_t i = 0; i < s.optimizers.states(); ++i)
    s.states.emplace_back(float_bytes(layout.parameter_floats));
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const Parameter& parameter = s.program.parameters[i];
    const Tensor start =
        parameter.initialiser == Initialiser::kWhitening
            ? whitening_filters(parameter, *s.loader, stop)
            : initial_value(parameter, s.recipe.seed, static_cast<std::uint32_t>(i));
    std::memcpy(s.parameter_data() + layout.parameters[i].offset, start.data(),
                float_bytes(start.elements()));
  }
  for (std::size_t i = 0; i < layout.statistics.size(); ++i) {
    std::fill_n(s.statistic_data() + layout.statistics[i].offset - layout.parameter_floats,
                layout.statistics[i].elements(), s.program.statistic_starts[i]);
  }
  s.losses.resize(static_cast<std::size_t>(s.recipe.replicas));
  s.correct.resize(static_cast<std::size_t>(s.recipe.replicas));

  const CompileOptions options{
      .threads = s.placement.threads,
      .guests = static_cast<int>(std::min(s.placement.workers - 1, kMostGuests))};
  CompileOptions of_update = options;
  of_update.shared_outputs = s.placement.workers > 1 || s.placement.threads > 1;
  s.workers.resize(static_cast<std::size_t>(s.placement.workers));
  cut_shards(s.workers, layout, s.optimizers);
  for (std::size_t w = 0; w < s.workers.size(); ++w) {
    stop.check();
    Worker& worker = s.workers[w];
    worker.replicas =
        replicas_of_worker(s.recipe.replicas, s.placement.workers, static_cast<std::int64_t>(w));
    worker.program = s.backend->compile(s.program.graph, options);
    if (s.placement.input_threads == 0) {
      worker.images = AlignedBytes(float_bytes(s.replica_images * inputs.image.elements()));
      worker.labels = AlignedBytes(float_bytes(s.replica_images));
    }
    for (std::int64_t i = buffers_needed(s.recipe.replicas, worker.replicas); i > 0; --i) {
      worker.buffers.emplace_back(float_bytes(layout.floats));
      worker.free_buffers.push_back(reinterpret_cast<float*>(worker.buffers.back().data()));
    }
    worker.inputs = {worker.images.data(), worker.labels.data(), &worker.step, &worker.replica};
    for (const FlatEntry& entry : layout.parameters)
      worker.inputs.push_back(s.parameter_data() + entry.offset);
    for (const FlatEntry& entry : layout.statistics)
      worker.inputs.push_back(s.statistic_data() + entry.offset - layout.parameter_floats);
    worker.outputs.resize(s.program.graph.outputs().size());

    UpdateProgram update = build_update_program(layout, s.optimizers, s.recipe.replicas,
                                                worker.shard_begin, worker.shard_end);
    worker.update = s.backend->compile(update.graph, of_update);
    worker.pieces = std::move(update.pieces);
    worker.scalars.resize(s.optimizers.scalars().size());
    worker.hash_sums.resize(layout.parameters.size());
    for (float& scalar : worker.scalars) worker.update_inputs.push_back(&scalar);
    for (const UpdatePiece& piece : worker.pieces) {
      worker.update_inputs.push_back(s.parameter_data() + piece.begin);
      worker.gradient_inputs.push_back(worker.update_inputs.size());
      worker.update_inputs.push_back(nullptr);  // known after the exchange
      worker.update_outputs.push_back(s.parameter_data() + piece.begin);
      const auto own = optimizer_states(s.optimizers.options[piece.optimizer]).size();
      for (std::size_t i = 0; i < own; ++i) {
        worker.update_inputs.push_back(s.state_data(i) + piece.begin);
        worker.update_outputs.push_back(s.state_data(i) + piece.begin);
      }
    }
  }
  s.exchange = std::make_unique<ThreadExchange>(*s.backend, s.recipe.replicas, s.placement.workers);
  s.threads = std::make_unique<WorkerThreads>(s.placement.workers,
                                              [&s] { s.exchange->barrier().abandon(); });
  prepare_evaluation();
}

Trainer::~Trainer() = default;

const Recipe& Trainer::recipe() const { return state_->recipe; }
const Placement& Trainer::placement() const { return state_->placement; }
Backend& Trainer::backend() const { return *state_->backend; }
std::int64_t Trainer::evaluation_batch() const { return state_->evaluation_batch; }
std::int64_t Trainer::steps_per_epoch() const { return state_->loader->steps_per_epoch(); }
std::int64_t Trainer::total_steps() const { return state_->total_steps; }
const FlatLayout& Trainer::layout() const { return state_->layout(); }
std::int64_t Trainer::steps_done() const { return state_->done; }

MemoryUse Trainer::memory_use() const {
  const State& s = *state_;
  const auto bytes = [](const AlignedBytes& memory) {
    return static_cast<std::int64_t>(memory.size());
  };
  MemoryUse use;
  use.parameters = bytes(s.parameters) + bytes(s.statistics);
  for (const AlignedBytes& state : s.states) use.optimizer += bytes(state);
  for (const Worker& worker : s.workers) {
    for (const AlignedBytes& buffer : worker.buffers) use.gradients += bytes(buffer);
    use.optimizer += worker.update->arena_bytes();
    use.training_activations += worker.program->arena_bytes();
    use.evaluation_activations +=
        worker.evaluation->arena_bytes() + worker.evaluation_loss->arena_bytes();
    use.batches += bytes(worker.images) + bytes(worker.labels) + worker.evaluation->batch_bytes() +
                   bytes(worker.evaluation_labels) + bytes(worker.evaluation_losses);
  }
  if (s.placement.input_threads > 0)
    use.batches += s.prefetch_options().depth * s.recipe.batch *
                   static_cast<std::int64_t>(float_bytes(s.loader->set().image_bytes() + 1));
  for (const ImageSet* set : {&s.loader->set(), s.held_out.get()})
    use.data += static_cast<std::int64_t>(set->pixels.size() + set->labels.size());
  return use;
}

std::uint64_t Trainer::parameter_hash() const {
  State& s = *state_;
  std::uint64_t hash = 0;
  for (const FlatEntry& entry : s.layout().parameters) {
    const auto count = static_cast<std::size_t>(entry.elements());
    hash =
        hash_append(hash, hash_tensor(hash_sum({s.parameter_data() + entry.offset, count}), count));
  }
  return hash;
}

std::string Trainer::first_non_finite() const {
  return podium::first_non_finite(state_->value_views());
}

// --- checkpoints

std::vector<Trainer::State::Place> Trainer::State::values() {
  std::vector<Place> list;
  for (const FlatEntry& e : layout().parameters)
    list.push_back({e.name, e.shape, parameter_data() + e.offset});
  for (const FlatEntry& e : layout().statistics)
    list.push_back({e.name, e.shape, statistic_data() + e.offset - layout().parameter_floats});
  return list;
}

std::vector<TensorView> Trainer::State::value_views() {
  std::vector<TensorView> views;
  for (Place& place : values()) views.push_back({place.name, place.shape, place.values});
  return views;
}

std::vector<Trainer::State::Place> Trainer::State::places() {
  std::vector<Place> list = values();
  for (std::size_t i = 0; i < states.size(); ++i) {
    for (const FlatEntry& e : layout().parameters) {
      const std::vector<std::string> names = optimizer_states(optimizers.of(e));
      if (e.trained && i < names.size())
        list.push_back(
            {cat(kOptimizerPrefix, e.name, "/", names[i]), e.shape, state_data(i) + e.offset});
    }
  }
  return list;
}

// One batch is in use, and each thread makes one.
PrefetchOptions Trainer::State::prefetch_options() const {
  return {.first_step = done,
          .end_step = std::numeric_limits<std::int64_t>::max(),
          .threads = placement.input_threads,
          .depth = placement.input_threads + 1,
          .readers = static_cast<int>(placement.workers)};
}

const std::string& Trainer::State::Identity::of(const ImageSet& set, StopToken stop) {
  if (text.empty()) text = cat(set.count, " examples, hash ", hash_text(hash_of(set, stop)));
  return text;
}

void Trainer::identify_data(StopToken stop) const {
  state_->training_identity.of(state_->loader->set(), stop);
  state_->evaluation_identity.of(*state_->held_out, stop);
}

std::string Trainer::training_data() const {
  const ImageSet& set = state_->loader->set();
  return cat(state_->training_identity.of(set), " (", set.source, ")");
}

std::string Trainer::evaluation_data() const {
  const ImageSet& set = *state_->held_out;
  return cat(state_->evaluation_identity.of(set), " (", set.source, ")");
}

void Trainer::require_same_data(const Checkpoint& checkpoint) const {
  const auto found = checkpoint.metadata.find(kDataKey);
  if (found == checkpoint.metadata.end()) return;  // written before checkpoints knew their data
  PODIUM_REQUIRE(
      found->second == state_->training_identity.of(state_->loader->set()), ExitCode::kData,
      "the checkpoint of step ", checkpoint.step, " was trained on other data: then ",
      found->second, ", now ", training_data(),
      ". Name the folder of those with --data-dir or $PODIUM_DATA (copies of one dataset may "
      "differ in the order of their examples), or start over with --fresh or another --out folder");
}

bool Trainer::require_same_evaluation_data(const Checkpoint& checkpoint) const {
  const auto found = checkpoint.metadata.find(kEvaluationDataKey);
  if (found == checkpoint.metadata.end()) return false;
  PODIUM_REQUIRE(found->second == state_->evaluation_identity.of(*state_->held_out),
                 ExitCode::kData, "the run was evaluated on other data: by the checkpoint of step ",
                 checkpoint.step, " on ", found->second, ", now on ", evaluation_data(),
                 ". Name the folder of those with --data-dir or $PODIUM_DATA; to evaluate on "
                 "these, train with --fresh or another --out folder");
  return true;
}

Checkpoint Trainer::checkpoint() const {
  State& s = *state_;
  Checkpoint checkpoint;
  checkpoint.step = s.done;
  checkpoint.metadata["recipe"] = to_toml(s.recipe);
  checkpoint.metadata["parameter_hash"] = hash_text(parameter_hash());
  checkpoint.metadata[kContractKey] = std::to_string(kNumericalContract);
  const ImageSet& set = *s.held_out;
  checkpoint.metadata[kDataKey] = s.training_identity.of(s.loader->set());
  checkpoint.metadata[kEvaluationDataKey] = s.evaluation_identity.of(set);
  checkpoint.metadata[kInputKey] =
      cat(set.channels, " ", set.height, " ", set.width, " ", set.classes);
  for (const State::Place& place : s.places()) {
    Tensor tensor(DType::kF32, place.shape);
    std::memcpy(tensor.data(), place.values, float_bytes(place.shape.elements()));
    checkpoint.tensors.push_back({place.name, std::move(tensor)});
  }
  return checkpoint;
}

void Trainer::restore(const Checkpoint& checkpoint) {
  State& s = *state_;
  const std::vector<State::Place> places = s.places();
  // All is looked up before anything is overwritten.
  std::vector<const Tensor*> found;
  for (const State::Place& place : places) {
    const Tensor* tensor = checkpoint.find(place.name);
    PODIUM_REQUIRE(tensor != nullptr && tensor->type() == TensorType({DType::kF32, place.shape}),
                   ExitCode::kData, "the checkpoint of step ", checkpoint.step, " ",
                   shapes_differ(place.name, place.shape, tensor),
                   "; it is of another recipe: use another --out folder, or --fresh");
    found.push_back(tensor);
  }
  std::uint64_t hash = 0;  // of the parameters, which come first
  for (std::size_t i = 0; i < s.layout().parameters.size(); ++i)
    hash = hash_append(hash, hash_tensor(hash_sum(found[i]->f32()), found[i]->f32().size()));
  const auto stated = checkpoint.metadata.find("parameter_hash");
  PODIUM_REQUIRE(
      stated == checkpoint.metadata.end() || stated->second == hash_text(hash), ExitCode::kData,
      "the parameters of the checkpoint of step ", checkpoint.step, " have the hash ",
      hash_text(hash), ", and it states ", stated->second,
      ": they were changed after it was written; restore it from a copy, or start over with "
      "--fresh");
  for (std::size_t i = 0; i < places.size(); ++i)
    std::memcpy(places[i].values, found[i]->data(), float_bytes(places[i].shape.elements()));
  s.prefetcher.reset();
  s.done = checkpoint.step;
}

void Trainer::start_profile() {
  for (Worker& worker : state_->workers) {
    worker.program->start_profile();
    worker.update->start_profile();
  }
}

std::vector<KernelProfile> Trainer::profile(std::int64_t worker) const {
  const Worker& w = state_->workers[static_cast<std::size_t>(worker)];
  std::vector<KernelProfile> rows = w.program->profile();
  for (KernelProfile& row : w.update->profile()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace podium
