// A run: one recipe with one placement and a results folder. run() trains from the start or from
// the last checkpoint to the end or to a request to stop, and reports to an observer.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/loop/trainer.h"
#include "train/machine/price.h"

namespace podium {

// The sets that a run trains on and is evaluated on.
struct RunData {
  std::shared_ptr<const Source> train, held_out;
  std::vector<std::string> notes = {};            // what people should hear before step 1
  std::vector<std::string> tokenizer_files = {};  // of a text; a run keeps copies
};

// Where and how a recipe is run. Results depend only on the last two.
struct RunOptions {
  std::filesystem::path out;  // the run's folder, on this machine
  std::string data_dir;       // --data-dir; empty: the search order of data/datasets/dataset.h
  Placement placement;
  bool fresh = false;  // start over; the contents of the folder are moved aside, not deleted
  std::int64_t stop_steps = 0;  // stop after this step (0: the recipe's last); schedule unchanged
  std::int64_t stop_epochs = 0;
  std::int64_t memory_limit = 0;          // bytes; 0: what this process may use
  std::vector<std::string> command_line;  // for environment.json
  std::optional<ChosenPrice> price;       // of the machines, for environment.json
  // File for the trace of all ranks, written at the end, for Perfetto (base/trace.h); empty: no
  // trace.
  std::filesystem::path trace;
  // If not null: once its value is not 0, the run saves at the next step boundary and returns with
  // `stopped`. An evaluation is abandoned, and repeated when the run is resumed. Before the first
  // step, the current work is abandoned; there is nothing to save.
  const std::atomic<int>* stop_request = nullptr;
  // The program's own sets instead of the recipe's dataset: both, or neither. The recorded recipe
  // then has data = "own" and their sizes. The run can be resumed only with the same training
  // examples. No command can evaluate it; `podium predict` needs no data.
  RunData data;
  // Called in every step between the sum of the gradients and the update, as Trainer::step()
  // does. It is not part of the recorded recipe; pass it again when you resume the run.
  std::function<void(Trainer&)> on_gradients;
};

// What a call of run() did.
struct RunResult {
  std::int64_t steps = 0, total_steps = 0;
  double epochs = 0;
  bool stopped = false;  // on request, saved
  // False: stopped before the run was ready for its first step, and nothing was saved; or the run
  // went on to its end without this rank. The other fields are not set.
  bool prepared = true;
  bool ended = false;    // by the observer, before its last step; saved and evaluated
  float train_loss = 0;  // of the last step in this call
  // The evaluation of the parameters with `parameter_hash`; 0 examples if the run was stopped
  // before they were evaluated.
  EvaluationResult evaluation;
  // Of run.keep_best: the step of the best checkpoint; 0: there is none.
  std::int64_t best_step = 0;
  // The newest evaluation of this call; its `step` identifies the parameters. 0 examples: none.
  EvaluationResult last_evaluation;
  std::uint64_t parameter_hash = 0;
  // For this call: the number of steps, the seconds that they took, the seconds of evaluation, and
  // the seconds before the first step.
  std::int64_t steps_made = 0;
  double train_seconds = 0, eval_seconds = 0, start_seconds = 0, input_wait_percent = 0;
  std::int64_t peak_memory_bytes = 0;
  double seconds = 0;  // of the whole call
  // Energy of this machine's processors and GPUs, if it reports it (train/machine/energy.h);
  // includes all other programs.
  std::optional<double> joules = std::nullopt;
  std::string joules_of = {};  // of what: "processors (RAPL)"
};

// The settings that a run resolved before step 1 (guarantee G6), as text for people; stored as
// resolved.txt in the run folder.
std::string describe(const Trainer& trainer);

// One point of the run's curves: the last step's loss and learning rate, and means over the steps
// since the previous point.
struct RunMetrics {
  std::int64_t step = 0;
  double loss = 0, learning_rate = 0;
  std::vector<MetricValue> metrics = {};  // the trainer's, over these steps
  // Items: tokens, rows, as the trainer's words say.
  double steps_per_second = 0, items_per_second = 0, input_wait_percent = 0;
};

// Steps whose kernels were timed.
struct ProfiledSteps {
  std::int64_t first = 0, count = 0;
  double seconds = 0;  // that they took
};

// Receives the events of a run. Every function has a default. RunBoard
// (report/trackers/run_board.h) is an observer that writes for TensorBoard.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  // The run will make the steps from `first_step` to `last_step`.
  virtual void started(const Trainer&, std::int64_t /*first_step*/, std::int64_t /*last_step*/) {}
  // Called before stepped() of the same step.
  virtual void measured(const RunMetrics&) {}
  virtual void stepped(const Trainer&, const StepResult&) {}
  // Called once, after some of the first steps: the kernels of these were timed, and
  // Trainer::profile() has their times. With ranks, those of this rank.
  virtual void profiled(const Trainer&, const ProfiledSteps&) {}
  // Called before the evaluation is recorded, so that the observer can write its files first.
  virtual void evaluated(const Trainer&, const EvaluationResult&) {}
  // Called before a checkpoint becomes visible, so that the observer can write its files first.
  virtual void saving(std::int64_t /*step*/) {}
  // Called after each step and its checkpoint and evaluation; true ends the run here, for early
  // stopping. The same call of run() later would resume from there.
  virtual bool ends_run(const Trainer&) { return false; }
  virtual void warning(const std::string&) {}
  // Called now and then while data are read or checked before step 1, by one thread at a time.
  virtual void preparing(const std::string& /*progress*/) {}
};

