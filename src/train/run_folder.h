// The folder of one run and the lock on it:
//
//   recipe.toml  environment.json  hashes.jsonl  metrics.jsonl  checkpoints/  tensorboard/  .lock
//   failures.jsonl (of ranks: parallel/failure_record.h)
//
// hashes.jsonl has one line a step, {"step": 12, "hash": "00f1..."}; metrics.jsonl one line per
// report. Lines are buffered and reach the disk before a checkpoint of their step becomes visible.
// So a run that resumes from step S finds every line up to S, cuts the rest away and writes on: the
// files read like those of an uninterrupted run. A torn last line, left by a kill, is no error. A
// damaged line among those up to S is left out, and the file as it was is kept beside the new one.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/stop.h"
#include "train/checkpoint.h"
#include "train/file_io.h"

namespace podium {

// A file of JSON lines that begin with {"step": N, by rising N.
class JsonLines {
 public:
  explicit JsonLines(std::filesystem::path path);  // makes no file yet
  // Appends a line (whole, without its newline). About a microsecond: it is written later.
  void append(std::string_view line);
  // Writes what is buffered; with `sync`, waits until it is on the disk.
  void flush(bool sync);
  // What cut_after() found that should not be there.
  struct Damage {
    std::vector<std::int64_t> lines;  // their numbers, counted from 1; none: nothing was wrong
    std::filesystem::path original;   // the file as it was, where something was wrong
  };
  // The step of a line, or nothing for one that cannot be read.
  using StepOf = std::function<std::optional<std::int64_t>(std::string_view)>;
  // Drops what is buffered, and the lines of a step above `step`. Lines among the others that are
  // not readable, or whose step is out of order, are left out, and the file as it was is kept
  // beside this one; with `rising`, a step may stand once. A kill at any moment leaves the file as
  // it was or as it should be. A last line without its newline is torn, which is no damage.
  Damage cut_after(std::int64_t step, const StepOf& step_of, bool rising);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  OutputFile file_;
  std::string buffer_;
  std::chrono::steady_clock::time_point flushed_;
};

struct MetricField {
  std::string_view name;
  std::variant<double, std::int64_t, std::string_view> value;  // not finite: null in the file
};

class RunFolder {
 public:
  // Makes the folder where there is none and locks it for the life of this object. UserError
  // (kData) where another process holds it, naming that process, or where it cannot be written.
  explicit RunFolder(std::filesystem::path dir);
  ~RunFolder();  // flushes; errors are logged, so call flush() where they matter
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& dir() const { return dir_; }

  // The resolved recipe that this folder holds; nothing in a new one.
  std::optional<std::string> recipe() const;
  // Writes the recipe into a new folder. UserError (kUsage) with the difference, line by line,
  // where the folder is of another recipe.
  void adopt_recipe(std::string_view text);
  // Moves what an earlier run left into DIR/previous-1 (-2, ...); nothing is deleted.
  void start_afresh();

  // Gives the newest whole checkpoint (newer, damaged ones are set aside) to `restore` and, unless
  // that throws, cuts both files to its step; with none, both are cut to step 0. `warn` is told of
  // damaged lines: they are left out, and the file as it was stays as FILE.damaged-1 (-2, ...).
  // Throws Stopped where `stop` says so before any file is changed.
  void resume(const std::function<void(const Checkpoint&)>& restore,
              const std::function<void(const std::string&)>& warn, StopToken stop = {});

  void append_hash(std::int64_t step, std::uint64_t hash);
  void append_metrics(std::int64_t step, std::span<const MetricField> fields);
  void append_metrics(std::int64_t step, std::initializer_list<MetricField> fields) {
    append_metrics(step, std::span(fields.begin(), fields.size()));
  }
  void flush();
  // Whether metrics.jsonl has an evaluation after this step.
  bool has_evaluation(std::int64_t step);

  // Puts the lines on the disk, then writes the checkpoint. Lines of its step must have been
  // appended, and other files of the run (TensorBoard) flushed, before.
  void save(const Checkpoint& checkpoint, int keep);
  // The same for the best checkpoint.
  void save_best(const Checkpoint& checkpoint);

 private:
  void lock();
  void remove_half_written();
  std::filesystem::path dir_;
  int lock_ = -1;
  JsonLines hashes_, metrics_;
};

// UserError (kUsage) where a run must not have this folder: it is a file, the current folder or one
// above that, which hold more than one run.
void require_own_folder(const std::filesystem::path& dir);

// Whether the folder is that of a run: it has a recipe.
bool holds_run(const std::filesystem::path& dir);

// UserError (kData) where the folder is not that of a run, or may not be read.
void require_run(const std::filesystem::path& run);

// UserError (kData) where a checkpoint in `dir` was written by a run of another recipe than that of
// the folder.
void require_same_recipe(const Checkpoint& checkpoint, const std::filesystem::path& dir);

// The newest checkpoint of a run that is whole; damaged ones that were passed over are logged.
// UserError (kData) where the folder holds no run, or none of its own recipe.
Checkpoint last_checkpoint(const std::filesystem::path& run);
// The checkpoint of a step, "best" or a number; empty: last_checkpoint(). UserError (kUsage) where
// the run keeps no such one, with those that it keeps.
Checkpoint checkpoint_of(const std::filesystem::path& run, const std::string& step);

// The lines that two texts do not share, as "- old" and "+ new", in order.
std::string line_difference(std::string_view before, std::string_view after);

}  // namespace podium
