// The steps between two points of a run's curves.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "nn/metric.h"
#include "train/loop/checkpoint.h"
#include "train/run/run.h"

namespace podium {

// Sums over these steps. A checkpoint between them keeps what the
// recipe decides, so that a resumed run's curves are those of an undisturbed one; times are of this
// process alone.
struct Window {
  std::int64_t steps = 0;
  std::map<std::string, std::int64_t> counts;
  std::int64_t timed_steps = 0;
  double seconds = 0, input_seconds = 0;

  void add(const StepResult& step) {
    ++steps;
    for (const auto& [name, count] : step.sums.counts) counts[name] += count;
    ++timed_steps;
    seconds += step.seconds;
    input_seconds += step.input_seconds;
  }
  RunMetrics metrics(const StepResult& last, const std::vector<Metric>& metrics) const {
    const double timed = static_cast<double>(timed_steps);
    RunMetrics made{.step = last.step,
                    .loss = static_cast<double>(last.sums.loss),
                    .learning_rate = last.learning_rate,
                    .steps_per_second = timed / seconds,
                    .items_per_second = timed * static_cast<double>(last.sums.items) / seconds,
                    .input_wait_percent = 100 * input_seconds / seconds};
    const Sums sums{.examples = steps * last.sums.examples,
                    .items = steps * last.sums.items,
                    .weight = weight(last),
                    .loss = last.sums.loss,
                    .counts = counts};
    for (const Metric& metric : metrics)
      if (metric.of)
        made.metrics.push_back({metric.name, metric.unit, metric.more_is_better, metric.of(sums)});
    return made;
  }
  // Of all items of these steps: a count of its own where they have weights.
  std::int64_t weight(const StepResult& last) const {
    const auto found = counts.find(kWeightCount);
    return found != counts.end() ? found->second : steps * last.sums.weight;
  }
  void keep_in(Checkpoint& checkpoint) const {
    checkpoint.metadata[kSteps] = std::to_string(steps);
    for (const auto& [name, count] : counts)
      checkpoint.metadata[name + kOfCount] = std::to_string(count);
  }
  void take_from(const Checkpoint& checkpoint, const std::vector<std::string>& names) {
    const auto number = [&](const std::string& key) {
      const auto found = checkpoint.metadata.find(key);
      return found == checkpoint.metadata.end() ? 0 : std::atoll(found->second.c_str());
    };
    steps = number(kSteps);
    for (const std::string& name : names) counts[name] = number(name + kOfCount);
  }

  static constexpr const char *kSteps = "steps_since_metrics", *kOfCount = "_since_metrics";
};

}  // namespace podium
