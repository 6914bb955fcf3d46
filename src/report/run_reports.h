// All that follows a run: TensorBoard's files, the page, and the trackers that somebody asked for.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "report/pages/run_report.h"
#include "report/trackers/mlflow.h"
#include "report/trackers/prometheus.h"
#include "report/trackers/run_board.h"

namespace podium {

// Where a run is reported outside of its folder; empty: nowhere.
struct TrackerOptions {
  std::string mlflow;                // the address of a tracking server
  std::filesystem::path prometheus;  // a file
};

// An observer of the run.
class RunReports : public Observers {
 public:
  // Throws as the trackers do.
  RunReports(const std::filesystem::path& run_folder, const TrackerOptions& options);
  // Call it after run() has returned; the destructor does what remains after a run that threw.
  void finish(const RunResult& result);

 private:
  RunBoard board_;
  RunReport report_;
  std::unique_ptr<MlflowTracker> mlflow_;
  std::unique_ptr<PrometheusFile> prometheus_;
};

}  // namespace podium
