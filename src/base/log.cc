#include "base/log.h"

#include <cstdio>
#include <mutex>
#include <utility>

namespace podium {
namespace {

LogSink& sink() {
  static LogSink current;
  return current;
}

std::mutex& mutex() {
  static std::mutex one;
  return one;
}

}  // namespace

void set_log_sink(LogSink replacement) { sink() = std::move(replacement); }

void log(LogLevel level, const std::string& line) {
  const std::lock_guard lock(mutex());
  if (sink()) {
    sink()(level, line);
  } else if (level == LogLevel::kWarning) {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
}

}  // namespace podium
