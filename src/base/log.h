// Talk of the library: a line at a time, to one sink. The core knows no logging library; a program
// installs the sink that it wants (the command line: spdlog on stderr). Without one, warnings go to
// stderr and the rest nowhere.
#pragma once

#include <functional>
#include <string>

namespace podium {

enum class LogLevel { kDebug, kInfo, kWarning };

using LogSink = std::function<void(LogLevel, const std::string&)>;

// Replaces the sink; not to be called while other threads log.
void set_log_sink(LogSink sink);
void log(LogLevel level, const std::string& line);

}  // namespace podium
