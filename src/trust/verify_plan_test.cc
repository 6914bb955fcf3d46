#include "trust/verify_plan.h"

#include <gtest/gtest.h>

#include <numeric>

namespace podium {
namespace {

std::vector<std::int64_t> up_to(std::int64_t last) {
  std::vector<std::int64_t> steps(static_cast<std::size_t>(last));
  std::iota(steps.begin(), steps.end(), 1);
  return steps;
}

TEST(VerifyPlan, all_steps_are_a_walk_from_each_checkpoint_to_the_next) {
  const VerifyPlan plan = draw_steps(up_to(10), {0, 4, 8}, 10, 1);
  EXPECT_EQ(plan.walks, (std::vector<Walk>{{0, 4}, {4, 8}, {8, 10}}));
  EXPECT_EQ(plan.steps(), 10);
}

TEST(VerifyPlan, a_drawn_step_is_computed_from_the_last_checkpoint_before_it) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const VerifyPlan plan = draw_steps(up_to(100), {0, 30, 60}, 3, seed);
    ASSERT_EQ(plan.drawn.size(), 3U);
    for (const std::int64_t step : plan.drawn) {
      bool covered = false;
      for (const Walk& walk : plan.walks) covered |= walk.from < step && step <= walk.to;
      EXPECT_TRUE(covered) << step;
    }
    for (const Walk& walk : plan.walks) EXPECT_LE(walk.to, walk.from == 60 ? 100 : walk.from + 30);
  }
}

TEST(VerifyPlan, every_step_is_drawn_as_often) {
  std::vector<int> times(20);
  for (std::uint64_t seed = 0; seed < 4000; ++seed)
    for (const std::int64_t step : draw_steps(up_to(20), {0}, 5, seed).drawn)
      ++times[static_cast<std::size_t>(step - 1)];
  for (const int count : times) EXPECT_NEAR(count, 1000, 130);  // more than four deviations
}

TEST(VerifyPlan, as_many_steps_are_drawn_as_can_be_computed_on_average) {
  const std::vector<std::int64_t> steps = up_to(1000), starts = {0, 100, 200, 300, 400, 500};
  const std::int64_t count = count_for(steps, starts, 300);
  EXPECT_GT(count, 1);
  EXPECT_LE(mean_steps(steps, starts, count), 300);
  EXPECT_GT(mean_steps(steps, starts, count + 1), 300);
  EXPECT_EQ(count_for(steps, starts, 1), 0);
  EXPECT_EQ(count_for(steps, starts, 1000), 1000);
}

TEST(VerifyPlan, the_chance_of_finding_is_that_of_drawing_without_putting_back) {
  EXPECT_DOUBLE_EQ(chance_of_finding(10, 1, 1), 0.1);
  EXPECT_NEAR(chance_of_finding(4, 2, 2), 1 - 1.0 / 6, 1e-12);
  EXPECT_DOUBLE_EQ(chance_of_finding(10, 10, 1), 1);
  EXPECT_DOUBLE_EQ(chance_of_finding(10, 0, 1), 0);
  EXPECT_NEAR(chance_of_finding(100000, 300, 1000), 0.951, 0.001);
}

}  // namespace
}  // namespace podium
