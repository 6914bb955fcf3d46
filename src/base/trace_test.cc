#include "base/trace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace podium {
namespace {

using std::chrono::microseconds;

TEST(Trace, writes_spans_with_lane_name_and_times) {
  Trace trace;
  const Clock::time_point zero = Clock::now();
  trace.start_at(zero);
  const int lane = trace.lane("worker \"0\"");
  trace.add(lane, "replica", 3, zero + microseconds(10), zero + microseconds(12));
  trace.add(lane, "hash", -1, zero + microseconds(20), zero + microseconds(21));
  EXPECT_EQ(
      trace_text({trace.events(7, "rank 7")}),
      "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n"
      "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 7, \"tid\": 0, \"args\": {\"name\": "
      "\"rank 7\"}},\n"
      "{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 7, \"tid\": 0, \"args\": {\"name\": "
      "\"worker \\\"0\\\"\"}},\n"
      "{\"ph\": \"M\", \"name\": \"thread_sort_index\", \"pid\": 7, \"tid\": 0, \"args\": "
      "{\"sort_index\": 0}},\n"
      "{\"ph\": \"X\", \"name\": \"replica 3\", \"pid\": 7, \"tid\": 0, \"ts\": 10.000, \"dur\": "
      "2.000},\n"
      "{\"ph\": \"X\", \"name\": \"hash\", \"pid\": 7, \"tid\": 0, \"ts\": 20.000, \"dur\": "
      "1.000}\n]}\n");
}

TEST(Trace, joins_the_events_of_processes) {
  EXPECT_EQ(trace_text({}), "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n\n]}\n");
  EXPECT_EQ(trace_text({"{}", "{}"}),
            "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n{},\n{}\n]}\n");
}

TEST(Trace, counts_what_it_has_no_room_for) {
  Trace trace(10);
  const int lane = trace.lane("a");
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) trace.add(lane, "x", i, Clock::now(), Clock::now());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(trace.left_out(), 5u);
}

TEST(TraceSpan, lasts_to_the_end_of_its_block_and_needs_no_trace) {
  Trace trace;
  const int lane = trace.lane("a");
  {
    const TraceSpan none(nullptr, 0, "nothing");
    const TraceSpan span(&trace, lane, "sleep");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const std::string text = trace.events(0, "p");
  EXPECT_EQ(text.find("nothing"), std::string::npos);
  const auto at = text.find("\"dur\": ");
  ASSERT_NE(at, std::string::npos);
  EXPECT_GE(std::stod(text.substr(at + 7)), 2000);
}

}  // namespace
}  // namespace podium
