// Checkpoints of a run:
//
//   RUN/checkpoints/step-00000470/
//     state.safetensors   parameters NAME, optimizer state optimizer/NAME/m, running statistics, in
//                         the caller's names; metadata: the caller's, and format, format_version
//                         and step
//     checkpoint.json     format version, step, metadata, size and CRC-32 of state.safetensors, and
//                         a CRC-32 of its own text before that line
//   RUN/checkpoints/best/   the same, of the step with the best evaluation (run.keep_best)
//
// A checkpoint is written into a folder aside, synced and renamed into place, so a kill at any
// moment, or a full disk, leaves the earlier ones as they were. Every byte stands under a checksum.
// One process writes (train/run_folder.h holds the lock); any number may read meanwhile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/stop.h"
#include "train/safetensors.h"

namespace podium {

inline constexpr int kCheckpointFormat = 1;
// The key of the metadata that holds the number of the numerical contract (base/contract.h).
inline constexpr const char* kContractKey = "numerical_contract";
// The key for what the model takes and gives: "CHANNELS HEIGHT WIDTH CLASSES".
inline constexpr const char* kInputKey = "input";
// The names of its classes, where they are those of folders: a JSON array.
inline constexpr const char* kClassNamesKey = "class_names";
std::string class_names_text(const std::vector<std::string>& names);
// None where the text is no such array.
std::vector<std::string> parse_class_names(const std::string& text);
// What names of the optimizer's tensors begin with; all others are parameters and statistics.
inline constexpr std::string_view kOptimizerPrefix = "optimizer/";

// The state of a run after a step.
struct Checkpoint {
  std::int64_t step = 0;                        // steps done
  std::map<std::string, std::string> metadata;  // recipe, its hash, ...; text
  std::vector<NamedTensor> tensors;
  // The tensor of that name, or null.
  const Tensor* find(std::string_view name) const { return find_tensor(tensors, name); }
};

// Where a checkpoint lies.
struct CheckpointPlace {
  std::int64_t step = 0;
  std::filesystem::path folder;
};

// The checkpoints of a run by rising step, damaged ones included; none where there are none.
std::vector<CheckpointPlace> list_checkpoints(const std::filesystem::path& run_dir);

// Writes checkpoint `checkpoint.step` and keeps the last `keep` >= 1. Does nothing where that very
// checkpoint is there already. One of a later step, which load_latest must have passed over, is
// renamed to damaged-step-N. UserError (kData) where the disk is full or the folder unwritable; the
// earlier checkpoints are intact then.
void write_checkpoint(const std::filesystem::path& run_dir, const Checkpoint& checkpoint, int keep);

// Writes checkpoint `checkpoint.step` as the best one; it replaces the one that was. It is kept
// whatever write_checkpoint removes. UserError (kData) as of write_checkpoint.
void write_best_checkpoint(const std::filesystem::path& run_dir, const Checkpoint& checkpoint);
// The folder of the best checkpoint, whether there is one or not.
std::filesystem::path best_checkpoint(const std::filesystem::path& run_dir);

// What load_latest does with damaged checkpoints that are newer than the one that it returns.
enum class Damaged { kLeave, kSetAside };  // set aside: renamed to damaged-step-N

// The newest checkpoint that is whole; nothing where a run has none. `warn` is told of each damaged
// one passed over. UserError (kData) where all are damaged, or where the newest whole one has
// another format version. Throws Stopped as `stop` says.
std::optional<Checkpoint> load_latest(const std::filesystem::path& run_dir,
                                      const std::function<void(const std::string&)>& warn,
                                      Damaged damaged = Damaged::kLeave, StopToken stop = {});

// One checkpoint, by its folder; UserError (kData) where it is missing or damaged.
Checkpoint load_checkpoint(const std::filesystem::path& folder);

// What checkpoint.json says.
struct CheckpointRecord {
  std::int64_t step = 0;
  std::map<std::string, std::string> metadata;
  std::uint64_t bytes = 0;  // of state.safetensors
  std::string crc32;
};
// Of its text, whose own checksum is not looked at. `source` names the folder in errors, which are
// UserError (kData).
CheckpointRecord parse_checkpoint_record(std::string_view text, const std::string& source);

// UserError (kData) where the steps so far were computed under another numerical contract, so that
// those to come would not continue them.
void require_same_contract(const Checkpoint& checkpoint);

// Removes what killed writers left. For the process that holds the run's lock.
void clean_checkpoints(const std::filesystem::path& run_dir);

}  // namespace podium
