// What an evaluation finds: sums, metrics, and examples for people to look at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/metric.h"
#include "train/loop/confusion.h"

namespace podium {

// What the network makes of an example of the held-out set.
struct ExamplePrediction {
  std::int64_t index = 0;
  // Classes, or numbers that are predicted. A class of -1: its logits are not numbers.
  double target = 0, predicted = 0;
  float loss = 0;
};

// Where a network that translates looks: of each token that is written the shares of the tokens
// that are read, the mean over the heads of its last block.
struct AttentionMap {
  std::vector<std::string> written, read;  // tokens
  std::vector<float> shares;               // [written, read]
};

// What the network makes of a sentence of the held-out set.
struct ShownTranslation {
  std::string source, reference, translation;
  std::optional<AttentionMap> attention = std::nullopt;  // of the translation
};

// The value of a metric.
struct MetricValue {
  std::string name, unit;
  bool more_is_better = true;
  double value = 0;
};

// The held-out set under the parameters of one step.
struct EvaluationResult {
  std::int64_t step = 0;  // the parameters are those after this step
  Sums sums;              // 0 examples: it was stopped
  double seconds = 0;
  std::vector<MetricValue> metrics;
  ConfusionMatrix confusion;  // of a target of classes
  // For people to look at, at most kShown of each: examples that lie evenly over the set, and
  // mistakes, the one with the largest loss of each class first, then the second of each, so that
  // no class hides the others.
  static constexpr std::int64_t kShown = 24;
  std::vector<ExamplePrediction> first, worst;
  std::vector<ShownTranslation> translations;  // some, where sentences are translated

  // The first metric, by which the best checkpoint is chosen; null: there is none, and the loss
  // decides.
  const MetricValue* main_metric() const { return metrics.empty() ? nullptr : &metrics.front(); }
  // Its value; NaN: there is none.
  double metric() const;
  // Of a metric by its name; NaN: there is none.
  double value_of(const std::string& name) const;
};

}  // namespace podium
