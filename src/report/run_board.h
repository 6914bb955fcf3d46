// A run's curves in TensorBoard: RUN/tensorboard, for `tensorboard --logdir`. An observer of run()
// (train/run.h); join it with others by Observers. The file itself is report/tensorboard.h's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "train/run.h"

namespace podium {

class TensorBoardWriter;

// Writes train/loss, train/accuracy, train/learning_rate, speed/... at each point of the curves,
// and test/accuracy and test/loss (validation/... where the recipe holds out a part of the training
// set) at each evaluation. A run that was at its end already writes nothing.
class RunBoard : public RunObserver {
 public:
  // RunOptions::out of the run. The folder in it is made when the run starts.
  explicit RunBoard(const std::filesystem::path& run_folder);
  ~RunBoard() override;

  void started(const Trainer& trainer, std::int64_t first_step, std::int64_t last_step) override;
  void measured(const RunMetrics& metrics) override;
  void evaluated(const Trainer& trainer, const EvaluationResult& result) override;
  void saving(std::int64_t step) override;

 private:
  std::filesystem::path folder_;
  std::unique_ptr<TensorBoardWriter> writer_;  // null: before the run, or nothing to write
};

}  // namespace podium
