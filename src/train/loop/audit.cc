// A step made twice. The second time, other threads, and so mostly other cores, do each worker's
// part. Kernels, additions of the tree, messages of ranks and updates all enter what is compared:
// every bit of the state after the step. A device that is wrong now and then is found by that; one
// that is always wrong in the same way, by another device that computes one of its replicas: at
// once, or by another backend of the host while the next steps are made.

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <future>
#include <utility>

#include "base/host_name.h"
#include "base/numerics/hash.h"
#include "base/words.h"
#include "train/loop/trainer_state.h"

namespace podium {

// The values of the flat memories of this rank.
struct Trainer::State::Snapshot {
  struct Part {
    const Buffer* of;
    std::vector<std::byte> bytes;
  };
  std::vector<Part> parts;

  const std::byte* at(const View& view) const {
    const auto part = std::ranges::find(parts, view.buffer, &Part::of);
    return part->bytes.data() + view.offset;
  }
  Tensor tensor(const DeviceTensor& place) const {
    Tensor tensor(place.type);
    std::memcpy(tensor.data(), at(place.memory), static_cast<std::size_t>(place.memory.bytes));
    return tensor;
  }
};

Trainer::State::Snapshot Trainer::State::snapshot() {
  settle();
  Snapshot all;
  std::vector<Buffer*> buffers = {parameters.get(), statistics.get()};
  for (const auto& state : states) buffers.push_back(state.get());
  if (!program.carried.empty()) buffers.push_back(carried.memory[done % 2].get());
  for (Buffer* const buffer : buffers) {
    Snapshot::Part& part = all.parts.emplace_back();
    part.of = buffer;
    part.bytes.resize(static_cast<std::size_t>(buffer->bytes()));
    device->download(part.bytes.data(), *buffer);
  }
  return all;
}

// Before step `step` + 1.
void Trainer::State::return_to(const Snapshot& snapshot, std::int64_t step) {
  settle();
  for (const Snapshot::Part& part : snapshot.parts)
    device->upload(View(const_cast<Buffer&>(*part.of)), part.bytes.data());
  parameter_mirror.pull();
  forget_batches();
  done = step;
}

namespace {

// Of all that a replica's program writes to be added up, in order; `at` says where that lies.
template <typename At>
std::uint64_t hash_of_outputs(const ReplicaRun& run, Device& device, const At& at) {
  std::uint64_t hash = 0;
  std::vector<std::uint8_t> bytes;
  for (const ReplicaRun::FlatOutput& output : run.flat_outputs) {
    bytes.resize(static_cast<std::size_t>(output.bytes));
    device.download(bytes.data(), at(output));
    hash = hash_append(hash, hash_bytes(bytes));
  }
  return hash;
}

}  // namespace

std::uint64_t Trainer::State::replica_hash(Worker& worker, std::int64_t replica) {
  ReplicaRun& run = run_of(worker);
  Buffer& buffer = *worker.free_buffers.back();
  loader->examples(done, replica * replica_rows, replica_rows, run.batch.host());
  run.batch.send();
  bind_examples(run, run.batch, 0, worker.place.view());
  send_place(worker, replica);
  bind_outputs(worker, replica, 0, buffer);
  exchange->finish_updates();
  run.program.run();
  return hash_of_outputs(run, *device, [&](const ReplicaRun::FlatOutput& output) {
    return View(buffer, output.offset, output.bytes);
  });
}

std::vector<std::uint64_t> Trainer::replica_hashes(const std::vector<std::int64_t>& replicas) {
  State& s = *state_;
  s.settle();
  std::vector<std::uint64_t> hashes(replicas.size());
  s.threads->run_on_each(
      [&](int thread) {
        Worker& worker = s.workers[static_cast<std::size_t>(thread)];
        for (std::size_t i = 0; i < replicas.size(); ++i) {
          if (replicas[i] >= worker.replicas.begin && replicas[i] < worker.replicas.end)
            hashes[i] = s.replica_hash(worker, replicas[i]);
        }
      },
      [] {});
  if (s.ranks() == 1) return hashes;
  std::string mine;
  for (const std::uint64_t hash : hashes) mine += hash_text(hash);
  for (const std::string& other : s.placement.ranks->gather(mine))  // 0 where it is another's
    for (std::size_t i = 0; i < hashes.size(); ++i)
      hashes[i] |= std::stoull(other.substr(16 * i, 16), nullptr, 16);
  return hashes;
}

// What a replica's program reads, by name.
struct ReplicaInputs {
  std::vector<std::string> names;
  std::vector<std::vector<std::byte>> values;
};

// What the worker's program read in its last replica_hash().
ReplicaInputs Trainer::State::inputs_of(Worker& worker) {
  const Call call = run_of(worker).program.call();
  ReplicaInputs inputs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    inputs.names.push_back(call.program->plan().inputs[i].name);
    std::vector<std::byte>& bytes = inputs.values.emplace_back();
    bytes.resize(static_cast<std::size_t>(call.inputs[i].bytes));
    device->download(bytes.data(), call.inputs[i]);
  }
  return inputs;
}

