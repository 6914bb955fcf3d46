// The folder of one run and the lock on it:
//
//   recipe.toml  environment.json  hashes.jsonl  metrics.jsonl  checkpoints/  tensorboard/  .lock
//   failures.jsonl (parallel/failure_record.h)
//   tokenizer/: copies of the files of the tokenizer of a text
//
// hashes.jsonl has one line per step, {"step": 12, "hash": "00f1..."}; metrics.jsonl one line per
// report. Lines are buffered and reach the disk before a checkpoint of their step becomes visible.
// A run that resumes from step S therefore finds every line up to S, removes the rest and appends:
// the files equal those of an uninterrupted run. An incomplete last line, left by a kill, is not an
// error. A damaged line up to S is removed, and the original file is kept beside the new one.
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
#include "files/file_io.h"
#include "train/loop/checkpoint.h"

namespace podium {

// A file of JSON lines that begin with {"step": N, by rising N.
class JsonLines {
 public:
  explicit JsonLines(std::filesystem::path path);  // creates no file yet
  // Appends a line (whole, without its newline). About a microsecond: it is written later.
  void append(std::string_view line);
  // Writes what is buffered; with `sync`, waits until it is on the disk.
  void flush(bool sync);
  // The damage that cut_after() found.
  struct Damage {
    std::vector<std::int64_t> lines;  // line numbers, counted from 1; none: no damage
    std::filesystem::path original;   // the original file, if there was damage
  };
  // The step of a line; nothing if it cannot be read.
  using StepOf = std::function<std::optional<std::int64_t>(std::string_view)>;
  // Drops buffered lines and the lines of steps above `step`. Other lines that are unreadable or
  // whose step is out of order are removed, and the original file is kept beside the new one; with
  // `rising`, each step may occur once. A kill at any moment leaves the old or the new file. A last
  // line without a newline is incomplete and does not count as damage.
  Damage cut_after(std::int64_t step, const StepOf& step_of, bool rising);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  OutputFile file_;
  std::string buffer_;
  std::chrono::steady_clock::time_point flushed_;
};

struct MetricField {
  std::string name;
  std::variant<double, std::int64_t, std::string_view> value;  // not finite: null in the file
};

class RunFolder {
 public:
  // Creates the folder if needed and locks it for the lifetime of this object. Throws
  // UserError(kData) if another process holds the lock (it names that process) or on write errors.
  explicit RunFolder(std::filesystem::path dir);
  ~RunFolder();  // flushes; errors are only logged, so call flush() if they matter
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& dir() const { return dir_; }

  // The resolved recipe in this folder; nothing in a new one.
  std::optional<std::string> recipe() const;
  // Copies the files into the folder's `tokenizer`, unless there is one: prediction needs them when
  // the original ones are gone.
  void keep_tokenizer(const std::vector<std::string>& files);
  // Writes the recipe into a new folder. Throws UserError(kUsage) with the differing lines if the
  // folder belongs to another recipe. One that goes_on_as() the folder's is the same, and the file
  // stays as it is: keep_place() writes the new one.
  void adopt_recipe(std::string_view text);
  // Once it is known that the data are the run's: the recipe has the place where they are now, and
  // what happens to damaged examples from here on.
  void keep_place(std::string_view text);
  // Moves the files of an earlier run to DIR/previous-1 (-2, ...); nothing is deleted.
  void start_afresh();

  // Passes the newest intact checkpoint to `restore` (newer, damaged ones are set aside) and,
  // unless that throws, cuts both files to its step; without a checkpoint, to step 0. Calls `warn`
  // for damaged lines, which are removed; the original file is kept as FILE.damaged-1 (-2, ...).
  // Throws Stopped if `stop` requests it before any file is changed.
  void resume(const std::function<void(const Checkpoint&)>& restore,
              const std::function<void(const std::string&)>& warn, StopToken stop = {});

  void append_hash(std::int64_t step, std::uint64_t hash);
  void append_metrics(std::int64_t step, const std::vector<MetricField>& fields);
  void flush();
  // Whether metrics.jsonl has an evaluation after this step.
  bool has_evaluation(std::int64_t step);

  // Writes the lines to disk, then the checkpoint. The lines of its step must have been appended
  // before, and other files of the run (TensorBoard) flushed.
  void save(const Checkpoint& checkpoint, int keep);
  // The same for the best checkpoint.
  void save_best(const Checkpoint& checkpoint);

 private:
  void lock();
  void remove_half_written();
  void require_in_place() const;
  std::filesystem::path dir_;
  int lock_ = -1;
  JsonLines hashes_, metrics_;
};

// Throws UserError(kUsage) if a run must not use this folder: if it is a file, or the current
// folder or a parent of it, which may contain several runs.
void require_own_folder(const std::filesystem::path& dir);

// Whether the folder is that of a run: it has a recipe.
bool holds_run(const std::filesystem::path& dir);

// Throws UserError(kData) if the folder is not that of a run or cannot be read.
void require_run(const std::filesystem::path& run);

// Throws UserError(kData) if a checkpoint in `dir` was written by a run of another recipe than the
// folder's.
void require_same_recipe(const Checkpoint& checkpoint, const std::filesystem::path& dir);

// The newest intact checkpoint of a run; skipped damaged ones are logged. Throws UserError(kData)
// if the folder contains no run, or no checkpoint of its own recipe.
Checkpoint last_checkpoint(const std::filesystem::path& run);
// The checkpoint of a step, "best" or a number; empty: last_checkpoint(). Throws UserError(kUsage),
// which lists the checkpoints that exist, if the run has no such checkpoint.
Checkpoint checkpoint_of(const std::filesystem::path& run, const std::string& step);

// The lines that two texts do not share, as "- old" and "+ new", in order.
std::string line_difference(std::string_view before, std::string_view after);

}  // namespace podium
