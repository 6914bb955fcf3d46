#include "train/loop/trainer.h"

#include <limits>
#include <span>

#include "base/numerics/contract.h"
#include "base/numerics/hash.h"
#include "train/loop/trainer_state.h"

namespace podium {
namespace {

// The tensor of a checkpoint that a trainer needs of that type.
const Tensor& tensor_of(const Checkpoint& checkpoint, const std::string& name,
                        const TensorType& type) {
  const Tensor* found = checkpoint.find(name);
  if (found != nullptr && found->type() == type) return *found;
  throw UserError(cat("the checkpoint of step ", checkpoint.step, " ",
                      found == nullptr ? cat("has no tensor \"", name, "\"")
                                       : cat("has \"", name, "\" as ", to_string(found->type()),
                                             ", this recipe's model needs ", to_string(type.shape)),
                      "; it is of another recipe: use another --out folder, or --fresh"),
                  ExitCode::kData);
}

}  // namespace

const Recipe& Trainer::recipe() const { return state_->recipe; }
const Placement& Trainer::placement() const { return state_->placement; }
Device& Trainer::device() const { return *state_->device; }
std::string Trainer::kind() const {
  const std::string& precision = recipe().precision;
  if (!device().traits().exact_fp32) return cat(device().name(), " ", precision);
  const std::optional<Bf16Order> order = state_->precision.bf16;
  if (!order) return "exact " + precision;
  if (const std::string family = device().bf16().family; !family.empty())
    return cat(device().name(), " ", precision, " on ", family);
  return cat("exact ", precision, *order == Bf16Order::kAmx ? "" : cat(" ", name_of(*order)));
}
std::int64_t Trainer::evaluation_batch() const { return state_->evaluation_batch; }
std::vector<std::int64_t> Trainer::bucket_bytes() const {
  std::vector<std::int64_t> bytes;
  for (const auto& cuts : state_->shards.cuts) bytes.push_back(cuts.back() - cuts.front());
  return bytes;
}
std::int64_t Trainer::steps_per_epoch() const { return state_->loader->steps_per_epoch(); }
std::int64_t Trainer::total_steps() const { return state_->total_steps; }
const FlatLayout& Trainer::layout() const { return state_->layout(); }
const Source& Trainer::training_set() const { return state_->loader->set(); }
const Source& Trainer::evaluation_set() const { return *state_->held_out; }
std::vector<Metric> Trainer::metrics() const {
  return metrics_of(state_->model, state_->data.fields);
}
std::int64_t Trainer::items_per_step() const {
  return state_->program.items * state_->recipe.replicas;
}
const std::vector<std::string>& Trainer::counts() const { return state_->program.counts; }
TaskWords Trainer::words() const { return task_words(unit_of(state_->data.fields), metrics()); }
std::int64_t Trainer::steps_done() const { return state_->done; }

std::vector<std::string> class_names_of(const Trainer& trainer) {
  const std::vector<Field> fields = trainer.evaluation_set().fields();
  const Field* const target = target_of(fields);
  return target == nullptr ? std::vector<std::string>() : target->words;
}

std::uint64_t Trainer::parameter_hash() const { return state_->parameter_hash(); }

std::uint64_t Trainer::State::parameter_hash() {
  settle();
  const HostCopy values(*device, *parameters);
  std::uint64_t hash = 0;
  for (const FlatEntry& entry : layout().parameters) {
    const auto count = static_cast<std::size_t>(entry.elements());
    hash = hash_append(hash, hash_tensor(hash_sum({values.at<float>(entry.offset), count}), count));
  }
  return hash;
}

std::uint64_t Trainer::state_hash() const { return state_->with_carried_hash(parameter_hash()); }

void Trainer::read_parameters(
    const std::function<void(const std::string&, std::span<const float>)>& read) const {
  State& s = *state_;
  s.settle();
  const HostCopy values(*s.device, *s.parameters);
  for (const FlatEntry& entry : s.layout().parameters)
    read(entry.name, {values.at<float>(entry.offset), static_cast<std::size_t>(entry.elements())});
}

std::string Trainer::first_non_finite() const {
  State& s = *state_;
  s.settle();
  for (const DeviceTensor& value : s.values()) {
    const HostCopy values(*s.device, value.memory);
    const TensorView view{value.name, value.type.shape, values.at<float>()};
    if (!podium::first_non_finite({&view, 1}).empty()) return value.name;
  }
  return s.first_non_finite_carried();
}

// --- checkpoints

void Trainer::State::settle() {
  exchange->finish_updates();
  parameter_mirror.push();
}

std::vector<DeviceTensor> Trainer::State::values() const {
  std::vector<DeviceTensor> list;
  for (const FlatEntry& e : layout().parameters)
    list.push_back({e.name, e.type, {*parameters, e.offset, e.bytes()}});
  for (const FlatEntry& e : layout().statistics)
    list.push_back({e.name, e.type, {*statistics, e.offset - layout().parameter_bytes, e.bytes()}});
  return list;
}

std::vector<DeviceTensor> Trainer::State::places() const {
  std::vector<DeviceTensor> list = values();
  for (std::size_t i = 0; i < states.size(); ++i) {
    for (const FlatEntry& e : layout().parameters) {
      const std::vector<std::string> names = optimizer_states(optimizers.of(e));
      if (e.trained && i < names.size())
        list.push_back({cat(kOptimizerPrefix, e.name, "/", names[i]),
                        e.type,
                        {*states[i], e.offset, e.bytes()}});
    }
  }
  return list;
}

// One batch is in use and one ready; beside them as many as keep all threads busy.
PrefetchOptions Trainer::State::prefetch_options() const {
  const std::int64_t examples = replicas.size() * replica_rows,
                     busy = placement.input_threads * kPrefetchedAtOnce;
  return {.first_step = done,
          .end_step = std::numeric_limits<std::int64_t>::max(),
          .threads = placement.input_threads,
          .depth = static_cast<int>(2 + (busy + examples - 1) / examples),
          .first_example = replicas.begin * replica_rows,
          .examples = examples,
          .readers = static_cast<int>(placement.workers)};
}

const std::string& Trainer::State::Identity::of(const Source& set, StopToken stop) {
  if (text.empty()) text = set.identity(stop);
  return text;
}

void Trainer::identify_data(StopToken stop) const {
  state_->training_identity.of(state_->loader->set(), stop);
  state_->evaluation_identity.of(*state_->held_out, stop);
}

std::string Trainer::training_identity() const {
  return state_->training_identity.of(state_->loader->set());
}

std::string Trainer::evaluation_identity() const {
  return state_->evaluation_identity.of(*state_->held_out);
}

std::string Trainer::training_data() const {
  const Source& set = state_->loader->set();
  return cat(state_->training_identity.of(set), " (", set.origin(), ")");
}

std::string Trainer::evaluation_data() const {
  const Source& set = *state_->held_out;
  return cat(state_->evaluation_identity.of(set), " (", set.origin(), ")");
}

void Trainer::require_same_data(const Checkpoint& checkpoint) const {
  const auto found = checkpoint.metadata.find(kDataKey);
  if (found == checkpoint.metadata.end()) return;  // written before checkpoints knew their data
  PODIUM_REQUIRE(
      found->second == state_->training_identity.of(state_->loader->set()), ExitCode::kData,
      "the checkpoint of step ", checkpoint.step, " was trained on other data: then ",
      found->second, ", now ", training_data(),
      ". Name the place of those with --data-dir, $PODIUM_DATA or data.path= (copies of one "
      "dataset may differ in the order of their examples), or start over with --fresh or another "
      "--out folder");
}

namespace {

// An identity without the hash of contents; empty: it has none.
std::string without_contents(const std::string& identity) {
  const std::size_t begin = identity.find(", contents ");
  if (begin == std::string::npos) return "";
  return identity.substr(0, begin) + identity.substr(identity.find(',', begin + 1));
}

}  // namespace

std::string Trainer::check_evaluation_data(const Checkpoint& checkpoint) const {
  const auto found = checkpoint.metadata.find(kEvaluationDataKey);
  if (found == checkpoint.metadata.end())
    return cat(
        "the checkpoint of step ", checkpoint.step,
        " does not say on which examples its run was evaluated, because an older Podium wrote "
        "it; these are ",
        evaluation_data());
  if (found->second == state_->evaluation_identity.of(*state_->held_out)) return "";
  const std::string names = without_contents(found->second);
  PODIUM_REQUIRE(
      !names.empty() && names == without_contents(evaluation_identity()), ExitCode::kData,
      "the run was evaluated on other data: by the checkpoint of step ", checkpoint.step, " on ",
      found->second, ", now on ", evaluation_data(),
      ". Name the place of those with --data-dir, $PODIUM_DATA or data.path=; to evaluate on "
      "these, train with --fresh or another --out folder");
  return cat("the evaluation set is not as it was: up to step ", checkpoint.step,
             " the run was evaluated on ", found->second, ", from here on it is evaluated on ",
             evaluation_data(),
             "; the training set is the same, so its parameters are those of an undisturbed "
             "run");
}

Checkpoint Trainer::checkpoint() const {
  State& s = *state_;
  Checkpoint checkpoint;
  checkpoint.step = s.done;
  checkpoint.metadata["recipe"] = to_toml(s.recipe);
  checkpoint.metadata["parameter_hash"] = hash_text(parameter_hash());
  checkpoint.metadata[kContractKey] = std::to_string(numerical_contract(precision_of(s.recipe)));
  const Source& set = *s.held_out;
  checkpoint.metadata[kKindKey] = kind();
  checkpoint.metadata[kDataKey] = s.training_identity.of(s.loader->set());
  checkpoint.metadata[kEvaluationDataKey] = s.evaluation_identity.of(set);
  checkpoint.metadata[kFieldsKey] = fields_text(set.fields());
  s.settle();
  // A rank has the optimizer's state of its shard alone, after the first step.
  if (s.done > 0)
    for (const auto& state : s.states) s.exchange->gather_flat(*state, 0);
  for (const DeviceTensor& place : s.places()) {
    Tensor tensor(place.type);
    s.device->download(tensor.data(), place.memory);
    checkpoint.tensors.push_back({place.name, std::move(tensor)});
  }
  if (!s.program.carried.empty()) s.add_carried(checkpoint);
  return checkpoint;
}

void Trainer::restore(const Checkpoint& checkpoint) {
  State& s = *state_;
  const std::vector<DeviceTensor> places = s.places();
  // All is looked up before anything is overwritten.
  std::vector<const Tensor*> found;
  for (const DeviceTensor& place : places)
    found.push_back(&tensor_of(checkpoint, place.name, place.type));
  std::vector<NamedTensor> carried;
  for (const FlatEntry& entry : s.program.carried)
    carried.push_back({entry.name, tensor_of(checkpoint, entry.name, s.all_carried(entry))});
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
  if (!carried.empty()) s.check_carried(checkpoint, carried);
  s.settle();
  for (std::size_t i = 0; i < places.size(); ++i)
    s.device->upload(places[i].memory, found[i]->data());
  s.take_carried(checkpoint.step, carried);
  s.parameter_mirror.pull();
  s.prefetcher.reset();
  s.forget_batches();
  for (Worker& worker : s.workers) worker.adopted.clear();  // of the batches that are gone
  s.gradients_ready = false;
  s.last_hash.reset();
  s.done = checkpoint.step;
}

void Trainer::take_state_of_first_rank() {
  State& s = *state_;
  if (s.ranks() == 1) return;
  s.settle();
  HostMemory done(&s.done, sizeof s.done);
  std::vector<View> all = {done, *s.parameters, *s.statistics};
  for (const auto& state : s.states) all.emplace_back(*state);
  for (const View& view : all) s.exchange->broadcast(view);
  if (!s.program.carried.empty()) s.share_carried_of_first_rank();
  s.prefetcher.reset();
  for (Worker& worker : s.workers) worker.adopted.clear();
  s.gradients_ready = false;
  s.last_hash.reset();
  s.parameter_mirror.pull();
}

void Trainer::start_profile() {
  for (Worker& worker : state_->workers) {
    for (ReplicaRun& run : worker.runs) run.program.executable().start_profile();
    for (Shard& shard : worker.shards)
      if (shard.update) shard.update.executable().start_profile();
  }
}

void Trainer::stop_profile() {
  for (Worker& worker : state_->workers) {
    for (ReplicaRun& run : worker.runs) run.program.executable().stop_profile();
    for (Shard& shard : worker.shards)
      if (shard.update) shard.update.executable().stop_profile();
  }
}

std::vector<KernelProfile> Trainer::profile(std::int64_t worker) const {
  const Worker& w = state_->workers[static_cast<std::size_t>(worker)];
  std::vector<KernelProfile> rows;
  const auto add = [&](const BoundExecutable& program) {
    for (KernelProfile& row : program.executable().profile()) rows.push_back(std::move(row));
  };
  for (const ReplicaRun& run : w.runs) add(run.program);
  for (const Shard& shard : w.shards)
    if (shard.update) add(shard.update);
  return rows;
}

}  // namespace podium