// A replica's hash on any device, by any thread.
std::uint64_t Trainer::State::hash_on(Device& on, const Graph& graph, const ReplicaRun& run,
                                      const ReplicaInputs& inputs) {
  BoundExecutable executable(on, graph, {});
  std::vector<std::unique_ptr<Buffer>> memory;
  for (std::size_t i = 0; i < inputs.names.size(); ++i) {
    memory.push_back(on.allocate(std::ssize(inputs.values[i])));
    on.upload(*memory.back(), inputs.values[i].data());
    executable.bind_input(inputs.names[i], *memory.back());
  }
  // Of the same graph, so that outputs have the same numbers.
  std::vector<Buffer*> outputs;
  for (const NamedType& output : executable.executable().plan().outputs) {
    memory.push_back(on.allocate(output.type.bytes()));
    outputs.push_back(memory.back().get());
    executable.bind_output(output.name, *outputs.back());
  }
  executable.run();
  return hash_of_outputs(
      run, on, [&](const ReplicaRun::FlatOutput& output) { return View(*outputs[output.slot]); });
}

// A replica that another backend of this host computes while training goes on.
struct Trainer::State::BesideCheck {
  std::int64_t step = 0, replica = 0;  // of the step after this one
  Worker* worker = nullptr;
  const ReplicaRun* run = nullptr;
  const Graph* graph = nullptr;
  std::uint64_t hash = 0;  // by the worker
  ReplicaInputs inputs;
  std::shared_ptr<const Snapshot> before;
  std::future<std::uint64_t> other;
};

namespace {

// "on host a (cuda, NVIDIA H100 ..., GPU-1b2c...)"
std::string place_of(const Device& device, int worker) {
  return cat("on ", host_name(), " (", device.name(), ", ", device.description(),
             device.serial(worker).empty() ? "" : ", ", device.serial(worker), ")");
}

// What a device says of itself to all ranks: who it is, and what it computed, as text.
struct Witness {
  std::string who;
  std::array<std::uint64_t, 3> hashes = {};

  std::string text() const {
    return cat(hash_text(hashes[0]), hash_text(hashes[1]), hash_text(hashes[2]), who);
  }
  static Witness of(const std::string& text) {
    Witness witness;
    for (std::size_t i = 0; i < 3; ++i)
      witness.hashes[i] = std::stoull(text.substr(16 * i, 16), nullptr, 16);
    witness.who = text.substr(48);
    return witness;
  }
  bool is_steady() const { return hashes[0] == hashes[1] && hashes[0] == hashes[2]; }
};

}  // namespace

