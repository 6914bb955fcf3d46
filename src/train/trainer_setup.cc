// How a trainer is made: the placement, the data, the programs, the values that it starts from, the
// workers with their memory. Each step needs those before it, and each checks what it takes.
#include <algorithm>
#include <cstring>

#include "base/tree.h"
#include "train/trainer_state.h"
#include "train/whitening.h"

namespace podium {
namespace {

void require_threads(const char* flag, int threads, int least) {
  const int most = most_threads();
  PODIUM_REQUIRE(threads >= least && threads <= most, ExitCode::kUsage, flag, " ", threads, ": ",
                 least, " to ", most, " on this machine, where podium may use ", usable_cores(),
                 " cores");
}

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

std::int64_t default_workers(std::int64_t replicas) {
  return std::clamp<std::int64_t>(usable_cores(), 1, replicas);
}

Trainer::Trainer(Recipe recipe, Model model, std::shared_ptr<const ImageSet> train,
                 std::shared_ptr<const ImageSet> held_out, Placement placement, StopToken stop)
    : state_(std::make_unique<State>(std::move(recipe))) {
  State& s = *state_;
  s.model = std::move(model);
  s.placement = std::move(placement);
  s.resolve_placement();
  s.take_data(std::move(train), std::move(held_out));
  s.build_program();
  s.set_start_values(stop);
  s.make_workers(stop);
  if (s.recipe.clip_norm != 0) s.prepare_clipping();
  s.prepare_evaluation();
}

Trainer::~Trainer() = default;

void Trainer::State::resolve_placement() {
  if (placement.workers == 0) placement.workers = default_workers(recipe.replicas);
  PODIUM_REQUIRE(
      placement.workers >= 1 && placement.workers <= recipe.replicas, ExitCode::kUsage,
      "--workers ", placement.workers, ": a run of ", recipe.replicas, " replicas has 1 to ",
      recipe.replicas,
      " workers (a worker runs whole replicas); use --threads to give a worker more cores");
  require_threads("--threads", placement.threads, 1);
  require_threads("--input-threads", placement.input_threads, 0);
  PODIUM_REQUIRE(recipe.batch % recipe.replicas == 0, ExitCode::kUsage, "batch = ", recipe.batch,
                 " is not divisible by replicas = ", recipe.replicas);
  replica_images = recipe.batch / recipe.replicas;
  backend = make_backend(placement.backend);
}

void Trainer::State::take_data(std::shared_ptr<const ImageSet> train,
                               std::shared_ptr<const ImageSet> its_held_out) {
  held_out = std::move(its_held_out);
  PODIUM_REQUIRE(train && held_out, ExitCode::kData, "the ", train ? "held-out" : "training",
                 " set is a null pointer");
  require_usable(*train, "the training set");
  require_usable(*held_out, "the held-out set");
  PODIUM_REQUIRE(held_out->channels == train->channels && held_out->height == train->height &&
                     held_out->width == train->width && held_out->classes == train->classes,
                 ExitCode::kUsage, "the training set (", train->source, ") and the held-out one (",
                 held_out->source, ") differ in the shape or the classes of their images");
  loader = std::make_shared<const Loader>(std::move(train),
                                          LoaderOptions{.seed = recipe.seed,
                                                        .batch = recipe.batch,
                                                        .augment = recipe.augment,
                                                        .normalise = recipe.normalise});
  held_out_loader =
      std::make_unique<Loader>(held_out, LoaderOptions{.normalise = recipe.normalise});
  total_steps = recipe.steps != 0 ? recipe.steps : recipe.epochs * loader->steps_per_epoch();
}

ReplicaInputs Trainer::State::inputs_of(std::int64_t images) const {
  const ImageSet& set = loader->set();
  return {.image = Shape{set.channels, set.height, set.width},
          .images = images,
          .classes = set.classes};
}

void Trainer::State::build_program() {
  try {
    program = build_replica_program(model, inputs_of(replica_images), recipe.seed, recipe.batch,
                                    recipe.label_smoothing, false, optimizers);
  } catch (const UserError& error) {
    // An operation's rule knows nothing of recipes.
    throw UserError(cat("recipe ", recipe.name, " (batch = ", recipe.batch,
                        ", replicas = ", recipe.replicas, ", so a replica has ", replica_images,
                        replica_images == 1 ? " image" : " images", "): ", error.what()),
                    error.code());
  }
  optimizers.require_parameters(layout(), recipe.model);
}

void Trainer::State::set_start_values(StopToken stop) {
  parameters = AlignedBytes(float_bytes(layout().parameter_floats));
  statistics =
      AlignedBytes(float_bytes(layout().loss_offset - layout().parameter_floats + kFlatAlign));
  for (std::size_t i = 0; i < optimizers.states(); ++i)
    states.emplace_back(float_bytes(layout().parameter_floats));
  for (std::size_t i = 0; i < layout().parameters.size(); ++i) {
    const Parameter& parameter = program.parameters[i];
    const Tensor start = parameter.initialiser == Initialiser::kWhitening
                             ? whitening_filters(parameter, *loader, stop)
                             : initial_value(parameter, recipe.seed, static_cast<std::uint32_t>(i));
    std::memcpy(parameter_data() + layout().parameters[i].offset, start.data(),
                float_bytes(start.elements()));
  }
  for (const FlatEntry& entry : layout().parameters)
    parameter_spans.push_back(
        {entry.name,
         entry.shape,
         {parameter_data() + entry.offset, static_cast<std::size_t>(entry.elements())}});
  for (std::size_t i = 0; i < layout().statistics.size(); ++i) {
    const FlatEntry& entry = layout().statistics[i];
    std::fill_n(statistic_data() + entry.offset - layout().parameter_floats, entry.elements(),
                program.statistic_starts[i]);
  }
}

void Trainer::State::make_workers(StopToken stop) {
  losses.resize(static_cast<std::size_t>(recipe.replicas));
  correct.resize(static_cast<std::size_t>(recipe.replicas));
  workers.resize(static_cast<std::size_t>(placement.workers));
  cut_shards(workers, layout(), optimizers);
  for (std::size_t w = 0; w < workers.size(); ++w) {
    stop.check();
    Worker& worker = workers[w];
    worker.replicas =
        replicas_of_worker(recipe.replicas, placement.workers, static_cast<std::int64_t>(w));
    for (std::int64_t i = buffers_needed(recipe.replicas, worker.replicas); i > 0; --i) {
      worker.buffers.emplace_back(float_bytes(layout().floats));
      worker.free_buffers.push_back(reinterpret_cast<float*>(worker.buffers.back().data()));
    }
    worker.hash_sums.resize(layout().parameters.size());
    prepare_program(worker);
    prepare_update(worker);
  }
  exchange = std::make_unique<ThreadExchange>(*backend, recipe.replicas, placement.workers);
  threads = std::make_unique<ThreadPool>(static_cast<int>(placement.workers));
}

CompileOptions Trainer::State::compile_options() const {
  return {.threads = placement.threads,
          .guests = static_cast<int>(std::min(placement.workers - 1, kMostGuests))};
}

void Trainer::State::bind_values(BoundExecutable& executable) {
  for (const TensorView& value : value_views()) executable.bind_input(value.name, value.values);
}

void Trainer::State::prepare_program(Worker& worker) {
  worker.program = BoundExecutable(*backend, program.graph, compile_options());
  if (placement.input_threads == 0) {
    worker.images = AlignedBytes(float_bytes(replica_images * loader->set().image_bytes()));
    worker.labels = AlignedBytes(float_bytes(replica_images));
  }
  // Of batches made ahead, a replica's part is bound when it runs.
  worker.images_slot = worker.program.input_slot("images");
  worker.labels_slot = worker.program.input_slot("labels");
  worker.program.set_input(worker.images_slot, worker.images.data());
  worker.program.set_input(worker.labels_slot, worker.labels.data());
  worker.program.bind_input("step", &worker.step);
  worker.program.bind_input("replica", &worker.replica);
  bind_values(worker.program);
  worker.program.bind_output("correct", &worker.correct);
  // The rest goes to the buffer of a node of the tree, in another one for each replica.
  const auto flat = [&](const std::string& name, std::int64_t offset) {
    worker.flat_outputs.push_back({worker.program.output_slot(name), offset});
  };
  for (const FlatEntry& entry : layout().parameters)
    if (entry.trained) flat("gradient/" + entry.name, entry.offset);
  for (const FlatEntry& entry : layout().statistics)
    if (entry.trained) flat("new/" + entry.name, entry.offset);
  flat("loss", layout().loss_offset);
}

void Trainer::State::prepare_update(Worker& worker) {
  UpdateProgram update = build_update_program(layout(), optimizers, recipe.replicas,
                                              worker.shard_begin, worker.shard_end);
  CompileOptions options = compile_options();
  options.shared_outputs = placement.workers > 1 || placement.threads > 1;
  worker.update = BoundExecutable(*backend, update.graph, options);
  worker.pieces = std::move(update.pieces);
  const std::vector<std::string> scalars = optimizers.scalars();
  worker.scalars.resize(scalars.size());
  for (std::size_t i = 0; i < scalars.size(); ++i)
    worker.update.bind_input(scalars[i], &worker.scalars[i]);
  for (std::size_t i = 0; i < worker.pieces.size(); ++i) {
    const UpdatePiece& piece = worker.pieces[i];
    float* values = parameter_data() + piece.begin;
    worker.update.bind_input(cat("parameter/", i), values);
    worker.update.bind_output(cat("new/", i, "/", 0), values);
    // Known after the exchange.
    worker.gradient_slots.push_back(worker.update.input_slot(cat("gradient/", i)));
    const std::vector<std::string> own = optimizer_states(optimizers.options[piece.optimizer]);
    for (std::size_t k = 0; k < own.size(); ++k) {
      worker.update.bind_input(cat(own[k], "/", i), state_data(k) + piece.begin);
      worker.update.bind_output(cat("new/", i, "/", k + 1), state_data(k) + piece.begin);
    }
  }
}

}  // namespace podium
