#include "train/trainer.h"

#include <gtest/gtest.h>

#include "train/trainer_test_util.h"

namespace podium {
namespace {

std::string error_of(const std::function<void()>& work, ExitCode code) {
  try {
    work();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "accepted";
}

Recipe diverging_recipe() {
  Recipe recipe = tiny_recipe();
  recipe.optimizer.learning_rate = 1e38;
  return recipe;
}

TEST(Step, that_diverges_ends_a_loop_by_an_error_that_names_step_and_operation) {
  const auto trainer = tiny_trainer(diverging_recipe());
  const std::string error = error_of(
      [&] {
        while (trainer->steps_done() < trainer->total_steps()) trainer->step();
      },
      ExitCode::kDiverged);
  const std::int64_t step = trainer->steps_done() + 1;
  EXPECT_LT(step, trainer->total_steps());
  EXPECT_TRUE(error.starts_with(cat("step ", step,
                                    ": the loss is not finite; the first operation "
                                    "that made such a value is ")))
      << error;
}

TEST(Step, that_diverges_returns_the_operation_where_the_caller_asks_for_that) {
  const auto trainer = tiny_trainer(diverging_recipe());
  StepResult step;
  for (int i = 0; i < 10 && step.non_finite.empty(); ++i)
    step = trainer->step({.throw_on_divergence = false});
  EXPECT_NE(step.non_finite, "");
  EXPECT_EQ(step.step, trainer->steps_done() + 1) << "it updated nothing";
}

}  // namespace
}  // namespace podium
