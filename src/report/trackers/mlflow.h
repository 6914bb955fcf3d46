// A run in MLflow: its settings, its curves and how it ended, over the REST interface of a tracking
// server. An observer of run() (train/run/run.h).
//
// What is sent is sent by a thread of its own: training never waits for the server, and goes on
// without it. A resumed run is the same run there, which RUN/mlflow.json names.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "report/trackers/scalars.h"
#include "store/http.h"
#include "train/run/run.h"

namespace podium {

// How long the server is waited for.
struct MlflowPatience {
  // Of a request before the first step, and of one later.
  HttpPatience start = {.deadline_seconds = 20, .silent_seconds = 10, .connect_seconds = 5};
  HttpPatience run = {.deadline_seconds = 15, .silent_seconds = 10, .connect_seconds = 5};
  double pause_seconds = 10;  // after a failure
};

// Sends a run to a tracking server.
class MlflowTracker : public RunObserver {
 public:
  // `address` of the server, http:// or https://. The experiment is $MLFLOW_EXPERIMENT_NAME, or
  // "podium"; it is made where there is none. A user and a password are those of
  // $MLFLOW_TRACKING_USERNAME and $MLFLOW_TRACKING_PASSWORD, or a token that of
  // $MLFLOW_TRACKING_TOKEN. Throws UserError(kUsage) if the address is none; kData, with what the
  // server said, if it cannot be reached or refuses.
  MlflowTracker(const std::string& address, const std::filesystem::path& run_folder,
                const MlflowPatience& patience = {});
  // After a run that threw: the run there has failed. What is left is sent as in finish().
  ~MlflowTracker() override;

  void started(const Trainer& trainer, std::int64_t first_step, std::int64_t last_step) override;
  void measured(const RunMetrics& metrics) override;
  void evaluated(const Trainer& trainer, const EvaluationResult& result) override;
  // Call it after run() has returned. Waits for what is left, for a limited time; what the server
  // has not taken then is told in a warning.
  void finish(const RunResult& result);

 private:
  struct Point {
    std::string name;
    double value;
    std::int64_t step, milliseconds;  // since 1970
  };
  class Server;

  void add(std::int64_t step, const std::vector<NamedScalar>& scalars);
  void work();
  // Takes the first points away, as many as a request takes.
  std::vector<Point> take_points();
  void send_points(Server& server, const std::vector<Point>& points) const;
  void end(const std::string& status, const std::string& parameter_hash);

  const std::string address_;
  const std::filesystem::path folder_, record_;
  const MlflowPatience patience_;
  std::string experiment_, run_id_;
  std::string rate_key_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Point> points_;    // that wait
  std::int64_t forgotten_ = 0;  // that waited for too long
  bool ends_ = false;
  std::thread thread_;  // while a run is under way
};

}  // namespace podium
