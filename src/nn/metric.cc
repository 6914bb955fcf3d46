#include "nn/metric.h"

#include <cmath>
#include <cstddef>

namespace podium {

Metric accuracy_metric() {
  return {.name = "accuracy", .unit = "%", .of = [](const Sums& sums) {
            return sums.weight == 0 ? 0.0
                                    : static_cast<double>(sums.count(kCorrectCount)) /
                                          static_cast<double>(sums.weight);
          }};
}

Metric perplexity_metric() {
  return {.name = "perplexity", .unit = "", .more_is_better = false, .of = [](const Sums& sums) {
            return std::exp(static_cast<double>(sums.loss));
          }};
}

Metric r2_metric() {
  return {.name = "r2",
          .unit = "",
          .of = {},
          .of_predictions = [](std::span<const float> predictions, std::span<const float> targets) {
            double mean = 0, errors = 0, deviations = 0;
            for (const float target : targets) mean += static_cast<double>(target);
            mean /= static_cast<double>(targets.size());
            for (std::size_t i = 0; i < targets.size(); ++i) {
              const double target = static_cast<double>(targets[i]);
              const double error = target - static_cast<double>(predictions[i]);
              errors += error * error;
              deviations += (target - mean) * (target - mean);
            }
            return deviations > 0 ? 1 - errors / deviations : 0.0;
          }};
}

Metric mean_squared_error_metric() {
  return {.name = "mean_squared_error",
          .unit = "",
          .more_is_better = false,
          .of = {},
          .of_predictions = [](std::span<const float> predictions, std::span<const float> targets) {
            double sum = 0;
            for (std::size_t i = 0; i < targets.size(); ++i) {
              const double error =
                  static_cast<double>(targets[i]) - static_cast<double>(predictions[i]);
              sum += error * error;
            }
            return targets.empty() ? 0.0 : sum / static_cast<double>(targets.size());
          }};
}

Metric mean_absolute_error_metric() {
  return {.name = "mean_absolute_error",
          .unit = "",
          .more_is_better = false,
          .of = {},
          .of_predictions = [](std::span<const float> predictions, std::span<const float> targets) {
            double sum = 0;
            for (std::size_t i = 0; i < targets.size(); ++i)
              sum +=
                  std::abs(static_cast<double>(targets[i]) - static_cast<double>(predictions[i]));
            return targets.empty() ? 0.0 : sum / static_cast<double>(targets.size());
          }};
}

}  // namespace podium
