// What the curves of a run show, by the names that TensorBoard and trackers know it under.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "train/run/run.h"

namespace podium {

// A value of a curve.
struct NamedScalar {
  std::string name;  // "train/loss", "speed/tokens_per_second"
  double value = 0;
};

// train/loss, train/METRIC, train/learning_rate, speed/...; `rate_key` as the trainer's words say.
std::vector<NamedScalar> scalars_of(const RunMetrics& metrics, const std::string& rate_key);
// test/METRIC and test/loss; validation/... if the recipe holds out a part of the training set.
std::vector<NamedScalar> scalars_of(const Trainer& trainer, const EvaluationResult& result);

// The name of a run's folder.
std::string run_name_of(const std::filesystem::path& folder);
// The recipe's keys that decide the result, with their values as TOML has them.
std::vector<std::pair<std::string, std::string>> deciding_values(const Recipe& recipe);
// A text in TOML without its quotes; other values as they are.
std::string without_quotes(const std::string& value);

}  // namespace podium
