// Writes RUN/report.html during a run. An observer of run() (train/run/run.h); Observers combines
// it with others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "train/run/run.h"

namespace podium {

struct RunPage;

// Writes the page when the run starts and ends, and at most every ten seconds in between. If the
// page cannot be written, the run continues, with one warning.
class RunReport : public RunObserver {
 public:
  // RunOptions::out of the run.
  explicit RunReport(const std::filesystem::path& run_folder);
  ~RunReport() override;

  void started(const Trainer& trainer, std::int64_t first_step, std::int64_t last_step) override;
  void measured(const RunMetrics& metrics) override;
  void profiled(const Trainer& trainer, const ProfiledSteps& steps) override;
  void evaluated(const Trainer& trainer, const EvaluationResult& result) override;
  // Call it after run() has returned: writes the page with the totals of the run. The destructor
  // does so after a run that threw.
  void finish();

 private:
  void write(bool goes_on);
  void show_examples(const Source& set, const EvaluationResult& result);

  std::filesystem::path folder_;
  std::unique_ptr<RunPage> page_;  // null: before the run
  double written_ = 0;             // when, by steady_seconds()
  bool failed_ = false;
};

}  // namespace podium
