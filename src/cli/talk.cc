#include "cli/talk.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <memory>
#include <mutex>
#include <sstream>
#include <utility>

#include "base/log.h"
#include "cli/table.h"

namespace podium {
namespace {

// Writes whole lines to stderr, or hands them to the owner of a live block.
class TalkSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void set_route(std::function<void(std::string_view)> route) {
    const std::lock_guard lock(mutex_);
    route_ = std::move(route);
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const char* prefix = message.level == spdlog::level::warn  ? "warning: "
                         : message.level == spdlog::level::err ? "podium: "
                                                               : "";
    std::istringstream lines(std::string(message.payload.data(), message.payload.size()));
    for (std::string line; std::getline(lines, line); prefix = "") {
      line = prefix + printable(std::move(line));
      if (route_) {
        route_(line);
      } else {
        std::fprintf(stderr, "%s\n", line.c_str());
      }
    }
  }
  void flush_() override { std::fflush(stderr); }

  std::function<void(std::string_view)> route_;
};

std::shared_ptr<TalkSink> sink() {
  static const auto the_sink = std::make_shared<TalkSink>();
  return the_sink;
}

spdlog::logger& logger() {
  static spdlog::logger the_logger("podium", sink());
  return the_logger;
}

// The text is passed as an argument: it may hold braces.
void put(spdlog::level::level_enum level, const std::string& text) {
  logger().log(level, "{}", text);
}

}  // namespace

void install_talk() {
  logger().set_level(spdlog::level::info);
  logger().flush_on(spdlog::level::warn);
  set_log_sink([](LogLevel level, const std::string& line) {
    put(level == LogLevel::kWarning ? spdlog::level::warn
        : level == LogLevel::kInfo  ? spdlog::level::info
                                    : spdlog::level::debug,
        line);
  });
}

void set_quiet(bool quiet) {
  logger().set_level(quiet ? spdlog::level::warn : spdlog::level::info);
}

void say(const std::string& text) { put(spdlog::level::info, text); }
void warn(const std::string& text) { put(spdlog::level::warn, text); }
void complain(const std::string& text) { put(spdlog::level::err, text); }

void set_talk_route(std::function<void(std::string_view)> route) {
  sink()->set_route(std::move(route));
}

}  // namespace podium
