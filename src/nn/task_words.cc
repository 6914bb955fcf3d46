#include "nn/task_words.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace podium {
namespace {

std::string number(const char* format, double value) {
  std::array<char, 64> text = {};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

}  // namespace

std::string share_text(double share) {
  if (!std::isfinite(share)) return "-";
  // What binary rounds down by less than that is meant.
  return number("%.2f", std::floor(share * 10000 + 1e-9) / 100) + "%";
}

std::string TaskWords::metric_name() const {
  if (metric.empty()) return "metric";
  std::string name = metric;
  std::ranges::replace(name, '_', ' ');
  return name;
}

std::string TaskWords::metric_head() const {
  return unit.empty() ? metric_name() : metric_name() + ", " + unit;
}

std::string TaskWords::metric_text(double value) const {
  if (!std::isfinite(value)) return "-";
  if (unit == "%") return share_text(value);
  return unit.empty() ? number("%.5g", value) : number("%.5g", value) + " " + unit;
}

bool TaskWords::is_better(double a, double b) const {
  if (!std::isfinite(a)) return false;
  if (!std::isfinite(b)) return true;
  return more_is_better ? a > b : a < b;
}

bool TaskWords::reaches(double value, double target) const {
  return more_is_better ? value >= target : value <= target;
}

TaskWords task_words(const std::string& item, std::span<const Metric> metrics) {
  TaskWords words{.item = item, .metric = "", .unit = ""};
  if (metrics.empty()) return words;
  const Metric& first = metrics.front();
  words.metric = first.name, words.unit = first.unit;
  words.more_is_better = first.more_is_better;
  return words;
}

}  // namespace podium
