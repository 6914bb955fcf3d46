// Writes a run's curves for TensorBoard: RUN/tensorboard, for `tensorboard --logdir`. An observer
// of run() (train/run/run.h); Observers combines it with others. report/trackers/tensorboard.h
// writes the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "train/run/run.h"

namespace podium {

class TensorBoardWriter;

// Writes train/loss, train/METRIC, train/learning_rate, speed/... at each point of the curves, with
// the names of the task's metrics. At each evaluation: test/METRIC and test/loss (validation/... if
// the recipe holds out a part of the training set); the worst mistakes, where they can be seen;
// with run.histograms, histograms of parameters/... And the recipe's keys as hyperparameters, for a
// page that compares several runs. For a run that was finished already, it writes nothing.
class RunBoard : public RunObserver {
 public:
  // `run_folder` is RunOptions::out of the run. The folder in it is created when the run starts.
  explicit RunBoard(const std::filesystem::path& run_folder);
  ~RunBoard() override;

  void started(const Trainer& trainer, std::int64_t first_step, std::int64_t last_step) override;
  void measured(const RunMetrics& metrics) override;
  void evaluated(const Trainer& trainer, const EvaluationResult& result) override;
  void saving(std::int64_t step) override;
  // Call it after a run that made all of its steps.
  void finish();

 private:
  std::filesystem::path folder_;
  std::string rate_key_;                       // "tokens_per_second"
  std::unique_ptr<TensorBoardWriter> writer_;  // null: before the run, or nothing to write
};

}  // namespace podium
