#include "report/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace podium {
namespace {

TEST(ThroughputMeter, knows_nothing_before_the_first_step) {
  const ThroughputMeter meter(100);
  EXPECT_TRUE(std::isnan(meter.steps_per_second()));
  EXPECT_TRUE(std::isnan(meter.items_per_second()));
  EXPECT_TRUE(std::isnan(meter.input_wait_percent()));
  EXPECT_TRUE(std::isnan(meter.seconds_left(10)));
}

TEST(ThroughputMeter, steady_steps_give_their_rate) {
  ThroughputMeter meter(100, 5);
  for (int i = 1; i <= 2000; ++i) meter.step(100 + i * 0.01, 256, 0.001);
  EXPECT_NEAR(meter.steps_per_second(), 100, 0.5);
  EXPECT_NEAR(meter.items_per_second(), 25600, 100);
  EXPECT_NEAR(meter.input_wait_percent(), 10, 0.1);
  EXPECT_NEAR(meter.seconds_left(500), 5, 0.05);
}

TEST(ThroughputMeter, the_window_forgets) {
  ThroughputMeter meter(0, 5);
  double now = 0;
  for (int i = 0; i < 100; ++i) meter.step(now += 0.1, 10, 0.1);    // 10 s, all waiting
  for (int i = 0; i < 1000; ++i) meter.step(now += 0.01, 10, 0.0);  // 10 s
  EXPECT_NEAR(meter.steps_per_second(), 100, 1);
  EXPECT_NEAR(meter.input_wait_percent(), 0, 1e-9);
}

TEST(ThroughputMeter, steps_longer_than_the_window_are_measured) {
  ThroughputMeter meter(0, 5);
  meter.step(20, 1, 0);
  EXPECT_NEAR(meter.steps_per_second(), 1 / 20.0, 1e-9);
  meter.step(30, 1, 0);
  meter.step(40, 1, 0);
  EXPECT_NEAR(meter.steps_per_second(), 1 / 10.0, 1e-9);
}

TEST(ThroughputMeter, pauses_slow_no_rate_but_enter_the_time_left) {
  ThroughputMeter meter(0, 5);
  double now = 0;
  for (int epoch = 0; epoch < 4; ++epoch) {
    for (int i = 0; i < 100; ++i) meter.step(now += 0.01, 1, 0);
    meter.pause(now);
    meter.pause(now + 0.1);  // twice is once
    meter.resume(now += 0.5);
    meter.resume(now);
  }
  EXPECT_NEAR(meter.steps_per_second(), 100, 1);
  EXPECT_NEAR(meter.seconds_left(100), 1.5, 0.02);
  EXPECT_EQ(meter.seconds_left(-1), 0);
}

TEST(CurveHistory, covers_a_long_run_with_few_points) {
  CurveHistory history(8);
  for (int i = 0; i < 1000; ++i) history.add(i);
  EXPECT_LT(history.values().size(), 8u);
  EXPECT_GE(history.values().size(), 4u);
  EXPECT_NEAR(history.values().front(), 128 / 2.0, 70);
  EXPECT_GT(history.values().back(), 500);
  for (std::size_t i = 1; i < history.values().size(); ++i)
    EXPECT_GT(history.values()[i], history.values()[i - 1]);
}

TEST(CurveHistory, points_stand_for_equal_stretches) {
  CurveHistory history(4);
  for (int i = 0; i < 12; ++i) history.add(i);
  ASSERT_EQ(history.values().size(), 3u);
  EXPECT_EQ(history.values()[0], 1.5);
  EXPECT_EQ(history.values()[1], 5.5);
  EXPECT_EQ(history.values()[2], 9.5);
}

TEST(CurveHistory, leaves_out_what_is_not_finite) {
  CurveHistory history;
  history.add(std::numeric_limits<double>::quiet_NaN());
  history.add(std::numeric_limits<double>::infinity());
  EXPECT_TRUE(history.values().empty());
}

}  // namespace
}  // namespace podium
