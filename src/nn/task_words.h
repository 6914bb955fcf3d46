// The words of a task: what people count of its data, and what its first metric is called. Pages,
// terminal, tables, records and boards take them from here; the defaults are those of classifiers
// of images, which older records mean.
#pragma once

#include <span>
#include <string>

#include "nn/metric.h"

namespace podium {

// Of a task. A value of the metric is a share where its unit is "%", and read times 100.
struct TaskWords {
  std::string item = "image";       // "token", "row"
  std::string metric = "accuracy";  // as records have it; empty: the task has none
  std::string unit = "%";           // of the metric; may be empty
  bool more_is_better = true;

  bool operator==(const TaskWords&) const = default;

  // "images_per_second": the key of records.
  std::string rate_key() const { return item + "s_per_second"; }
  // "images/s", for people.
  std::string rate_unit() const { return item + "s/s"; }
  // "mean absolute error": the metric's name for people; "metric" where there is none.
  std::string metric_name() const;
  // "accuracy, %": a metric's head in a table, or its axis.
  std::string metric_head() const;
  // What people read of a value of the metric: 99.31 of 0.9931 in "%"; else the value.
  double shown(double value) const { return unit == "%" ? 100 * value : value; }
  // "99.31%", "0.9787", "12.3 USD"; "-" if it is not finite.
  std::string metric_text(double value) const;
  // Whether the metric's value `a` is better than `b`; one that is not finite is not.
  bool is_better(double a, double b) const;
  // Whether a value is at least as good as the target.
  bool reaches(double value, double target) const;
};

// Of data whose items are called `item` and a model with these metrics: the first counts.
TaskWords task_words(const std::string& item, std::span<const Metric> metrics);

// "99.31%" of 0.9931, rounded down: a share that is not whole never reads 100%. "-" if it is not
// finite.
std::string share_text(double share);

}  // namespace podium