void Trainer::State::begin_check(std::int64_t replica, std::shared_ptr<const Snapshot> before) {
  is_checking = true;
  if (replica < replicas.begin || replica >= replicas.end) return;
  Worker& own = owner(replica);
  check = std::make_shared<BesideCheck>();
  check->step = done;
  check->replica = replica;
  check->worker = &own;
  check->run = &run_of(own);
  check->graph = &program_of(loader->bucket_of(done)).graph;
  check->hash = replica_hash(own, replica);
  check->inputs = inputs_of(own);
  check->before = std::move(before);
  // The cores that training leaves: all but one where it has a device of its own.
  const int cores = usable_cores();
  const int threads = device->traits().devices > 0 ? std::max(1, cores - 1) : 1;
  check->other = std::async(std::launch::async,
                            [backend = recipe.audit_backend, threads, own_check = check.get()] {
                              return hash_on(*make_device(backend, {.threads = threads}),
                                             *own_check->graph, *own_check->run, own_check->inputs);
                            });
}

// Waits for it. Null: there is none, or it has the same gradients. All ranks know what is found.
std::shared_ptr<const Disagreement> Trainer::State::end_check() {
  if (!std::exchange(is_checking, false)) return nullptr;
  Disagreement found{.step = done, .text = "", .ranks = {}, .tensors = {}};
  std::vector<int> wrong;
  const auto own = std::exchange(check, nullptr);
  if (own && own->other.get() != own->hash) {
    wrong.push_back(rank());
    found.text =
        cat("replica ", own->replica, " of step ", own->step + 1, " has other gradients on rank ",
            rank(), ", worker ", own->worker->number, " ", place_of(*device, own->worker->number),
            " than the backend ", recipe.audit_backend, " of that host computes",
            hash_on(*device, *own->graph, *own->run, own->inputs) == own->hash
                ? ""
                : "; computed again, they differ themselves");
    found.step = own->step + 1;
  }
  return told_to_all(std::move(found), wrong, [&](Disagreement& told) {
    if (own) add_step_to(told, own->step, *own->before);
  });
}

std::shared_ptr<const Disagreement> Trainer::end_audit() { return state_->end_check(); }

// The batch of the step after this one, and the values before it.
void Trainer::State::add_step_to(Disagreement& found, std::int64_t step,
                                 const Snapshot& before) const {
  for (NamedTensor& field : batch_of(step)) found.tensors.push_back(std::move(field));
  for (const DeviceTensor& place : places())
    found.tensors.push_back({inspected_name(place.name, "before"), before.tensor(place)});
}

// What any rank has found, as all of them then know it; null: nothing. `wrong`: the ranks of which
// this one says that their devices are wrong. add() adds what this rank has of the step.
std::shared_ptr<const Disagreement> Trainer::State::told_to_all(
    Disagreement found, const std::vector<int>& wrong,
    const std::function<void(Disagreement&)>& add) {
  if (ranks() > 1) {
    std::string all;
    for (const std::string& text : placement.ranks->gather(found.text))
      if (!text.empty() && all.find(text) == std::string::npos)
        all += cat(all.empty() ? "" : "; ", text);
    std::int64_t step = 0;
    for (const std::string& text :
         placement.ranks->gather(cat(found.text.empty() ? 0 : found.step)))
      step = std::max<std::int64_t>(step, std::stoll(text));
    found.ranks = known_to_all(wrong);
    found.text = all;
    found.step = step;
  }
  if (found.text.empty()) return nullptr;
  add(found);
  return std::make_shared<const Disagreement>(std::move(found));
}

