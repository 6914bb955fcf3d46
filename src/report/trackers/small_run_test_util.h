// For tests of trackers: a run of eight steps, and what it told.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/scratch_test_util.h"
#include "nn/models.h"
#include "train/run/run.h"

namespace podium {

inline Recipe small_run_recipe() {
  return parse_recipe(
      "model = \"mnist\"\ndata = \"glyphs\"\ntrain_examples = 64\ntest_examples = 20\n"
      "batch = 16\nepochs = 2\n[run]\nlog_every_steps = 2\n",
      "small");
}

inline RunOptions small_run_options(const TestFolder& folder) {
  RunOptions options;
  options.out = folder / "run";
  options.placement.workers = 1;
  return options;
}

class CurveNotes : public RunObserver {
 public:
  void measured(const RunMetrics& metrics) override {
    losses[metrics.step] = metrics.loss;
    if (after_first) std::exchange(after_first, nullptr)();
  }
  void evaluated(const Trainer&, const EvaluationResult& result) override {
    accuracies[result.step] = result.metric();
  }
  std::map<std::int64_t, double> losses, accuracies;
  std::function<void()> after_first;  // called at the first point
};

}  // namespace podium
