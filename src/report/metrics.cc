#include "report/metrics.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace podium {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double ratio(double value, double by) { return by > 0 ? value / by : kUnknown; }

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ThroughputMeter::ThroughputMeter(double now, double window_seconds)
    : origin_(now), window_(window_seconds), marks_{Mark{}} {}

void ThroughputMeter::step(double now, std::int64_t items, double input_wait_seconds) {
  last_.seconds = training_time(now);
  last_.steps += 1;
  last_.items += items;
  last_.waited += input_wait_seconds;
  // Marks stand a fiftieth of the window apart, so that fast steps cost no memory. The window
  // reaches back to a mark, and holds one step at least, however slow.
  if (last_.seconds - marks_.back().seconds >= window_ / 50) marks_.push_back(last_);
  while (marks_.size() > 2 && marks_[1].seconds <= last_.seconds - window_) marks_.pop_front();
}

void ThroughputMeter::pause(double now) {
  if (!is_paused_) paused_since_ = now;
  is_paused_ = true;
}

void ThroughputMeter::resume(double now) {
  if (is_paused_) paused_ += now - paused_since_;
  is_paused_ = false;
}

double ThroughputMeter::steps_per_second() const {
  return ratio(static_cast<double>(last_.steps - window_begin().steps),
               last_.seconds - window_begin().seconds);
}

double ThroughputMeter::items_per_second() const {
  return ratio(static_cast<double>(last_.items - window_begin().items),
               last_.seconds - window_begin().seconds);
}

double ThroughputMeter::input_wait_percent() const {
  return 100 * ratio(last_.waited - window_begin().waited, last_.seconds - window_begin().seconds);
}

double ThroughputMeter::seconds_left(std::int64_t remaining_steps) const {
  const double rate = steps_per_second();
  if (!(rate > 0)) return kUnknown;
  const double other_per_step = paused_ / static_cast<double>(last_.steps);
  return static_cast<double>(std::max<std::int64_t>(remaining_steps, 0)) *
         (1 / rate + other_per_step);
}

void CurveHistory::add(double value) {
  if (!std::isfinite(value)) return;
  sum_ += value;
  if (++count_ < stretch_) return;
  values_.push_back(sum_ / static_cast<double>(count_));
  sum_ = 0;
  count_ = 0;
  if (values_.size() < limit_) return;
  for (std::size_t i = 0; 2 * i + 1 < values_.size(); ++i)
    values_[i] = (values_[2 * i] + values_[2 * i + 1]) / 2;
  values_.resize(values_.size() / 2);
  stretch_ *= 2;
}

}  // namespace podium