// A replica on its own device and on another one, thrice where they differ. Empty: they do not, or
// there is one device.
std::string Trainer::State::cross_check(std::int64_t replica, std::vector<int>& wrong) {
  const int count = std::max(1, ranks());
  const auto devices = static_cast<std::int64_t>(device->traits().devices);
  const bool several = devices > 1 && std::ssize(workers) > 1;
  if (count == 1 && !several) return "";
  // Another rank has not what the replica carries.
  if (count > 1 && !program.carried.empty()) return "";
  const std::uint64_t draw = hash_mix(recipe.seed + static_cast<std::uint64_t>(done) + 1);
  int owner_rank = 0;
  while (replica >= shards.replicas_of(owner_rank, recipe.replicas).end) ++owner_rank;
  const int other_rank =
      count == 1 ? 0 : (owner_rank + 1 + static_cast<int>(draw % (count - 1U))) % count;
  Worker* own = rank() == owner_rank ? &owner(replica) : nullptr;
  Worker* other = nullptr;
  if (rank() == other_rank) {
    const std::size_t n = workers.size();
    other = &workers[count > 1 ? draw % n
                               : (static_cast<std::size_t>(own->number) + 1 + draw % (n - 1)) % n];
  }
  const auto compute = [&](Worker* worker, int times) {
    Witness witness;
    if (worker == nullptr) return witness;
    witness.who =
        cat("rank ", rank(), ", worker ", worker->number, " ", place_of(*device, worker->number));
    for (int i = 0; i < times; ++i)
      witness.hashes[static_cast<std::size_t>(i)] = replica_hash(*worker, replica);
    return witness;
  };
  const auto tell = [&](const Witness& mine, int of) {
    if (count == 1) return mine;
    return Witness::of(placement.ranks->gather(mine.text())[static_cast<std::size_t>(of)]);
  };
  if (tell(compute(own, 1), owner_rank).hashes[0] == tell(compute(other, 1), other_rank).hashes[0])
    return "";
  const Witness first = tell(compute(own, 3), owner_rank);
  const Witness second = tell(compute(other, 3), other_rank);
  // The reference has the bits of exact devices alone.
  const bool is_exact =
      device->traits().exact_fp32 && (!precision.bf16 || device->bf16().computes(*precision.bf16));
  Witness judge;
  if (own != nullptr && is_exact)
    judge.hashes[0] = hash_on(*make_device("reference"), program_of(loader->bucket_of(done)).graph,
                              run_of(*own), inputs_of(*own));
  judge = tell(judge, owner_rank);
  std::string text =
      cat("replica ", replica, " has other gradients on ", first.who, " than on ", second.who);
  for (const auto& [one, its_rank] :
       {std::pair{&first, owner_rank}, std::pair{&second, other_rank}}) {
    if (!one->is_steady())
      text += cat("; computed thrice, the former differ from each other on ", one->who);
    else if (is_exact && one->hashes[0] != judge.hashes[0])
      text += cat("; those of ", one->who, " are not the reference interpreter's");
    else
      continue;
    wrong.push_back(its_rank);
  }
  return text;
}

// Workers whose replicas differ when they are computed again, as text; empty: none.
std::string Trainer::State::workers_that_differ() {
  constexpr int kTimes = 3;
  std::string text;
  for (Worker& worker : workers) {
    bool differs = false;
    for (std::int64_t replica = worker.replicas.begin; replica < worker.replicas.end; ++replica) {
      const std::uint64_t hash = replica_hash(worker, replica);
      for (int i = 1; i < kTimes; ++i) differs |= replica_hash(worker, replica) != hash;
    }
    if (differs) text += cat(text.empty() ? "" : ", ", worker.number);
  }
  return text;
}

// What any rank says, without doubles.
std::vector<int> Trainer::State::known_to_all(const std::vector<int>& numbers) {
  std::string mine(static_cast<std::size_t>(ranks()), '0');
  for (const int number : numbers) mine[static_cast<std::size_t>(number)] = '1';
  std::vector<int> all;
  const std::vector<std::string> texts = placement.ranks->gather(mine);
  for (int number = 0; number < ranks(); ++number)
    if (std::ranges::any_of(texts, [&](const std::string& text) {
          return text[static_cast<std::size_t>(number)] == '1';
        }))
      all.push_back(number);
  return all;
}

