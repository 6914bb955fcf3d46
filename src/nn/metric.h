// Metrics: numbers for people, computed from exact sums. A model states which it has (nn/model.h);
// the terminal, pages and records take names and units from there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace podium {

// Of the examples of a step or of an evaluation. Integers are exact.
struct Sums {
  std::int64_t examples = 0;  // rows of a batch or a set
  std::int64_t items = 0;     // losses: of a picture, a token, a row of a table
  std::int64_t weight = 0;    // sum of the items' weights; without weights, the items
  float loss = 0;             // mean over the weight
  std::map<std::string, std::int64_t> counts = {};  // "correct"

  // 0 if there is no such count.
  std::int64_t count(const std::string& name) const {
    const auto found = counts.find(name);
    return found == counts.end() ? 0 : found->second;
  }
};

// The names of counts: of items that were predicted right, and of the weights of items that have
// some.
inline constexpr const char* kCorrectCount = "correct";
inline constexpr const char* kWeightCount = "weight";

// How a number for people is computed, called and judged.
struct Metric {
  std::string name;  // "accuracy"
  std::string unit;  // "%": `of` is a share, and people read it times 100; else empty or a unit
  bool more_is_better = true;
  std::function<double(const Sums&)> of;
  // Instead, of the set as a whole: its predictions and targets, in order, in double precision.
  // Examples of weight 0 are left out, others count once.
  std::function<double(std::span<const float> predictions, std::span<const float> targets)>
      of_predictions = {};
};

// The name of the metric of sentences that were translated (data/text/bleu.h).
inline constexpr const char* kBleuMetric = "bleu";

// correct / weight; 0 of nothing.
Metric accuracy_metric();
// exp(loss), of next tokens.
Metric perplexity_metric();
// 1 - (sum of squared errors) / (sum of squared deviations from the mean target); 0 if the targets
// are all equal.
Metric r2_metric();
// The mean of (prediction - target)^2. Of a target that is normalised this and the next are in the
// target's own unit, and the loss is not.
Metric mean_squared_error_metric();
// The mean of |prediction - target|.
Metric mean_absolute_error_metric();

}  // namespace podium
