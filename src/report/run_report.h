// RUN/report.html, rewritten while the run goes on. An observer of run() (train/run.h); join it
// with others by Observers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "train/run.h"

namespace podium {

struct RunPage;

// Writes the page when the run starts and ends, and every ten seconds at
// most. A page that cannot be written ends no run; that is said once.
class RunReport : public RunObserver {
 public:
  // RunOptions::out of the run.
  explicit RunReport(const std::filesystem::path& run_folder);
  ~RunReport() override;

  void started(const Trainer& trainer, std::int64_t first_step, std::int64_t last_step) override;
  void measured(const RunMetrics& metrics) override;
  void evaluated(const Trainer& trainer, const EvaluationResult& result) override;
  // To be called when run() has returned: the page with what the whole run took.
  void finish();

 private:
  void write(bool goes_on);

  std::filesystem::path folder_;
  std::unique_ptr<RunPage> page_;  // null: before the run
  double written_ = 0;             // when, by steady_seconds()
  bool failed_ = false;
};

}  // namespace podium
