#include "base/log.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace podium {
namespace {

class Log : public testing::Test {
 protected:
  ~Log() override { set_log_sink(nullptr); }
};

TEST_F(Log, lines_go_to_the_sink_with_their_level) {
  std::vector<std::pair<LogLevel, std::string>> lines;
  set_log_sink([&](LogLevel level, const std::string& line) { lines.emplace_back(level, line); });
  log(LogLevel::kDebug, "a");
  log(LogLevel::kInfo, "b");
  log(LogLevel::kWarning, "c");
  const std::vector<std::pair<LogLevel, std::string>> expected = {
      {LogLevel::kDebug, "a"}, {LogLevel::kInfo, "b"}, {LogLevel::kWarning, "c"}};
  EXPECT_EQ(lines, expected);
}

TEST_F(Log, without_a_sink_warnings_go_to_stderr_and_the_rest_nowhere) {
  set_log_sink(nullptr);
  testing::internal::CaptureStderr();
  log(LogLevel::kInfo, "quiet");
  log(LogLevel::kWarning, "loud");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "loud\n");
}

TEST_F(Log, the_sink_is_called_by_one_thread_at_a_time) {
  int lines = 0;  // plain: the log's lock alone guards it
  set_log_sink([&](LogLevel, const std::string&) { ++lines; });
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 500; ++i) log(LogLevel::kInfo, "line");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lines, 1500);
}

}  // namespace
}  // namespace podium
