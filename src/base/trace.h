// When what happened, for people who look for lost time: spans of time on named lanes, written as a
// file that Perfetto (ui.perfetto.dev) and chrome://tracing open.
//
//   Trace trace;
//   const int lane = trace.lane("worker 0");      // before the spans
//   { const TraceSpan span(&trace, lane, "batch"); ... }
//   trace.add(lane, "replica", 3, begin, end);
//
// Spans are kept in memory that is there from the start: adding one costs two clock readings and
// allocates nothing. Where there is no trace, its pointer is null and a TraceSpan does nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"

namespace podium {

class Trace {
 public:
  struct Span {
    const char* name = nullptr;
    std::int64_t number = -1;
    int lane = 0;
    Clock::time_point begin, end;
  };

  // What comes after so many spans is counted, and left out.
  explicit Trace(std::size_t most_spans = std::size_t{1} << 20);

  // Time 0 of the file; at first, when the trace was made.
  void start_at(Clock::time_point zero) { zero_ = zero; }
  // A row of the picture. Spans of one lane lie apart from each other, or within each other.
  int lane(const std::string& name);
  // By any thread. `name` must live for ever: a literal. `number` is shown after it; -1: none.
  void add(int lane, const char* name, std::int64_t number, Clock::time_point begin,
           Clock::time_point end);

  // Those that were kept, in the order in which they were added: while nobody adds any.
  std::span<const Span> spans() const;
  std::size_t left_out() const;
  // The spans as events of Chrome's trace format, separated by ",\n": objects of a process of this
  // number and name. For trace_text().
  std::string events(int process, const std::string& process_name) const;

 private:
  Clock::time_point zero_;
  std::vector<std::string> lanes_;
  std::vector<Span> spans_;
  std::atomic<std::size_t> next_{0};
};

// A trace file of the events of all processes.
std::string trace_text(const std::vector<std::string>& events);

// From here to the end of the block.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, int lane, const char* name, std::int64_t number = -1)
      : trace_(trace), lane_(lane), name_(name), number_(number) {
    if (trace_ != nullptr) begin_ = Clock::now();
  }
  ~TraceSpan() {
    if (trace_ != nullptr) trace_->add(lane_, name_, number_, begin_, Clock::now());
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Trace* trace_;
  int lane_;
  const char* name_;
  std::int64_t number_;
  Clock::time_point begin_;
};

}  // namespace podium
