// Lines of MLCommons' log of a run, as its checker reads them (:::MLLOG {...}). The organisation
// and the system are unknown here, and the log says so; such a log is not an MLPerf result.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "train/run/run.h"

namespace podium {

// Writes the log to a file. Runs that are made under the closed division's rules for ResNet (model
// resnet50, optimizer sgd or lars, polynomial schedule) have its header, others that of the open
// one.
class MlperfLog : public RunObserver {
 public:
  // The initialisation begins now. Throws UserError(kUsage) if the file cannot be written.
  explicit MlperfLog(const std::filesystem::path& file);

  void started(const Trainer& trainer, std::int64_t first_step, std::int64_t last_step) override;
  void stepped(const Trainer& trainer, const StepResult& step) override;
  void evaluated(const Trainer& trainer, const EvaluationResult& result) override;
  // The run has ended; it succeeded if an evaluation reached the benchmark's 75.9%.
  void finish();

 private:
  // `value` and `metadata` are JSON.
  void line(const char* type, const char* key, const std::string& value,
            const std::string& metadata = "", std::chrono::milliseconds ago = {});
  void epoch(const char* type, const char* key, std::int64_t number);
  void header(const Trainer& trainer);

  std::filesystem::path path_;
  std::ofstream file_;
  std::int64_t last_step_ = 0;
  std::int64_t eval_samples_ = 0;
  bool started_ = false, reached_ = false;
};

}  // namespace podium
