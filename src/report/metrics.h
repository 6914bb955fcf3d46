// How fast a run is now, and how long it will take. Time is given by the caller, in seconds from
// any origin, so that every number here is a function of what it was told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace podium {

// A steady clock in seconds, for the functions below.
double steady_seconds();

// Rates over a sliding window of training time; what is not training (evaluation, checkpoints) is
// left out by pause() and resume(), and enters the time left by its share so far.
class ThroughputMeter {
 public:
  // `now`: when the first step begins.
  explicit ThroughputMeter(double now, double window_seconds = 5);

  // A step is done: its items, and how long it waited for its input.
  void step(double now, std::int64_t items, double input_wait_seconds);
  void pause(double now);
  void resume(double now);

  // Over the window; NaN before the first step.
  double steps_per_second() const;
  double items_per_second() const;
  double input_wait_percent() const;

  // Until `remaining_steps` more are done; NaN before the first step.
  double seconds_left(std::int64_t remaining_steps) const;

 private:
  // Running totals at some instant; `seconds` is training time alone.
  struct Mark {
    double seconds = 0;
    std::int64_t steps = 0, items = 0;
    double waited = 0;
  };
  double training_time(double now) const { return now - origin_ - paused_; }
  const Mark& window_begin() const { return marks_.front(); }

  double origin_;
  double window_;
  double paused_ = 0;  // in all
  double paused_since_ = 0;
  bool is_paused_ = false;
  Mark last_;
  std::deque<Mark> marks_;  // some fifty over the window; the first lies at its begin
};

// A curve of bounded length that covers a whole run: where it is full, neighbours are joined.
class CurveHistory {
 public:
  explicit CurveHistory(std::size_t limit = 128) : limit_(limit) {}
  void add(double value);  // values that are not finite are left out
  // The means of equal stretches of the run so far, oldest first.
  const std::deque<double>& values() const { return values_; }

 private:
  std::size_t limit_;
  std::int64_t stretch_ = 1;  // values that a point stands for
  double sum_ = 0;
  std::int64_t count_ = 0;
  std::deque<double> values_;
};

}  // namespace podium
