// The newest values of a run as a file in Prometheus' text format, for the textfile collector of
// its node exporter. An observer of run() (train/run/run.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "report/trackers/scalars.h"
#include "train/run/run.h"

namespace podium {

// Gauges: podium_running, podium_step, podium_last_step, podium_updated_seconds (time
// since 1970), and one for each curve (report/trackers/scalars.h): podium_train_loss,
// podium_speed_tokens_per_second, podium_test_accuracy. Each has the labels `run`, the name of its
// folder, and `recipe`. The file is replaced as a whole at each point of the curves and at each
// evaluation. If it cannot be, the run goes on, with one warning.
class PrometheusFile : public RunObserver {
 public:
  // Throws UserError(kUsage) if the file cannot be written.
  PrometheusFile(std::filesystem::path file, const std::filesystem::path& run_folder);
  // As finish().
  ~PrometheusFile() override;

  void started(const Trainer& trainer, std::int64_t first_step, std::int64_t last_step) override;
  void measured(const RunMetrics& metrics) override;
  void evaluated(const Trainer& trainer, const EvaluationResult& result) override;
  // The run is over.
  void finish();

 private:
  void set(const std::vector<NamedScalar>& scalars);
  void write();

  const std::filesystem::path file_;
  const std::string run_;
  std::string labels_, rate_key_;
  std::map<std::string, double> values_;  // by the gauge's name
  bool is_running_ = false, has_failed_ = false;
};

}  // namespace podium