StepResult Trainer::State::audited(const StepOptions& options) {
  const std::int64_t step = done;
  if (auto earlier = end_check()) {
    StepResult not_made;
    not_made.step = step;
    not_made.disagreement = std::move(earlier);
    return not_made;
  }
  Disagreement found{.step = step + 1, .text = "", .ranks = {}, .tensors = {}};
  const auto differ = [&](const std::string& text) {
    found.text += cat(found.text.empty() ? "" : "; ", text);
  };
  const bool may_have_changed = parameter_mirror.is_open();  // by the caller
  const auto kept = std::make_shared<const Snapshot>(snapshot());
  const Snapshot& before = *kept;
  if (last_hash && !may_have_changed) {
    const std::uint64_t hash = with_carried_hash(parameter_hash());
    if (hash != *last_hash)
      differ(cat("the parameters changed in memory after step ", step, ": their hash was ",
                 hash_text(*last_hash), " and is ", hash_text(hash)));
  }
  StepOptions how = options;
  how.throw_on_divergence = false;
  is_repeated = true;
  const StepResult first = make(Part::kWhole, how);
  const Snapshot after_first = snapshot();
  return_to(before, step);
  const auto drawn =
      static_cast<std::int64_t>(hash_mix(recipe.seed ^ static_cast<std::uint64_t>(step)) %
                                static_cast<std::uint64_t>(recipe.replicas));
  std::vector<int> wrong_ranks;
  if (const std::string text = cross_check(drawn, wrong_ranks); !text.empty()) differ(text);
  if (recipe.audit_backend != "none") begin_check(drawn, kept);
  is_repeated = false;
  moved_by = 1;
  StepResult result = make(Part::kWhole, how);
  moved_by = 0;
  const Snapshot after_second = snapshot();

  std::vector<std::string> names;
  std::int64_t values = 0;
  for (const DeviceTensor& place : places()) {
    const auto bytes = static_cast<std::size_t>(place.memory.bytes);
    const std::byte* const a = after_first.at(place.memory);
    const std::byte* const b = after_second.at(place.memory);
    if (std::memcmp(a, b, bytes) == 0) continue;
    names.push_back(place.name);
    for (std::size_t i = 0; i < bytes; i += kWord) values += std::memcmp(a + i, b + i, kWord) != 0;
    found.tensors.push_back({"second/" + place.name, after_second.tensor(place)});
  }
  const bool carried_differ =
      !program.carried.empty() && after_first.parts.back().bytes != after_second.parts.back().bytes;
  const bool results_differ = std::bit_cast<std::uint32_t>(first.sums.loss) !=
                                  std::bit_cast<std::uint32_t>(result.sums.loss) ||
                              first.sums.counts != result.sums.counts ||
                              first.non_finite.empty() != result.non_finite.empty();
  if (!names.empty() || carried_differ || results_differ) {
    std::string what = carried_differ ? "carried values" : "the loss";
    if (!names.empty())
      what = cat(count_text(values, "value"), " of ", count_text(std::ssize(names), "tensor"),
                 ", the first ", names.front());
    differ(cat("computed twice by rank ", rank(), " ", place_of(*device, 0),
               ", the step gave other values in ", what));
    return_to(before, step);
    const std::string wrong = workers_that_differ();
    if (!wrong.empty()) wrong_ranks.push_back(rank());
    differ(wrong.empty() ? "computed again, each worker's replicas have the same gradients every "
                           "time, so that it does not happen always"
                         : cat("computed again, replicas differ on worker ", wrong));
    return_to(after_second, step + 1);
  }
  result.disagreement = told_to_all(std::move(found), wrong_ranks, [&](Disagreement& told) {
    add_step_to(told, step, before);
    for (const DeviceTensor& place : places())
      told.tensors.push_back({inspected_name(place.name, "after"), after_first.tensor(place)});
  });
  if (result.disagreement) {
    // Nothing follows beside which it might go on.
    if (const auto beside = end_check()) {
      auto both = std::make_shared<Disagreement>(*result.disagreement);
      both->text += cat("; ", beside->text);
      for (const int rank : beside->ranks)
        if (std::ranges::find(both->ranks, rank) == both->ranks.end()) both->ranks.push_back(rank);
      result.disagreement = std::move(both);
    }
  } else if (!result.non_finite.empty() && options.throw_on_divergence) {
    throw UserError(cat("step ", result.step, ": ", result.divergence()), ExitCode::kDiverged);
  }
  result.seconds += first.seconds;
  return result;
}

}  // namespace podium
