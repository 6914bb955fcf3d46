#include "train/loop/trainer.h"

#include <gtest/gtest.h>

#include <map>

#include "base/scratch_test_util.h"
#include "train/loop/trainer_test_util.h"

namespace podium {
namespace {

Recipe diverging_recipe() {
  Recipe recipe = tiny_recipe();
  recipe.optimizer.learning_rate = 1e38;
  return recipe;
}

TEST(Step, that_diverges_ends_a_loop_by_an_error_that_names_step_and_operation) {
  const auto trainer = tiny_trainer(diverging_recipe());
  const std::string error = user_error(ExitCode::kDiverged, [&] {
    while (trainer->steps_done() < trainer->total_steps()) trainer->step();
  });
  const std::int64_t step = trainer->steps_done() + 1;
  EXPECT_LT(step, trainer->total_steps());
  EXPECT_TRUE(error.starts_with(cat("step ", step,
                                    ": the loss is not finite; the first operation "
                                    "with such a result is ")))
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

// The hash that an error names.
std::string hash_in(const Checkpoint& checkpoint, const char* key) {
  return checkpoint.metadata.at(key).substr(checkpoint.metadata.at(key).rfind(' ') + 1);
}

TEST(Checkpoint, names_the_evaluation_set_and_another_is_refused_with_both_hashes) {
  const auto trainer = tiny_trainer();
  const Checkpoint checkpoint = trainer->checkpoint();
  EXPECT_EQ(trainer->check_evaluation_data(checkpoint), "");
  Trainer other(tiny_recipe(), tiny_model, std::make_shared<const ImageSet>(tiny_set(60)),
                std::make_shared<const ImageSet>(tiny_set(30, 2)), {.workers = 1});
  EXPECT_NO_THROW(other.require_same_data(checkpoint)) << "it trains on the same examples";
  const std::string error = user_error(
      ExitCode::kData, [&] { static_cast<void>(other.check_evaluation_data(checkpoint)); });
  const std::string before = hash_in(checkpoint, "evaluation_data"),
                    now = hash_in(other.checkpoint(), "evaluation_data");
  EXPECT_NE(before, now);
  for (const std::string& part : {before, now, std::string("--data-dir")})
    EXPECT_NE(error.find(part), std::string::npos) << part << " in " << error;
}

TEST(Checkpoint, of_an_older_podium_says_nothing_of_the_evaluation_set) {
  const auto trainer = tiny_trainer();
  Checkpoint checkpoint = trainer->checkpoint();
  EXPECT_EQ(checkpoint.metadata.erase("evaluation_data"), 1U);
  EXPECT_NE(trainer->check_evaluation_data(checkpoint).find("an older Podium wrote it"),
            std::string::npos);
}

TEST(ConfusionMatrix, holds_the_pairs_that_occur_however_many_classes_there_are) {
  constexpr std::int64_t kClasses = 1 << 20;  // a table of all pairs would take 8 TiB
  ConfusionMatrix counts(kClasses);
  for (int i = 0; i < 3; ++i) counts.add(7, kClasses - 1);
  counts.add(7, 7, 5);
  counts.add(7, -1);
  counts.add(kClasses - 1, kClasses - 1);
  EXPECT_EQ(counts.at(7, kClasses - 1), 3);
  EXPECT_EQ(counts.at(kClasses - 1, 7), 0);
  EXPECT_EQ(counts.examples(7), 9);
  EXPECT_EQ(counts.examples(8), 0);
  EXPECT_EQ(counts.correct(), 6);
  EXPECT_EQ(counts.accuracy(7), 5.0 / 9);
  EXPECT_EQ(counts.accuracy(8), 0);
  EXPECT_EQ(counts.cells().size(), 4U);
  EXPECT_THROW(counts.add(0, kClasses), InternalError);
  EXPECT_THROW(counts.add(0, -2), InternalError) << "an example that nobody evaluated";
}

TEST(Stop, is_heard_where_a_trainer_is_made_and_where_it_hashes_its_data) {
  const std::atomic<int> request{1};
  const StopToken stop(&request);
  EXPECT_THROW(Trainer(tiny_recipe(), tiny_model, std::make_shared<const ImageSet>(tiny_set(60)),
                       std::make_shared<const ImageSet>(tiny_set(30, 1)), {.workers = 1}, stop),
               Stopped);
  const auto trainer = tiny_trainer();
  EXPECT_THROW(trainer->identify_data(stop), Stopped);
  trainer->identify_data();
  EXPECT_NO_THROW(trainer->identify_data(stop)) << "they are hashed once";
}

// People see all classes, whatever the order of the set.
TEST(Evaluation, shows_examples_and_mistakes_of_every_class_of_a_sorted_set) {
  ImageSet sorted = tiny_set(90);
  for (std::int64_t n = 0; n < 90; ++n)
    sorted.labels[static_cast<std::size_t>(n)] = static_cast<std::uint8_t>(n / 30);
  Trainer trainer(tiny_recipe(), tiny_model, std::make_shared<const ImageSet>(tiny_set(60)),
                  std::make_shared<const ImageSet>(sorted), {.workers = 1});
  const EvaluationResult result = trainer.evaluate();
  ASSERT_EQ(std::ssize(result.first), EvaluationResult::kShown);
  std::map<double, int> classes, mistaken;
  for (const ExamplePrediction& example : result.first) ++classes[example.target];
  for (std::size_t i = 0; i < 2; ++i) ++mistaken[result.worst[i].target];
  EXPECT_EQ(classes.size(), 3U);
  for (const auto& [target, count] : classes) EXPECT_EQ(count, 8) << target;
  EXPECT_EQ(mistaken.size(), 2U) << "the first two are of two classes";
}

}  // namespace
}  // namespace podium
