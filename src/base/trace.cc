#include "base/trace.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/error.h"
#include "base/json_text.h"

namespace podium {
namespace {

// Chrome's format counts microseconds.
std::string microseconds(Clock::duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", std::chrono::duration<double, std::micro>(time).count());
  return text;
}

std::string named(const char* what, int process, int lane, const std::string& name) {
  return cat("{\"ph\": \"M\", \"name\": \"", what, "\", \"pid\": ", process, ", \"tid\": ", lane,
             ", \"args\": {\"name\": ", json_quoted(name), "}}");
}

}  // namespace

Trace::Trace(std::size_t most_spans) : zero_(Clock::now()), spans_(most_spans) {}

int Trace::lane(const std::string& name) {
  lanes_.push_back(name);
  return static_cast<int>(lanes_.size()) - 1;
}

void Trace::add(int lane, const char* name, std::int64_t number, Clock::time_point begin,
                Clock::time_point end) {
  const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
  if (index < spans_.size()) spans_[index] = {name, number, lane, begin, end};
}

std::size_t Trace::left_out() const {
  const std::size_t all = next_.load();
  return all - std::min(all, spans_.size());
}

std::span<const Trace::Span> Trace::spans() const {
  return std::span(spans_).first(std::min(next_.load(), spans_.size()));
}

std::string Trace::events(int process, const std::string& process_name) const {
  std::string text = named("process_name", process, 0, process_name);
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    const int number = static_cast<int>(lane);
    text += ",\n" + named("thread_name", process, number, lanes_[lane]);
    // Rows in the order in which they were made, not by name.
    text += cat(",\n{\"ph\": \"M\", \"name\": \"thread_sort_index\", \"pid\": ", process,
                ", \"tid\": ", number, ", \"args\": {\"sort_index\": ", number, "}}");
  }
  const std::size_t count = std::min(next_.load(), spans_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const Span& span = spans_[i];
    std::string name = span.name;
    if (span.number >= 0) name += cat(" ", span.number);
    text += cat(",\n{\"ph\": \"X\", \"name\": ", json_quoted(name), ", \"pid\": ", process,
                ", \"tid\": ", span.lane, ", \"ts\": ", microseconds(span.begin - zero_),
                ", \"dur\": ", microseconds(span.end - span.begin), "}");
  }
  return text;
}

std::string trace_text(const std::vector<std::string>& events) {
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  for (std::size_t i = 0; i < events.size(); ++i) text += (i == 0 ? "" : ",\n") + events[i];
  return text + "\n]}\n";
}

}  // namespace podium
