// What a model carries from step to step, such as the state of a recurrent network: values of each
// replica, a row for each example of its batch. Row k of a batch goes on, in the next step, where
// it ended (VisitOrder::kStreams), and so does the state. The rows of all replicas begin anew in
// the first step of an epoch, from zeros. A replica takes its state along to whichever worker or
// rank runs it.
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "base/numerics/hash.h"
#include "train/loop/trainer_state.h"

namespace podium {
namespace {

std::string names_of(const std::vector<FlatEntry>& carried) {
  std::string names;
  for (const FlatEntry& entry : carried)
    names += cat(names.empty() ? "\"" : ", \"", entry.name.substr(kCarriedPrefix.size()), "\"");
  return names;
}

}  // namespace

void Trainer::State::require_streams() const {
  PODIUM_REQUIRE(program.carried.empty() || data.order == VisitOrder::kStreams, ExitCode::kUsage,
                 "model ", recipe.model, " carries ", names_of(program.carried),
                 " from step to step, and the training set's rows do not go on where those of the "
                 "step before ended; give it a set that is visited as streams: text with "
                 "`data.order` = \"streams\", or a source whose order() is VisitOrder::kStreams");
  const std::int64_t streams = recipe.evaluation.streams;
  PODIUM_REQUIRE(!program.carried.empty() || streams == 1, ExitCode::kUsage,
                 "`evaluation.streams` = ", streams, ", but model ", recipe.model,
                 " carries nothing from step to step; remove it");
  PODIUM_REQUIRE(program.carried.empty() || streams <= data.held_out, ExitCode::kUsage,
                 "`evaluation.streams` = ", streams, ", but the held-out set has ", data.held_out,
                 " examples; use at most as many streams");
}

// That evaluation carries what training does.
void Trainer::State::require_same_carried(const Graph& evaluation) const {
  const auto row_of = [](const TensorType& type) {
    const auto& extents = type.shape.extents();
    return TensorType{type.dtype, Shape({extents.begin() + 1, extents.end()})};
  };
  std::size_t found = 0;
  bool same = true;
  for (const NamedValue& input : evaluation.inputs()) {
    if (!input.name.starts_with(kCarriedPrefix)) continue;
    same = same && found < program.carried.size() && program.carried[found].name == input.name &&
           row_of(program.carried[found].type) == row_of(evaluation.type(input.value));
    ++found;
  }
  PODIUM_REQUIRE(same && found == program.carried.size(), ExitCode::kUsage, "model ", recipe.model,
                 " does not carry the same values in evaluation as in training (there it carries ",
                 program.carried.empty() ? "nothing" : names_of(program.carried),
                 "); a model must carry the same ones in both, whatever Network::mode() is");
}

void Trainer::State::allocate_carried() {
  for (auto& memory : carried.memory)
    memory = device->allocate(replicas.size() * program.carried_bytes);
  carried.zeros = device->allocate(program.carried_bytes);
  carried.hashes.resize(static_cast<std::size_t>(recipe.replicas) * program.carried.size());
}

void Trainer::State::prepare_carried_hashes() {
  std::vector<std::span<std::byte>> parts;
  for (int rank = 0; rank < ranks(); ++rank) {
    const ReplicaRange own = shards.replicas_of(rank, recipe.replicas);
    const std::size_t values = program.carried.size();
    parts.push_back(
        std::as_writable_bytes(std::span(carried.hashes)
                                   .subspan(static_cast<std::size_t>(own.begin) * values,
                                            static_cast<std::size_t>(own.size()) * values)));
  }
  exchange->add(carried.hash_round, parts);
}

TensorType Trainer::State::all_carried(const FlatEntry& entry) const {
  std::vector<std::int64_t> extents = {recipe.replicas};
  extents.insert(extents.end(), entry.shape().extents().begin(), entry.shape().extents().end());
  return {entry.type.dtype, Shape(std::move(extents))};
}

View Trainer::State::carried_view(std::int64_t step, std::int64_t replica,
                                  const FlatEntry& entry) const {
  return {*carried.memory[step % 2],
          (replica - replicas.begin) * program.carried_bytes + entry.offset, entry.bytes()};
}

// Read: what the step before left, or zeros. Written: what the next one reads.
void Trainer::State::bind_carried(Worker& worker, std::int64_t replica) {
  if (program.carried.empty()) return;
  ReplicaRun& run = run_of(worker);
  const bool begins = loader->begins(done);
  for (std::size_t i = 0; i < program.carried.size(); ++i) {
    const FlatEntry& entry = program.carried[i];
    run.program.set_input(run.carried_inputs[i],
                          begins ? View(*carried.zeros, entry.offset, entry.bytes())
                                 : carried_view(done, replica, entry));
    run.program.set_output(run.carried_outputs[i], carried_view(done + 1, replica, entry));
  }
}

std::string Trainer::State::first_non_finite_carried() const {
  if (program.carried.empty()) return "";
  std::string found;
  for (const FlatEntry& entry : program.carried) {
    for (std::int64_t r = replicas.begin; r < replicas.end; ++r) {
      if (entry.type.dtype != DType::kF32 || !found.empty()) continue;
      const HostCopy values(*device, carried_view(done, r, entry));
      const TensorView view{entry.name, entry.shape(), values.at<float>()};
      found = podium::first_non_finite({&view, 1});
    }
  }
  if (ranks() == 1) return found;
  for (const std::string& name : placement.ranks->gather(found))
    if (found.empty()) found = name;
  return found;
}

// Appends the hashes of what all replicas carry, each a tensor: of one value, then of the next.
std::uint64_t Trainer::State::with_carried_hash(std::uint64_t hash) {
  const std::size_t values = program.carried.size();
  if (values == 0) return hash;
  const HostCopy memory(*device, *carried.memory[done % 2]);
  for (std::int64_t r = replicas.begin; r < replicas.end; ++r) {
    for (std::size_t i = 0; i < values; ++i) {
      const FlatEntry& entry = program.carried[i];
      const auto count = static_cast<std::size_t>(entry.elements());
      const float* const words =
          memory.at<float>((r - replicas.begin) * program.carried_bytes + entry.offset);
      carried.hashes[static_cast<std::size_t>(r) * values + i] =
          hash_tensor(hash_sum({words, count}), count);
    }
  }
  if (ranks() > 1) exchange->exchange(carried.hash_round);
  for (std::size_t i = 0; i < values; ++i)
    for (std::size_t r = 0; r < static_cast<std::size_t>(recipe.replicas); ++r)
      hash = hash_append(hash, carried.hashes[r * values + i]);
  return hash;
}

// As [replicas, rows, ...], of all ranks.
void Trainer::State::add_carried(Checkpoint& checkpoint) {
  checkpoint.metadata[kCarriedHashKey] = hash_text(with_carried_hash(0));
  for (const FlatEntry& entry : program.carried) {
    Tensor all(all_carried(entry));
    auto* const bytes = static_cast<std::byte*>(all.data());
    for (std::int64_t r = replicas.begin; r < replicas.end; ++r)
      device->download(bytes + r * entry.bytes(), carried_view(done, r, entry));
    std::vector<std::span<std::byte>> parts;
    for (int rank = 0; rank < ranks(); ++rank) {
      const ReplicaRange own = shards.replicas_of(rank, recipe.replicas);
      parts.emplace_back(bytes + own.begin * entry.bytes(),
                         static_cast<std::size_t>(own.size() * entry.bytes()));
    }
    exchange->all_gather(parts);
    checkpoint.tensors.push_back({entry.name, std::move(all)});
  }
}

// That these are what the checkpoint states.
void Trainer::State::check_carried(const Checkpoint& checkpoint,
                                   const std::vector<NamedTensor>& tensors) const {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto count = static_cast<std::size_t>(program.carried[i].elements());
    const auto* const words = static_cast<const float*>(tensors[i].tensor.data());
    for (std::size_t r = 0; r < static_cast<std::size_t>(recipe.replicas); ++r)
      hash = hash_append(hash, hash_tensor(hash_sum({words + r * count, count}), count));
  }
  const auto stated = checkpoint.metadata.find(kCarriedHashKey);
  PODIUM_REQUIRE(stated == checkpoint.metadata.end() || stated->second == hash_text(hash),
                 ExitCode::kData, "the carried values of the checkpoint of step ", checkpoint.step,
                 " have the hash ", hash_text(hash), ", and it states ", stated->second,
                 ": they were changed after it was written; restore it from a copy, or start over "
                 "with --fresh");
}

