// The progress of a long operation: on a terminal, one line that is rewritten; elsewhere, a line
// every few seconds. Warnings are printed above it.
#pragma once

#include <chrono>
#include <string>

#include "base/clock.h"

namespace podium {

// Used by one thread at a time.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Shows `text`, unless one was shown a moment ago; with `last`, always on a terminal.
  void operator()(const std::string& text, bool last = false);
  // Erases the line from the terminal.
  void end();

 private:
  const bool terminal_;
  const std::chrono::milliseconds interval_;
  bool open_ = false;
  Clock::time_point shown_;
};

}  // namespace podium
