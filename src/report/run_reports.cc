#include "report/run_reports.h"

namespace podium {

RunReports::RunReports(const std::filesystem::path& run_folder, const TrackerOptions& options)
    : Observers{}, board_(run_folder), report_(run_folder) {
  add(board_);
  add(report_);
  if (!options.mlflow.empty()) {
    mlflow_ = std::make_unique<MlflowTracker>(options.mlflow, run_folder);
    add(*mlflow_);
  }
  if (!options.prometheus.empty()) {
    prometheus_ = std::make_unique<PrometheusFile>(options.prometheus, run_folder);
    add(*prometheus_);
  }
}

void RunReports::finish(const RunResult& result) {
  if (result.steps == result.total_steps) board_.finish();
  report_.finish();
  if (mlflow_) mlflow_->finish(result);
  if (prometheus_) prometheus_->finish();
}

}  // namespace podium