// Of all replicas, as they are before step `step`.
void Trainer::State::take_carried(std::int64_t step, const std::vector<NamedTensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const FlatEntry& entry = program.carried[i];
    const auto* const bytes = static_cast<const std::byte*>(tensors[i].tensor.data());
    for (std::int64_t r = replicas.begin; r < replicas.end; ++r)
      device->upload(carried_view(step, r, entry), bytes + r * entry.bytes());
  }
  if (ranks() > 1) carried.of_all_replicas = tensors;
}

// What the first rank restored; where it restored nothing, each has its own already.
void Trainer::State::share_carried_of_first_rank() {
  std::int64_t restored = carried.of_all_replicas.empty() ? 0 : 1;
  HostMemory flag(&restored, sizeof restored);
  exchange->broadcast(flag);
  if (restored == 0) return;
  std::vector<NamedTensor> all = std::move(carried.of_all_replicas);
  if (rank() != 0) {
    all.clear();
    for (const FlatEntry& entry : program.carried)
      all.push_back({entry.name, Tensor(all_carried(entry))});
  }
  for (NamedTensor& own : all) {
    HostMemory memory(own.tensor.data(), static_cast<std::size_t>(own.tensor.type().bytes()));
    exchange->broadcast(memory);
  }
  take_carried(done, all);
  carried.of_all_replicas.clear();
}

}  // namespace podium
