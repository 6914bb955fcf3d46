#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "optim/optimizer.h"

namespace podium {
namespace {

// The learning rate at a step, with 100 steps in an epoch.
double at(const ScheduleOptions& schedule, std::int64_t step, double learning_rate = 0.5) {
  return learning_rate_at({.learning_rate = learning_rate}, schedule, {step, 100, 1000});
}

TEST(Schedule, constant_stays) {
  for (const std::int64_t step : {0, 1, 1000000}) EXPECT_EQ(at({}, step), 0.5);
}

TEST(Schedule, piecewise_changes_at_its_boundaries) {
  const ScheduleOptions schedule{
      .name = "piecewise", .boundaries = {10, 20}, .factors = {1, 0.5, 0.25}};
  EXPECT_EQ(at(schedule, 0), 0.5);
  EXPECT_EQ(at(schedule, 9), 0.5);
  EXPECT_EQ(at(schedule, 10), 0.25);
  EXPECT_EQ(at(schedule, 19), 0.25);
  EXPECT_EQ(at(schedule, 20), 0.125);
  EXPECT_EQ(at(schedule, 1000000), 0.125);
}

TEST(Schedule, piecewise_with_a_boundary_at_0_never_has_its_first_factor) {
  const ScheduleOptions schedule{.name = "piecewise", .boundaries = {0}, .factors = {1, 2}};
  EXPECT_EQ(at(schedule, 0), 1.0);
}

// Warm-up, a flat piece, and the fall to zero.
TEST(Schedule, linear_meets_its_points_and_is_straight_between) {
  const ScheduleOptions schedule{
      .name = "linear", .boundaries = {0, 40, 60, 100}, .factors = {0, 1, 1, 0}};
  EXPECT_EQ(at(schedule, 0), 0.0);
  EXPECT_DOUBLE_EQ(at(schedule, 10), 0.125);
  EXPECT_DOUBLE_EQ(at(schedule, 39), 0.5 * 39 / 40);
  EXPECT_EQ(at(schedule, 40), 0.5);
  EXPECT_EQ(at(schedule, 50), 0.5);
  EXPECT_EQ(at(schedule, 60), 0.5);
  EXPECT_DOUBLE_EQ(at(schedule, 75), 0.5 * 25 / 40);
  EXPECT_EQ(at(schedule, 100), 0.0);
}

TEST(Schedule, linear_is_constant_outside_its_points) {
  const ScheduleOptions schedule{.name = "linear", .boundaries = {10, 20}, .factors = {0.5, 2}};
  EXPECT_EQ(at(schedule, 0), 0.25);
  EXPECT_EQ(at(schedule, 10), 0.25);
  EXPECT_EQ(at(schedule, 20), 1.0);
  EXPECT_EQ(at(schedule, 21), 1.0);
  EXPECT_EQ(at(schedule, 1000000), 1.0);
}

TEST(Schedule, linear_through_one_point_is_constant) {
  const ScheduleOptions schedule{.name = "linear", .boundaries = {10}, .factors = {0.5}};
  for (const std::int64_t step : {0, 10, 11}) EXPECT_EQ(at(schedule, step), 0.25);
}

TEST(Schedule, boundaries_may_be_epochs_and_parts_of_them) {
  const ScheduleOptions piecewise{
      .name = "piecewise", .boundaries = {1.5}, .factors = {1, 0.1}, .unit = "epoch"};
  EXPECT_EQ(at(piecewise, 149), 0.5);
  EXPECT_EQ(at(piecewise, 150), 0.5 * 0.1);
  const ScheduleOptions linear{
      .name = "linear", .boundaries = {0, 5, 24}, .factors = {0, 1, 0}, .unit = "epoch"};
  EXPECT_DOUBLE_EQ(at(linear, 250), 0.25);
  EXPECT_EQ(at(linear, 500), 0.5);
  EXPECT_DOUBLE_EQ(at(linear, 1450), 0.25);
  EXPECT_EQ(at(linear, 2400), 0.0);
}

// 1e-4 + 0.01 * exp(-step / 2000), the schedule of the MNIST recipe.
TEST(Schedule, exponential_falls_to_its_floor) {
  const ScheduleOptions schedule{.name = "exponential", .time_constant = 2000, .floor = 1e-4};
  EXPECT_EQ(at(schedule, 0, 0.01), 1e-4 + 0.01);
  for (const std::int64_t step : {1, 234, 2000, 5616, 20000}) {
    EXPECT_NEAR(at(schedule, step, 0.01), 1e-4 + 0.01 * std::exp(-static_cast<double>(step) / 2000),
                1e-16)
        << step;
  }
  EXPECT_EQ(at(schedule, 100000000, 0.01), 1e-4);
}

TEST(Schedule, exponential_counts_epochs_where_told) {
  const ScheduleOptions schedule{.name = "exponential", .unit = "epoch", .time_constant = 2};
  EXPECT_NEAR(at(schedule, 200), 0.5 * std::exp(-1.0), 1e-15);
}

TEST(Schedule, of_fewer_epochs_runs_its_course_in_them) {
  const ScheduleOptions linear{
      .name = "linear", .boundaries = {0, 8}, .factors = {1, 0}, .unit = "epoch"};
  const OptimizerOptions three{.learning_rate = 1, .epochs = 3};
  for (const std::int64_t step : {0, 25, 74})
    EXPECT_NEAR(learning_rate_at(three, linear, {step, 25, 200}),
                1 - static_cast<double>(step) / 75, 1e-15);
  for (const std::int64_t step : {75, 76, 199})
    EXPECT_EQ(learning_rate_at(three, linear, {step, 25, 200}), 0);
}

double in_run(const ScheduleOptions& schedule, std::int64_t step, std::int64_t total) {
  return learning_rate_at({.learning_rate = 0.5}, schedule, {step, 10, total});
}

TEST(Schedule, cosine_falls_from_the_rate_to_the_floor_over_the_run) {
  const ScheduleOptions schedule{.name = "cosine", .floor = 0.1};
  EXPECT_EQ(in_run(schedule, 0, 200), 0.5);
  EXPECT_DOUBLE_EQ(in_run(schedule, 100, 200), 0.3);
  EXPECT_EQ(in_run(schedule, 200, 200), 0.1);
  for (const std::int64_t step : {1, 37, 150, 199})
    EXPECT_NEAR(in_run(schedule, step, 200),
                0.1 + 0.4 * (1 + std::cos(M_PI * static_cast<double>(step) / 200)) / 2, 1e-15);
}

TEST(Schedule, warm_up_multiplies_the_first_steps_of_any_schedule) {
  for (const char* name : {"constant", "linear", "exponential", "piecewise"}) {
    ScheduleOptions schedule{
        .name = name, .boundaries = {0, 100}, .factors = {1, 0.5, 0.25}, .time_constant = 50};
    std::vector<double> plain;
    for (std::int64_t step = 0; step < 60; ++step) plain.push_back(in_run(schedule, step, 200));
    schedule.warmup = 4;
    for (std::int64_t step = 0; step < 60; ++step)
      EXPECT_DOUBLE_EQ(
          in_run(schedule, step, 200),
          plain[static_cast<std::size_t>(step)] * std::min(1.0, static_cast<double>(step + 1) / 4))
          << name << " " << step;
    schedule.unit = "epoch", schedule.warmup = 0.4, schedule.boundaries = {0, 10};
    schedule.time_constant = 5;
    for (std::int64_t step = 0; step < 4; ++step)
      EXPECT_NEAR(in_run(schedule, step, 200),
                  plain[static_cast<std::size_t>(step)] * static_cast<double>(step + 1) / 4, 1e-15)
          << name;
  }
}

TEST(Schedule, cosine_begins_after_the_warm_up) {
  const ScheduleOptions schedule{.name = "cosine", .warmup = 20};
  EXPECT_DOUBLE_EQ(in_run(schedule, 9, 120), 0.25);
  EXPECT_EQ(in_run(schedule, 19, 120), 0.5);
  EXPECT_EQ(in_run(schedule, 20, 120), 0.5);
  EXPECT_DOUBLE_EQ(in_run(schedule, 70, 120), 0.25);
  EXPECT_EQ(in_run(schedule, 120, 120), 0);
}

TEST(Schedule, an_unknown_name_is_an_internal_error_since_recipes_are_checked_before) {
  EXPECT_THROW(at({.name = "sine"}, 0), InternalError);
}

}  // namespace
}  // namespace podium
