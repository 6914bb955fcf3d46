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

#include "train/price.h"
#include "train/trainer.h"

namespace podium {

// The sets that a run trains on and is evaluated on.
struct RunData {
  std::shared_ptr<const Source> train, held_out;
};

// Where and how a recipe is run. No result depends on these, but for the last two.
struct RunOptions {
  std::filesystem::path out;  // the run's folder
  std::string data_dir;       // --data-dir; empty: the search order of data/dataset.h
  Placement placement;
  bool fresh = false;  // start over; the contents of the folder are moved aside, not deleted
  std::int64_t stop_steps = 0;  // stop after this step (0: the recipe's last); schedule unchanged
  std::int64_t stop_epochs = 0;
  std::int64_t memory_limit = 0;          // bytes; 0: what this process may use
  std::vector<std::string> command_line;  // for environment.json
  std::optional<ChosenPrice> price;       // of the machines, for environment.json
  // Where the spans of time of all ranks are written at the end, for Perfetto (base/trace.h);
  // empty: they are not kept.
  std::filesystem::path trace;
  // If not null: once its value is not 0, the run saves at the next step boundary and returns with
  // `stopped`. An evaluation is abandoned, and made when the run is resumed. Before the first step,
  // the work under way is abandoned; there is nothing to save.
  const std::atomic<int>* stop_request = nullptr;
  // Sets of the program's own in place of the recipe's dataset: both, or neither. The recipe that
  // the run records then has data = "own" and their sizes. The run goes on with the same training
  // examples or not at all; no command can evaluate it, and `podium predict` needs no data.
  RunData data;
  // Called in every step between the sum of the gradients and the update, as Trainer::step()
  // does. It is no part of the recorded recipe: a run goes on as it began if it is given again.
  std::function<void(Trainer&)> on_gradients;
};

// What a call of run() did.
struct RunResult {
  std::int64_t steps = 0, total_steps = 0;
  double epochs = 0;
  bool stopped = false;  // on request, saved
  // False: stopped before the run was ready for its first step. Nothing was made, and nothing else
  // is known here.
  bool prepared = true;
  bool ended = false;    // by the observer, before its last step; saved and evaluated
  float train_loss = 0;  // of the last step in this call
  // Of the parameters with `parameter_hash`; 0 examples if the run was stopped before they were
  // evaluated.
  EvaluationResult evaluation;
  // The newest evaluation of this call; its `step` says of which parameters. 0 examples: none.
  EvaluationResult last_evaluation;
  std::uint64_t parameter_hash = 0;
  // Of this call: the steps made, the seconds they took, the seconds of evaluation, and the seconds
  // before the first step.
  std::int64_t steps_made = 0;
  double train_seconds = 0, eval_seconds = 0, start_seconds = 0, input_wait_percent = 0;
  std::int64_t peak_memory_bytes = 0;
  double seconds = 0;  // of all of this call
  // That the processors of this machine took, where it tells (RAPL), whatever ran on them.
  std::optional<double> joules = std::nullopt;
};

// The settings that a run resolved before step 1 (guarantee G6), as text for people; stored as
// resolved.txt in the run folder.
std::string describe(const Trainer& trainer);

// One point of the run's curves: the last step's loss and learning rate, and means over the steps
// since the previous point.
struct RunMetrics {
  std::int64_t step = 0;
  double loss = 0, accuracy = 0, learning_rate = 0;
  double steps_per_second = 0, images_per_second = 0, input_wait_percent = 0;
};

// Is told what happens in a run. Every function may be left out. RunBoard (report/run_board.h) is
// one that writes for TensorBoard.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  // The run goes from `first_step` to `last_step`.
  virtual void started(const Trainer&, std::int64_t /*first_step*/, std::int64_t /*last_step*/) {}
  // Called before stepped() of the same step.
  virtual void measured(const RunMetrics&) {}
  virtual void stepped(const Trainer&, const StepResult&) {}
  // Called before the evaluation is recorded, so that the observer can write its files first.
  virtual void evaluated(const Trainer&, const EvaluationResult&) {}
  // Called before a checkpoint becomes visible, so that the observer can write its files first.
  virtual void saving(std::int64_t /*step*/) {}
  // Asked after each step, when what follows it (checkpoint, evaluation) is done: true ends the
  // run here, for early stopping. The same call of run() later would go on from there.
  virtual bool ends_run(const Trainer&) { return false; }
  virtual void warning(const std::string&) {}
};

// Passes all on to several, in their order. They must outlive it.
class Observers : public RunObserver {
 public:
  // None of them is null; each must outlive this object.
  Observers(std::initializer_list<RunObserver*> observers) : observers_(observers) {}
  void started(const Trainer& trainer, std::int64_t first_step, std::int64_t last_step) override {
    for (RunObserver* one : observers_) one->started(trainer, first_step, last_step);
  }
  void measured(const RunMetrics& metrics) override {
    for (RunObserver* one : observers_) one->measured(metrics);
  }
  void stepped(const Trainer& trainer, const StepResult& step) override {
    for (RunObserver* one : observers_) one->stepped(trainer, step);
  }
  void evaluated(const Trainer& trainer, const EvaluationResult& result) override {
    for (RunObserver* one : observers_) one->evaluated(trainer, result);
  }
  void saving(std::int64_t step) override {
    for (RunObserver* one : observers_) one->saving(step);
  }
  // Where one of them says so. All are asked.
  bool ends_run(const Trainer& trainer) override {
    bool ends = false;
    for (RunObserver* one : observers_) ends |= one->ends_run(trainer);
    return ends;
  }
  void warning(const std::string& text) override {
    for (RunObserver* one : observers_) one->warning(text);
  }

 private:
  std::vector<RunObserver*> observers_;
};

// Throws UserError: kData for data (also where a set of options.data is not usable) and for
// checkpoints, kMemory where the limit does not suffice (with a setting that fits), kDiverged where
// a loss, or what a checkpoint or the end of the run would hold, is not finite (the step, and the
// operation or the tensor; the last good checkpoint stays).
RunResult run(const Recipe& recipe, const Model& model, const RunOptions& options,
              RunObserver& observer);

// The sets of the recipe's dataset: its splits, or with `validation` a part of the first. Throws
// UserError(kData) where the files of the dataset are missing or damaged, and Stopped as `stop`
// says.
RunData load_data(const Recipe& recipe, const std::string& data_dir, StopToken stop = {});

// What the training examples of a recipe are, and how many, without loading a dataset. Of pictures
// in files, their index is made or read. Throws UserError(kData).
SourceFields example_fields(const Recipe& recipe, const std::string& data_dir);

// The trainer of a finished or unfinished run, at its last checkpoint. `overrides` are for keys
// that do not affect results, such as evaluation.batch. Throws UserError(kData) if the run was
// evaluated on other data than are found.
struct LoadedRun {
  Recipe recipe;
  std::unique_ptr<Trainer> trainer;
};
// Throws UserError(kData) where the folder holds no run or no whole checkpoint.
LoadedRun load_run(const std::filesystem::path& folder, const std::string& data_dir,
                   const Placement& placement, const std::vector<std::string>& overrides = {},
                   const std::string& step = "");

}  // namespace podium
