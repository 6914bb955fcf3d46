// What a run shows while it trains. On a terminal: one block of a few lines, redrawn in place, at
// most ten times a second. Elsewhere: a plain line every few seconds and at the end of epochs.
//
// The cursor rests below the block after every frame and is never hidden, so there is nothing to
// restore, however a run ends.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "nn/task_words.h"
#include "report/metrics.h"

namespace podium {

inline constexpr double kUnknownValue = std::numeric_limits<double>::quiet_NaN();

// What is NaN is not known yet and not shown.
struct ProgressState {
  std::string recipe;
  std::int64_t step = 0, steps = 0;
  double epoch = 0, epochs = 0;
  double loss = kUnknownValue;
  TaskWords words;
  double metric = kUnknownValue;       // of training, running
  double test_metric = kUnknownValue;  // of the last evaluation
  double test_epoch = 0;               // when that was
  bool test_is_current = true;         // it is of `step`; otherwise it is shown with its epoch
  std::string held_out = "test";       // what the examples of the evaluation are called
  double steps_per_second = kUnknownValue, items_per_second = kUnknownValue;
  double seconds_left = kUnknownValue;
  double input_wait_percent = kUnknownValue;
  double usd = kUnknownValue;        // so far, of this start of the run
  std::string price;                 // of what, and of which day
  std::vector<double> loss_history;  // oldest first; drawn as a curve
};

// The block, each line at most `width` columns. `unicode` off draws with ASCII alone.
std::vector<std::string> render(const ProgressState& state, int width, bool unicode = true);
// The plain line.
std::string render_line(const ProgressState& state);

std::string duration_text(double seconds);  // "42s", "3m 05s", "2h 14m", "3d 04h"
// The columns of a UTF-8 text in which every character takes one.
int columns(std::string_view text);
// A curve of one row, `width` columns at most: logarithmic where all values are positive.
std::string sparkline(const std::vector<double>& values, int width, bool unicode = true);

class Progress {
 public:
  struct Options {
    int descriptor = 2;
    bool live = false;  // redraw in place
    bool unicode = true;
    double frame_seconds = 0.1;  // at least, between frames
    double line_seconds = 5;     // between plain lines
    std::function<int()> width = [] { return 80; };
    std::function<int()> height = [] { return 24; };
  };
  // For stderr: live on a terminal that can move its cursor, unicode as the locale says.
  static Options for_stderr();

  explicit Progress(Options options = for_stderr());

  // Whether update() would show something now. Costs one look at the clock, so ask in every step
  // and fill a state only then.
  bool due() const;
  // Shows the state, if due. Keeps the loss for the curve.
  void update(ProgressState state);
  // The same at the end of an epoch: a plain line, even if not due (but at most one a second).
  void epoch_done(ProgressState state);
  // Shows the last state, whatever the time. The block stays on the terminal.
  void finish(ProgressState state);

  // Writes a line of talk above the block; for the log. Any thread may call it.
  void print_above(std::string_view line);

 private:
  void draw(ProgressState state);
  std::string to_block_start() const;
  void write_out(std::string_view text) const;

  Options options_;
  mutable std::mutex mutex_;
  double shown_ = -1e9;  // when, by steady_seconds()
  CurveHistory history_;
  std::vector<std::string> block_;  // as it stands on the terminal
};

}  // namespace podium