// Forwards all events to several observers, in their order.
class Observers : public RunObserver {
 public:
  // None of them is null; each must outlive this object.
  Observers(std::initializer_list<RunObserver*> observers) : observers_(observers) {}
  // After those that are there; it must outlive this object.
  void add(RunObserver& observer) { observers_.push_back(&observer); }
  void started(const Trainer& trainer, std::int64_t first_step, std::int64_t last_step) override {
    for (RunObserver* one : observers_) one->started(trainer, first_step, last_step);
  }
  void measured(const RunMetrics& metrics) override {
    for (RunObserver* one : observers_) one->measured(metrics);
  }
  void stepped(const Trainer& trainer, const StepResult& step) override {
    for (RunObserver* one : observers_) one->stepped(trainer, step);
  }
  void profiled(const Trainer& trainer, const ProfiledSteps& steps) override {
    for (RunObserver* one : observers_) one->profiled(trainer, steps);
  }
  void evaluated(const Trainer& trainer, const EvaluationResult& result) override {
    for (RunObserver* one : observers_) one->evaluated(trainer, result);
  }
  void saving(std::int64_t step) override {
    for (RunObserver* one : observers_) one->saving(step);
  }
  // True if one of them returns true. All are called.
  bool ends_run(const Trainer& trainer) override {
    bool ends = false;
    for (RunObserver* one : observers_) ends |= one->ends_run(trainer);
    return ends;
  }
  void warning(const std::string& text) override {
    for (RunObserver* one : observers_) one->warning(text);
  }
  void preparing(const std::string& progress) override {
    for (RunObserver* one : observers_) one->preparing(progress);
  }

 private:
  std::vector<RunObserver*> observers_;
};

// Throws UserError: kData for faults of data (including unusable sets in options.data) and of
// checkpoints; kMemory if the limit is too low (the error names a setting that fits); kDiverged if
// a loss, or a value for a checkpoint or for the end of the run, is not finite (the error names the
// step, and the operation or the tensor; the last good checkpoint remains).
RunResult run(const Recipe& recipe, const Model& model, const RunOptions& options,
              RunObserver& observer);

// The sets of the recipe's dataset: its splits or, with `validation`, two parts of the training
// split. Throws UserError(kData) if files of the dataset are missing or damaged.
RunData load_data(const Recipe& recipe, const std::string& data_dir);

// The recipe with the numbers of its examples, which for data in files are those of `data`.
// Throws UserError(kData), with both numbers, if these or their classes are not as many as the
// recipe states; UserError(kUsage) if the recipe does not fit them, such as a batch that is larger
// than the set.
Recipe with_counts(Recipe recipe, const RunData& data);

// The trainer of a finished or unfinished run, at its last checkpoint. `overrides` are for keys
// that do not affect results, such as evaluation.batch. Throws UserError(kData) if the run was
// evaluated on other data than are found.
struct LoadedRun {
  Recipe recipe;
  std::unique_ptr<Trainer> trainer;
};
// Throws UserError(kData) if the folder contains no run or no intact checkpoint.
LoadedRun load_run(const std::filesystem::path& folder, const std::string& data_dir,
                   const Placement& placement, const std::vector<std::string>& overrides = {},
                   const std::string& step = "");

}  // namespace podium
