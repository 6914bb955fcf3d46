// How a trainer is made: the placement, the data, the programs, the values that it starts from, the
// workers with their memory. Each step needs those before it, and each checks what it takes.
#include <algorithm>
#include <exception>
#include <span>
#include <string>
#include <utility>

#include "base/numerics/tree.h"
#include "base/words.h"
#include "data/pictures/prepare/prepared_pictures.h"
#include "ops/ops.h"
#include "parallel/rank_key_values.h"
#include "train/loop/run_ranks.h"
#include "train/loop/trainer_state.h"
#include "train/program/whitening.h"

namespace podium {
namespace {

void require_threads(const char* flag, int threads, int least) {
  const int most = most_threads();
  PODIUM_REQUIRE(threads >= least && threads <= most, ExitCode::kUsage, flag, " ", threads, ": ",
                 least, " to ", most, " on this machine, where podium may use ", usable_cores(),
                 " cores");
}

// Buckets of the exchange, the end of flat memory first: gradients are made in the order opposite
// to that of the parameters. A bucket holds whole parameters. Where nothing travels there is one.
std::vector<FlatRange> cut_buckets(const FlatLayout& layout, bool travels,
                                   std::int64_t bucket_bytes) {
  if (!travels) return {{0, layout.bytes}};
  bucket_bytes = bucket_size(layout.bytes, bucket_bytes);
  std::vector<FlatRange> buckets;
  std::int64_t end = layout.bytes;
  for (std::size_t i = layout.parameters.size(); i-- > 0;) {
    const std::int64_t begin = layout.parameters[i].offset;
    if (end - begin < bucket_bytes && begin > 0) continue;
    buckets.push_back({begin, end});
    end = begin;
  }
  return buckets;
}

// Where each bucket is cut into the shards of `count` workers: whole tensors and runs of them, but
// that an optimizer of matrices wants them whole, and the norm of the gradients runs of kSquareRun
// elements. What a worker gets too much of a bucket, it gets less of the next one. A shard's bounds
// are even, as the hash needs, and no result depends on them.
std::vector<std::vector<std::int64_t>> cut_shards(std::int64_t count,
                                                  const std::vector<FlatRange>& buckets,
                                                  const FlatLayout& layout,
                                                  const Optimizers& optimizers, bool clips) {
  constexpr std::int64_t kRunBytes = kSquareRun * sizeof(float);
  std::vector<std::vector<std::int64_t>> all;
  std::vector<std::int64_t> held(static_cast<std::size_t>(count));  // by each worker, so far
  std::int64_t bytes = 0;                                           // of all buckets so far
  for (const FlatRange bucket : buckets) {
    bytes += bucket.bytes();
    std::vector<std::int64_t> cuts = {bucket.begin};
    std::int64_t held_before = 0;  // by this worker and those before it
    for (std::int64_t i = 0; i < count; ++i) {
      held_before += held[static_cast<std::size_t>(i)];
      const std::int64_t share = bytes / kFlatAlign * (i + 1) / count * kFlatAlign - held_before;
      std::int64_t end =
          i + 1 == count ? bucket.end : std::clamp(bucket.begin + share, cuts.back(), bucket.end);
      for (const FlatEntry& entry : layout.parameters) {
        const std::int64_t last =
            (entry.offset + entry.bytes() + kFlatAlign - 1) / kFlatAlign * kFlatAlign;
        if (end <= entry.offset || end >= last) continue;
        if (needs_whole_parameters(optimizers.of(entry))) {
          end = end - entry.offset < last - end ? entry.offset : last;
        } else if (clips) {
          end = entry.offset + (end - entry.offset) / kRunBytes * kRunBytes;
        }
        break;
      }
      cuts.push_back(std::max(cuts.back(), end));
    }
    for (std::size_t i = 0; i < held.size(); ++i) held[i] += cuts[i + 1] - cuts[i];
    all.push_back(std::move(cuts));
  }
  return all;
}

// The outputs of a replica's program that lie in flat memory.
std::vector<std::pair<std::string, FlatRange>> flat_outputs_of(const FlatLayout& layout) {
  std::vector<std::pair<std::string, FlatRange>> outputs;
  const auto add = [&](const std::string& kind, const FlatEntry& entry) {
    if (entry.trained)
      outputs.emplace_back(kind + entry.name,
                           FlatRange{entry.offset, entry.offset + entry.bytes()});
  };
  for (const FlatEntry& entry : layout.parameters) add("gradient/", entry);
  for (const FlatEntry& entry : layout.statistics) add("new/", entry);
  outputs.emplace_back("loss", FlatRange{layout.loss_offset, layout.loss_offset + kWord});
  return outputs;
}

// A milestone for each bucket: what lies in it. With the first one other ranks get the counts, too.
std::vector<std::vector<std::string>> milestones_of(const ReplicaProgram& program,
                                                    const Shards& shards) {
  const auto outputs = flat_outputs_of(program.layout);
  std::vector<std::vector<std::string>> milestones;
  for (const std::vector<std::int64_t>& cuts : shards.cuts) {
    milestones.emplace_back();
    for (const auto& [name, range] : outputs)
      if (cuts.front() <= range.begin && range.begin < cuts.back())
        milestones.back().push_back(name);
  }
  for (const std::string& count : program.counts) milestones.front().push_back(count);
  return milestones;
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

// Names of classes may differ.
void require_same_fields(const Source& train, const Source& held_out) {
  const std::vector<Field> one = train.fields(), other = held_out.fields();
  const bool same = std::ranges::equal(one, other, [](const Field& a, const Field& b) {
    return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.below == b.below;
  });
  PODIUM_REQUIRE(same, ExitCode::kUsage, "the training set (", train.origin(), ") has ",
                 to_text(one), ", and the held-out one (", held_out.origin(), ") has ",
                 to_text(other), "; both must have the same fields");
}

// Of the ranks below `end`, those on the host of this one.
int neighbours_below(const Transport& all, int end) {
  int neighbours = 0;
  for (int rank = 0; rank < end; ++rank) neighbours += all.host(rank) == all.host(all.rank());
  return neighbours;
}

// How many of the run's ranks are on this rank's host, itself included.
int ranks_on_this_host(const Placement& placement) {
  if (placement.ranks == nullptr) return 1;
  return neighbours_below(*placement.ranks, placement.ranks->ranks());
}

}  // namespace

Trainer::Trainer(Recipe recipe, Model model, std::shared_ptr<const Source> train,
                 std::shared_ptr<const Source> held_out, Placement placement, StopToken stop)
    : state_(std::make_unique<State>(std::move(recipe))) {
  State& s = *state_;
  s.model = std::move(model);
  s.placement = std::move(placement);
  s.resolve_placement();
  s.open_device();
  PODIUM_REQUIRE(s.recipe.audit_backend == "none" || is_exact(), ExitCode::kUsage,
                 "`run.audit_backend` = \"", s.recipe.audit_backend, "\": this device computes as ",
                 kind(), ", whose bits no other backend has; leave it out");
  s.take_data(std::move(train), std::move(held_out));
  s.build_program();
  s.allocate_values();
  s.set_start_values(stop);
  s.make_workers(stop);
  s.prepare_evaluation();
  s.threads = std::make_unique<ThreadPool>(static_cast<int>(s.placement.workers));
}

Trainer::~Trainer() {
  try {
    if (state_->exchange) state_->exchange->finish_updates();
  } catch (const std::exception&) {
    // A rank is lost. Whoever destroys the trainer has heard of that, or does so next.
  }
  if (state_->placement.ranks != nullptr) state_->placement.ranks->release();
}

void require_workers(std::int64_t workers, std::int64_t replicas) {
  PODIUM_REQUIRE(workers >= 1 && workers <= replicas, ExitCode::kUsage, "--workers ", workers,
                 ": a run of ", count_text(replicas, "replica"), " has ",
                 replicas == 1 ? "1 worker" : cat("1 to ", replicas, " workers"),
                 " (a worker runs whole replicas); use --threads to give a worker more cores");
}

void require_ranks(std::int64_t ranks, std::int64_t replicas) {
  if (ranks > replicas) throw too_many_ranks(ranks, replicas);
}

std::int64_t default_workers(std::int64_t replicas, const Placement& placement) {
  std::int64_t most = replicas;
  if (placement.ranks != nullptr)
    most = replicas_of_worker(replicas, placement.ranks->ranks(), placement.ranks->rank()).size();
  const int devices = open_for(placement)->traits().devices;
  return std::clamp<std::int64_t>(
      devices == 0 ? usable_cores() / ranks_on_this_host(placement) : devices, 1,
      std::max<std::int64_t>(most, 1));
}

std::string oversubscription(const Trainer& trainer) {
  const Placement& placement = trainer.placement();
  const std::int64_t ranks = ranks_on_this_host(placement),
                     threads = ranks * placement.workers * placement.threads;
  if (trainer.device().name() != "cpu" || threads <= usable_cores()) return "";
  return cat(count_text(threads, "computing thread"), " share the ",
             count_text(usable_cores(), "core"), " that podium may use on this host",
             ranks == 1 ? "" : cat(" (", ranks, " ranks)"),
             ": the result is the same, but fewer are faster; see --workers and --threads");
}

void Trainer::State::resolve_placement(std::vector<int> workers_of_ranks) {
  const int count = placement.ranks == nullptr ? 1 : placement.ranks->ranks();
  require_ranks(count, recipe.replicas);
  if (placement.workers == 0) placement.workers = default_workers(recipe.replicas, placement);
  require_workers(placement.workers, recipe.replicas);
  require_threads("--threads", placement.threads, 1);
  require_threads("--input-threads", placement.input_threads, 0);
  PODIUM_REQUIRE(recipe.batch % recipe.replicas == 0, ExitCode::kUsage, "batch = ", recipe.batch,
                 " is not divisible by replicas = ", recipe.replicas);
  replica_rows = recipe.batch / recipe.replicas;
  shards.workers = std::move(workers_of_ranks);
  if (shards.workers.empty() && count == 1) shards.workers = {static_cast<int>(placement.workers)};
  if (shards.workers.empty()) {
    for (const std::string& own : placement.ranks->gather(std::to_string(placement.workers)))
      shards.workers.push_back(std::stoi(own));
  }
  const int all = shards.all_workers();
  PODIUM_REQUIRE(all <= recipe.replicas, ExitCode::kUsage, "--workers ", placement.workers, " on ",
                 count, " ranks: a run of ", recipe.replicas, " replicas has at most ",
                 recipe.replicas, " workers in all, not ", all,
                 "; give each rank fewer, or leave --workers out");
  replicas = shards.replicas_of(rank(), recipe.replicas);
}

DeviceOptions device_options(const Placement& placement) {
  return {.workers = static_cast<int>(std::max<std::int64_t>(1, placement.workers)),
          .threads = placement.threads,
          .local_rank = placement.ranks == nullptr ? 0 : placement.ranks->local_rank(),
          .local_ranks = ranks_on_this_host(placement),
          .gpus = placement.gpus};
}

std::unique_ptr<Device> open_for(const Placement& placement) {
  DeviceOptions options = device_options(placement);
  if (placement.ranks == nullptr || placement.ranks->ranks() == 1)
    return make_device(placement.backend, options);
  RankKeyValues key_values(*placement.ranks);
  options.key_values = &key_values;
  return make_device(placement.backend, options);
}

Precision precision_on(Device& device, const Recipe& recipe) {
  Precision precision = precision_of(recipe);
  if (!precision.bf16) return precision;
  const Bf16Support support = device.bf16();
  if (!recipe.bf16_order.empty())
    require_bf16_order(cat(device.name(), " (", device.description(), ")"), support,
                       *precision.bf16);
  else if (!support.orders.empty())
    precision.bf16 = support.orders.front();
  return precision;
}

void Trainer::State::open_device() {
  device = open_for(placement);
  if (placement.ranks != nullptr) placement.ranks->use(*device);
  precision = precision_on(*device, recipe);
}

void Trainer::State::take_data(std::shared_ptr<const Source> train,
                               std::shared_ptr<const Source> its_held_out) {
  PODIUM_REQUIRE(train && its_held_out, ExitCode::kData, "the ", train ? "held-out" : "training",
                 " set is a null pointer");
  train->require_usable("the training set");
  its_held_out->require_usable("the held-out set");
  require_same_fields(*train, *its_held_out);
  if (placement.keep_decoded > 0) {
    // Each set has its share.
    const double share = static_cast<double>(train->examples()) /
                         static_cast<double>(train->examples() + its_held_out->examples());
    const auto of_train =
        static_cast<std::int64_t>(share * static_cast<double>(placement.keep_decoded));
    PODIUM_REQUIRE(
        train->keep_decoded(of_train) &&
            its_held_out->keep_decoded(placement.keep_decoded - of_train),
        ExitCode::kUsage,
        "--keep-decoded is for data that are decoded when they are read; this run's are not");
  }
  train = prepared(std::move(train), {recipe.augment, recipe.normalise});
  held_out = prepared(std::move(its_held_out), {{}, recipe.normalise});
  loader = std::make_shared<const Loader>(
      std::move(train), LoaderOptions{.seed = recipe.seed, .batch = recipe.batch});
  held_out_loader = std::make_unique<Loader>(held_out);
  data = shape_of(loader->set(), *held_out);
  start_input_threads();
  total_steps = recipe.steps != 0 ? recipe.steps : recipe.epochs * loader->steps_per_epoch();
}

// Workers that read slow examples themselves would compute nothing meanwhile. And a device of its
// own needs the host's cores for input alone; of examples that are not slow, more than a few
// threads would only wait for it.
void Trainer::State::start_input_threads() {
  constexpr std::int64_t kMostOfQuickOnes = 8;
  if (placement.input_threads != 0) return;
  if (device->traits().devices > 0) {
    const std::int64_t cores = usable_cores() / ranks_on_this_host(placement),
                       idle = std::max<std::int64_t>(cores - placement.workers, 0);
    placement.input_threads =
        static_cast<int>(data.is_slow ? idle : std::min(idle, kMostOfQuickOnes));
  }
  if (data.is_slow && placement.input_threads == 0)
    placement.input_threads = static_cast<int>(placement.workers) * placement.threads;
}

std::vector<Field> Trainer::State::fields_of(std::size_t length) const {
  return data.buckets.empty() ? data.fields : fields_of_length(data.fields, data.buckets[length]);
}

BatchInputs Trainer::State::inputs_of(std::int64_t rows, std::size_t length) const {
  BatchInputs inputs = batch_inputs(recipe, fields_of(length), rows);
  inputs.precision = precision;
  return inputs;
}

ReplicaProgram Trainer::State::program_for(std::size_t length) const {
  return build_replica_program(model, inputs_of(replica_rows, length), recipe.seed, recipe.batch,
                               false, optimizers);
}

void Trainer::State::build_program() {
  try {
    const std::size_t last = data.buckets.empty() ? 0 : data.buckets.size() - 1;
    program = program_for(last);
    for (std::size_t length = 0; length < last; ++length) {
      shorter.push_back(program_for(length));
      require_same_layout(shorter.back(), length);
    }
  } catch (const UserError& error) {
    // An operation's rule knows nothing of recipes.
    throw UserError(
        cat("recipe ", recipe.name, " (batch = ", recipe.batch, ", replicas = ", recipe.replicas,
            ", so a replica has ",
            count_text(replica_rows,
                       has_text(recipe) || has_pairs(recipe) ? "example" : unit_of(data.fields)),
            "): ", error.what()),
        error.code());
  }
  optimizers.require_parameters(layout(), recipe.model);
  require_streams();
}

// Parameters must not depend on how long the examples are.
void Trainer::State::require_same_layout(const ReplicaProgram& other, std::size_t length) const {
  const auto names_of = [](const ReplicaProgram& its) {
    std::vector<std::string> names;
    for (const auto* list : {&its.layout.parameters, &its.layout.statistics, &its.carried})
      for (const FlatEntry& entry : *list)
        names.push_back(cat(entry.name, " ", to_string(entry.type)));
    return names;
  };
  const std::vector<std::string> own = names_of(program), its = names_of(other);
  if (own == its) return;
  const auto [here, there] = std::ranges::mismatch(own, its);
  throw UserError(
      cat("model ", recipe.model, " has ", here == own.end() ? std::string("nothing more") : *here,
          " for examples of ", data.buckets.back(), " and ",
          there == its.end() ? std::string("nothing more") : *there, " for those of ",
          data.buckets[length],
          "; to train in buckets its parameters must be the same for all lengths: leave "
          "out data.buckets"),
      ExitCode::kUsage);
}

void Trainer::State::allocate_values() {
  parameters = device->allocate(layout().parameter_bytes);
  statistics = device->allocate(layout().loss_offset - layout().parameter_bytes + kFlatAlign);
  for (std::size_t i = 0; i < optimizers.states(); ++i)
    states.push_back(device->allocate(layout().parameter_bytes));
  if (!program.carried.empty()) allocate_carried();
}

void Trainer::State::set_start_values(StopToken stop) {
  ThreadPool pool(static_cast<int>(
      std::min<std::int64_t>(placement.workers * placement.threads, usable_cores())));
  for (std::size_t i = 0; i < layout().parameters.size(); ++i) {
    const Parameter& parameter = program.parameters[i];
    const Tensor start =
        parameter.initialiser == Initialiser::kWhitening
            ? whitening_filters(parameter, loader->set(), stop)
            : initial_value(parameter, recipe.seed, static_cast<std::uint32_t>(i), &pool);
    const FlatEntry& entry = layout().parameters[i];
    device->upload({*parameters, entry.offset, entry.bytes()}, start.data());
  }
  for (std::size_t i = 0; i < layout().statistics.size(); ++i) {
    const FlatEntry& entry = layout().statistics[i];
    Tensor start(entry.type);
    std::ranges::fill(start.f32(), program.statistic_starts[i]);
    device->upload({*statistics, entry.offset - layout().parameter_bytes, entry.bytes()},
                   start.data());
  }
}

void Trainer::State::make_workers(StopToken stop) {
  losses.resize(static_cast<std::size_t>(recipe.replicas));
  counts.assign(program.counts.size(),
                std::vector<std::int32_t>(static_cast<std::size_t>(recipe.replicas)));
  workers.resize(static_cast<std::size_t>(placement.workers));
  const int all = shards.all_workers();
  const Traits traits = device->traits();
  // From rank to rank, or from GPU to GPU.
  const bool travels =
      ranks() > 1 || (traits.joint_replicas && traits.devices > 1 && placement.workers > 1);
  shards.cuts = cut_shards(all, cut_buckets(layout(), travels, placement.bucket_bytes), layout(),
                           optimizers, recipe.clip_norm != 0);
  for (std::size_t w = 0; w < workers.size(); ++w) {
    stop.check();
    Worker& worker = workers[w];
    worker.number = static_cast<int>(w);
    if (placement.trace != nullptr) worker.lane = placement.trace->lane(cat("worker ", w));
    const std::size_t number = static_cast<std::size_t>(shards.first_worker(rank())) + w;
    worker.replicas = replicas_of_worker(recipe.replicas, all, static_cast<std::int64_t>(number));
    worker.nodes = largest_nodes(recipe.replicas, worker.replicas);
    for (std::int64_t i = buffers_needed(recipe.replicas, worker.replicas); i > 0; --i) {
      worker.buffers.push_back(device->allocate(layout().bytes));
      worker.free_buffers.push_back(worker.buffers.back().get());
    }
    worker.scalars = Staging(*device, std::ssize(optimizers.scalars()) * kWord);
    worker.reached = [this, &worker](std::size_t bucket) {
      complete_bucket(worker, static_cast<int>(bucket));
    };
    worker.place = Staging(*device, 2 * kWord);
    worker.results = Staging(*device, (1 + std::ssize(counts)) * worker.replicas.size() * kWord);
    worker.runs.resize(lengths());
    for (std::size_t length = lengths(); length-- > 0;) prepare_program(worker, length);
    for (const std::vector<std::int64_t>& cuts : shards.cuts) {
      Shard& shard = worker.shards.emplace_back();
      shard.range = {cuts[number], cuts[number + 1]};
      prepare_update(worker, shard);
      prepare_means(worker, shard);
      prepare_hashes(worker, shard);
    }
  }
  mean_loss =
      BoundExecutable(*device, build_mean_program({{0, sizeof(float)}}, recipe.replicas), {});
  mean_loss_sum = {
      {mean_loss.input_slot("sum/0"), {layout().loss_offset, layout().loss_offset + kWord}}};
  mean_loss_value = Staging(*device, kWord);
  mean_loss.bind_output("mean/0", mean_loss_value.view());
  prepare_exchange();
  if (recipe.clip_norm != 0 || program.is_weighted()) prepare_scaling();
  if (recipe.clip_norm != 0) prepare_clipping();
  prepare_whole_step();
}

void Trainer::State::prepare_exchange() {
  exchange = std::make_unique<Exchange>(*device, placement.ranks, recipe.replicas, shards,
                                        placement.trace);
  tails.resize(static_cast<std::size_t>(ranks()) * (layout().parameters.size() + 1));
  if (ranks() == 1) return;
  std::vector<std::span<std::byte>> of_losses, of_tails;
  std::vector<std::vector<std::span<std::byte>>> of_counts(counts.size());
  for (int rank = 0; rank < ranks(); ++rank) {
    const ReplicaRange own = shards.replicas_of(rank, recipe.replicas);
    const auto begin = static_cast<std::size_t>(own.begin),
               count = static_cast<std::size_t>(own.size());
    of_losses.push_back(std::as_writable_bytes(std::span(losses).subspan(begin, count)));
    for (std::size_t i = 0; i < counts.size(); ++i)
      of_counts[i].push_back(std::as_writable_bytes(std::span(counts[i]).subspan(begin, count)));
    of_tails.push_back(
        std::as_writable_bytes(std::span(tail(rank), layout().parameters.size() + 1)));
  }
  exchange->gather_with_sums(of_losses);
  for (const auto& of_count : of_counts) exchange->gather_with_sums(of_count);
  exchange->add(tail_round, of_tails);
  if (!program.carried.empty()) prepare_carried_hashes();
  exchange->share_flat(*parameters, 0);
  exchange->share_flat(*statistics, layout().parameter_bytes);
}

void Trainer::State::bind_values(BoundExecutable& executable) {
  for (const DeviceTensor& value : values()) executable.bind_input(value.name, value.memory);
}

void Trainer::State::bind_examples(ReplicaRun& run, const BatchMemory& batch, std::int64_t first,
                                   View place) {
  for (std::size_t i = 0; i < batch.size(); ++i)
    run.program.bind_input(batch.fields()[i].name, batch.view(i, first, replica_rows));
  run.program.bind_input("step", place.part(0, kWord));
  run.program.bind_input("replica", place.part(kWord, kWord));
}

// Of lengths the greatest one first: the others work in its memory.
void Trainer::State::prepare_program(Worker& worker, std::size_t length) {
  const ReplicaProgram& its = program_of(length);
  ReplicaRun& run = worker.runs[length];
  run.program = BoundExecutable(
      *device, its.graph,
      {.worker = worker.number,
       .arena_of = length + 1 == lengths() ? nullptr : &worker.runs.back().program.executable(),
       .awaited = true,
       .milestones = milestones_of(its, shards)});
  run.batch = BatchMemory(*device, fields_of(length), replica_rows);
  // Of batches made ahead, a replica's part may be bound when it runs.
  for (const Field& field : data.fields)
    run.field_slots.push_back(run.program.input_slot(field.name));
  bind_examples(run, run.batch, 0, worker.place.view());
  bind_values(run.program);
  for (const std::string& count : its.counts)
    run.count_slots.push_back(run.program.output_slot(count));
  for (const FlatEntry& entry : its.carried) {
    run.carried_inputs.push_back(run.program.input_slot(entry.name));
    run.carried_outputs.push_back(run.program.output_slot(kNewPrefix + entry.name));
  }
  for (const auto& [name, range] : flat_outputs_of(layout()))
    run.flat_outputs.push_back({run.program.output_slot(name), range.begin, range.bytes()});
}

void Trainer::State::prepare_update(Worker& worker, Shard& shard) {
  const UpdateProgram update = build_update_program(layout(), optimizers, recipe.replicas,
                                                    shard.range.begin, shard.range.end);
  if (update.pieces.empty()) return;
  CompileOptions options{.worker = worker.number, .awaited = true};
  for (std::size_t i = 0; i < update.pieces.size(); ++i) {
    const auto& own = optimizers.options[update.pieces[i].optimizer];
    options.donations.push_back({cat("new/", i, "/", 0), cat("parameter/", i)});
    for (std::size_t k = 0; k < optimizer_states(own).size(); ++k)
      options.donations.push_back(
          {cat("new/", i, "/", k + 1), cat(optimizer_states(own)[k], "/", i)});
  }
  shard.update = BoundExecutable(*device, update.graph, options);
  bind_scalars(shard, worker.scalars.view());
  for (std::size_t i = 0; i < update.pieces.size(); ++i) {
    const UpdatePiece& piece = update.pieces[i];
    const std::int64_t bytes = piece.end - piece.begin;
    shard.update.bind_input(cat("parameter/", i), {*parameters, piece.begin, bytes});
    const std::vector<std::string> own = optimizer_states(optimizers.options[piece.optimizer]);
    for (std::size_t k = 0; k < own.size(); ++k)
      shard.update.bind_input(cat(own[k], "/", i), {*states[k], piece.begin, bytes});
    shard.update_gradients.push_back(
        {shard.update.input_slot(cat("gradient/", i)), {piece.begin, piece.end}});
  }
}

// What the optimizers read in this step.
void Trainer::State::bind_scalars(Shard& shard, View scalars) {
  const std::vector<std::string> names = optimizers.scalars();
  for (std::size_t i = 0; i < names.size(); ++i)
    shard.update.bind_input(names[i], scalars.part(static_cast<std::int64_t>(i) * kWord, kWord));
}

// Running statistics: the mean over replicas.
void Trainer::State::prepare_means(Worker& worker, Shard& shard) {
  const std::vector<FlatRange> ranges =
      changed_statistics(layout(), shard.range.begin, shard.range.end);
  if (ranges.empty()) return;
  shard.means = BoundExecutable(*device, build_mean_program(ranges, recipe.replicas),
                                {.worker = worker.number});
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    shard.mean_sums.push_back({shard.means.input_slot(cat("sum/", i)), ranges[i]});
    shard.means.bind_output(
        cat("mean/", i),
        {*statistics, ranges[i].begin - layout().parameter_bytes, ranges[i].bytes()});
  }
}

void Trainer::State::prepare_hashes(Worker& worker, Shard& shard) {
  constexpr std::int64_t kWords = 2 * sizeof(std::uint32_t);
  const std::vector<HashShare> shares = hash_shares(layout(), shard.range.begin, shard.range.end);
  // Where they are part of a step's program, all workers have room for as many.
  const std::size_t room =
      device->traits().complete_steps ? layout().parameters.size() : shares.size();
  if (room > 0) shard.hash_words = Staging(*device, static_cast<std::int64_t>(room) * kWords);
  if (shares.empty()) return;
  shard.hashes =
      BoundExecutable(*device, build_hash_program(layout(), shares), {.worker = worker.number});
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const FlatRange range = shares[i].range;
    shard.hashed.push_back(shares[i].parameter);
    shard.hashes.bind_input(cat("values/", i), {*parameters, range.begin, range.bytes()});
    shard.hashes.bind_output(cat("hash/", i), shard.hash_words.view().part(
                                                  static_cast<std::int64_t>(i) * kWords, kWords));
  }
}

}  // namespace podium
