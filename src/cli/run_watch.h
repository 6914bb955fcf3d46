// Watches a run: live progress and messages.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/progress_line.h"
#include "report/metrics.h"
#include "report/progress.h"
#include "train/run/run.h"

namespace podium {

class RunWatch : public RunObserver {
 public:
  RunWatch(const Recipe& recipe, const RunOptions& options, bool quiet);
  ~RunWatch() override;

  void started(const Trainer& trainer, std::int64_t first_step, std::int64_t last_step) override;
  void measured(const RunMetrics& metrics) override;
  void stepped(const Trainer& trainer, const StepResult& step) override;
  void evaluated(const Trainer& trainer, const EvaluationResult& result) override;
  void saving(std::int64_t step) override;
  void warning(const std::string& text) override;
  void preparing(const std::string& progress) override;

  // The final progress, after the run.
  void finish();

  std::int64_t workers() const { return workers_; }
  const std::string& backend() const { return backend_; }
  const TaskWords& words() const { return words_; }
  const std::vector<std::string>& counts() const { return counts_; }
  std::int64_t items_made() const { return items_made_; }  // in all steps of this command

 private:
  ProgressState progress_state(const Trainer& trainer) const;
  ProgressState with_test(ProgressState state, const Trainer& trainer) const;
  void pause(double seconds_ago);  // training time is paused since then

  const Recipe recipe_;
  const RunOptions options_;
  const bool quiet_;
  std::int64_t workers_ = 0, last_step_ = 0;
  std::int64_t items_made_ = 0;
  TaskWords words_;
  std::vector<std::string> counts_;
  std::string backend_;
  std::optional<ProgressLine> preparing_;
  std::unique_ptr<Progress> progress_;
  std::optional<ThroughputMeter> meter_;
  std::optional<ProgressState> last_;
  double metric_ = kUnknownValue, test_metric_ = kUnknownValue, loss_ = kUnknownValue;
  std::int64_t test_step_ = 0;  // of test_metric_
  bool paused_ = false;
  double begun_ = steady_seconds();  // the command, about
};

}  // namespace podium
