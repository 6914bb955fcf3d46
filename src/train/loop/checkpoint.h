// Checkpoints of a run:
//
//   RUN/checkpoints/step-00000470/
//     state.safetensors   parameters NAME, optimizer state optimizer/NAME/m, running statistics,
//                         carried values carried.NAME, in the caller's names; metadata: the
//                         caller's, and format, format_version and step
//     checkpoint.json     format version, step, metadata, size and CRC-32 of state.safetensors, and
//                         a CRC-32 of its own text before that line
//   RUN/checkpoints/best/   the same, of the step with the best evaluation (run.keep_best)
//
// A checkpoint is written into a temporary folder, synced and renamed into place, so a kill at any
// moment or a full disk leaves the earlier ones intact. A checksum covers every byte. One process
// writes (train/run/run_folder.h holds the lock); any number may read at the same time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/numerics/precision.h"
#include "base/stop.h"
#include "files/safetensors.h"
#include "nn/network.h"
#include "tensor/field.h"

namespace podium {

inline constexpr int kCheckpointFormat = 1;
// The metadata key for the number of the numerical contract (base/numerics/contract.h).
inline constexpr const char* kContractKey = "numerical_contract";
// Trainer::kind() of the steps before the checkpoint.
inline constexpr const char* kKindKey = "kind";
// Trainer::training_identity() and evaluation_identity().
inline constexpr const char* kDataKey = "training_data";
inline constexpr const char* kEvaluationDataKey = "evaluation_data";
// Trainer::replica_hashes() of the step after it, of all replicas (run.witness).
inline constexpr const char* kWitnessKey = "witness";
// The hash of the carried values alone.
inline constexpr const char* kCarriedHashKey = "carried_hash";
// The prefix of the optimizer's tensors; all others are parameters, statistics and, with
// kCarriedPrefix (nn/network.h), what a model carries from step to step, of all replicas.
inline constexpr std::string_view kOptimizerPrefix = "optimizer/";
// Whether a tensor of a checkpoint belongs to the network itself.
inline bool is_of_network(std::string_view name) {
  return !name.starts_with(kOptimizerPrefix) && !name.starts_with(kCarriedPrefix);
}

// The state of a run after a step.
struct Checkpoint {
  std::int64_t step = 0;                        // steps done
  std::map<std::string, std::string> metadata;  // recipe, its hash, ...; text
  std::vector<NamedTensor> tensors;
  // The tensor of that name, or null.
  const Tensor* find(std::string_view name) const { return find_tensor(tensors, name); }
};

// The metadata key for the fields of the data (tensor/field.h): JSON.
inline constexpr const char* kFieldsKey = "fields";
std::string fields_text(const std::vector<Field>& fields);
// The fields that a checkpoint states, also one of an older Podium, which had one kind of them.
// Empty if it states none. Throws UserError(kData) if its text is not of fields.
std::vector<Field> fields_of(const Checkpoint& checkpoint);

// The step and the folder of a checkpoint.
struct CheckpointPlace {
  std::int64_t step = 0;
  std::filesystem::path folder;
};

// The checkpoints of a run by increasing step, including damaged ones.
std::vector<CheckpointPlace> list_checkpoints(const std::filesystem::path& run_dir);

// Writes checkpoint `checkpoint.step` and keeps the last `keep` >= 1. Does nothing if exactly that
// checkpoint exists already. Checkpoints of later steps, which load_latest must have skipped, are
// renamed to damaged-step-N. Throws UserError(kData) if the disk is full or the folder is not
// writable; the earlier checkpoints are then intact.
void write_checkpoint(const std::filesystem::path& run_dir, const Checkpoint& checkpoint, int keep);

// Writes checkpoint `checkpoint.step` as the best one, replacing the previous best.
// write_checkpoint does not remove it. Throws UserError(kData) as write_checkpoint does.
void write_best_checkpoint(const std::filesystem::path& run_dir, const Checkpoint& checkpoint);
// The folder of the best checkpoint, whether it exists or not.
std::filesystem::path best_checkpoint(const std::filesystem::path& run_dir);

// What load_latest does with damaged checkpoints that are newer than the one that it returns.
enum class Damaged { kLeave, kSetAside };  // set aside: renamed to damaged-step-N

// The newest intact checkpoint; nothing if the run has none. `warn` is called for each damaged one
// that is skipped. Throws UserError(kData) if all are damaged or if the newest intact one has
// another format version. Throws Stopped if `stop` requests it.
std::optional<Checkpoint> load_latest(const std::filesystem::path& run_dir,
                                      const std::function<void(const std::string&)>& warn,
                                      Damaged damaged = Damaged::kLeave, StopToken stop = {});

// The checkpoint in a folder. Throws UserError(kData) if it is missing or damaged.
Checkpoint load_checkpoint(const std::filesystem::path& folder);

// The contents of checkpoint.json.
struct CheckpointRecord {
  std::int64_t step = 0;
  std::map<std::string, std::string> metadata;
  std::uint64_t bytes = 0;  // of state.safetensors
  std::string crc32;
};
// Parses its text, without verifying the checksum in it. `source` names the folder in errors, which
// are UserError(kData).
CheckpointRecord parse_checkpoint_record(std::string_view text, const std::string& source);

// Throws UserError(kData) if the checkpoint was computed under another numerical contract, so that
// further steps would not continue it.
void require_same_contract(const Checkpoint& checkpoint, const Precision& precision);

// Renames the checkpoints of steps above `step` to damaged-step-N. Returns how many.
int set_aside_checkpoints(const std::filesystem::path& run_dir, std::int64_t step);

// Removes files left by killed writers. Only for the process that holds the run's lock.
void clean_checkpoints(const std::filesystem::path& run_dir);

}  // namespace podium
