// How far long work is: on a terminal one line that is rewritten, elsewhere a line every few
// seconds. Warnings go above it.
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

  // Shows `text`, unless another was shown a moment ago; `last`: in any case, on a terminal.
  void operator()(const std::string& text, bool last = false);
  // Takes the line off the terminal.
  void end();

 private:
  const bool terminal_;
  const std::chrono::milliseconds interval_;
  bool open_ = false;
  Clock::time_point shown_;
};

}  // namespace podium
