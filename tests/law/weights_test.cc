// The law for items that do not all count alike (docs/numerics.md): the sum of the weights of a
// step is known only when all replicas have run, and no placement may show in what it changes.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/scratch_test_util.h"
#include "data/source/loader.h"
#include "ranks_test_util.h"
#include "rows_test_util.h"

namespace podium {
namespace {

constexpr int kWeightsSteps = 6;

Recipe clipped_recipe() {
  Recipe recipe = rows_recipe();
  recipe.clip_norm = 0.05f;
  return recipe;
}

TEST(Weights, of_one_change_no_bit) {
  for (const Recipe& recipe : {rows_recipe(), clipped_recipe()}) {
    for (const std::int64_t classes : {0, 3}) {
      const auto plain = rows_trainer(recipe, classes, {});
      const auto ones = rows_trainer(recipe, classes, [](std::int64_t) { return 1; });
      EXPECT_EQ(step_hashes(*plain, kWeightsSteps), step_hashes(*ones, kWeightsSteps));
      const EvaluationResult a = plain->evaluate(), b = ones->evaluate();
      EXPECT_EQ(a.sums.loss, b.sums.loss);
      EXPECT_EQ(a.metric(), b.metric());
      EXPECT_EQ(b.sums.weight, 70);
    }
  }
}

TEST(Weights, give_equal_hashes_for_any_workers_threads_and_backend) {
  for (const Recipe& recipe : {rows_recipe(), clipped_recipe()}) {
    for (const std::int64_t classes : {0, 3}) {
      const auto expected = step_hashes(
          *rows_trainer(recipe, classes, uneven, {.workers = 1}, "reference"), kWeightsSteps);
      EXPECT_NE(step_hashes(*rows_trainer(recipe, classes, {}, {.workers = 1}), kWeightsSteps),
                expected);
      for (const std::int64_t workers : {1, 2, 3, 8})
        for (const int threads : {1, 3})
          EXPECT_EQ(step_hashes(*rows_trainer(recipe, classes, uneven,
                                              {.workers = workers, .threads = threads}),
                                kWeightsSteps),
                    expected)
              << workers << " workers, " << threads << " threads";
    }
  }
}

TEST(Weights, give_equal_hashes_on_any_ranks) {
  const Recipe recipe = clipped_recipe();
  const auto expected = step_hashes(*rows_trainer(recipe, 3, uneven), kWeightsSteps);
  for (const std::vector<int>& workers : std::vector<std::vector<int>>{{1, 1}, {2, 1}, {2, 2, 2}}) {
    on_ranks_of(
        workers, {.bucket_bytes = 256},
        [&](const Placement& placement) { return rows_trainer(recipe, 3, uneven, placement); },
        [&](Trainer& trainer, int rank) {
          EXPECT_EQ(step_hashes(trainer, kWeightsSteps), expected) << "rank " << rank;
        });
  }
}

// The plain formula of a network that is its last bias alone: (b - y)^2, weighed.
TEST(Weights, give_the_gradient_of_the_weighted_mean) {
  Recipe recipe = rows_recipe();
  const auto trainer = rows_trainer(recipe, 0, uneven);
  for (const TensorSpan& parameter : trainer->parameters())
    std::ranges::fill(parameter.values, 0.0f);
  const StepResult step = trainer->compute_gradients();
  const Rows rows(320, 1, 0, uneven);
  // Step 0 sees some 32 rows; which, is the loader's matter. All weights and losses of it follow
  // from the gradient and the loss, which are compared with what the loader gives.
  const Loader loader(std::make_shared<const Rows>(320, 1, 0, uneven),
                      LoaderOptions{.seed = recipe.seed, .batch = recipe.batch});
  std::vector<float> features(32 * Rows::kFeatures), answers(32);
  std::vector<std::int32_t> weights(32);
  loader.examples(0, 0, 32, {features.data(), answers.data(), weights.data()});
  double gradient = 0, loss = 0, all = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    gradient += -2.0 * weights[i] * answers[i];
    loss += weights[i] * static_cast<double>(answers[i]) * answers[i];
    all += weights[i];
  }
  EXPECT_EQ(step.sums.weight, static_cast<std::int64_t>(all));
  EXPECT_NE(all, 32);
  EXPECT_NEAR(step.sums.loss, loss / all, 1e-6);
  for (const TensorSpan& found : trainer->gradients())
    if (found.name == "out.bias") {
      EXPECT_NEAR(found.values[0], gradient / all, 1e-6);
    }
}

TEST(Weights, are_in_the_gradients_of_a_loop_of_ones_own_and_then_not_once_more) {
  for (const Recipe& recipe : {rows_recipe(), clipped_recipe()}) {
    const auto whole = rows_trainer(recipe, 3, uneven), halves = rows_trainer(recipe, 3, uneven);
    for (int i = 0; i < 3; ++i) {
      const StepResult expected = whole->step();
      halves->compute_gradients();
      const StepResult found = halves->apply_update();
      EXPECT_EQ(found.sums.loss, expected.sums.loss);
      EXPECT_EQ(found.sums.weight, expected.sums.weight);
      // With clipping, the product of both factors is rounded once in a step, and here twice.
      if (recipe.clip_norm == 0) {
        EXPECT_EQ(halves->parameter_hash(), whole->parameter_hash());
      }
    }
  }
}

TEST(Weights, of_the_held_out_set_weigh_losses_and_answers) {
  const auto trainer = rows_trainer(rows_recipe(), 3, uneven);
  step_hashes(*trainer, 10);
  const EvaluationResult result = trainer->evaluate();
  std::int64_t all = 0;
  for (std::int64_t row = 0; row < 70; ++row) all += uneven(row);
  EXPECT_EQ(result.sums.weight, all);
  EXPECT_EQ(result.metric(),
            static_cast<double>(result.sums.count(kCorrectCount)) / static_cast<double>(all));
  std::int64_t in_matrix = 0;
  for (std::int64_t label = 0; label < 3; ++label) in_matrix += result.confusion.examples(label);
  EXPECT_EQ(in_matrix, all);
  for (const ExamplePrediction& example : result.worst) EXPECT_NE(uneven(example.index), 0);
  // Whatever the batch.
  Recipe other = rows_recipe();
  other.evaluation.batch = 7;
  const auto small = rows_trainer(other, 3, uneven, {.workers = 3});
  step_hashes(*small, 10);
  EXPECT_EQ(small->evaluate().sums.loss, result.sums.loss);
}

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    return error.what();
  }
  return "accepted";
}

TEST(Weights, that_add_up_to_nothing_or_are_negative_are_refused_and_change_nothing) {
  for (const std::int32_t weight : {0, -1}) {
    const auto trainer = rows_trainer(rows_recipe(), 3, [=](std::int64_t) { return weight; });
    const std::uint64_t hash = trainer->parameter_hash();
    const std::string text = refusal([&] { trainer->step(); });
    EXPECT_NE(text.find("step 1: "), std::string::npos) << text;
    EXPECT_NE(text.find(weight == 0 ? "the weight 0" : "a negative weight"), std::string::npos)
        << text;
    EXPECT_EQ(trainer->parameter_hash(), hash);
    EXPECT_EQ(trainer->steps_done(), 0);
    const std::string of_set = refusal([&] { trainer->evaluate(); });
    EXPECT_NE(of_set.find("held-out set"), std::string::npos) << of_set;
  }
}

TEST(Weights, resume_to_the_same_hashes_on_another_placement) {
  const TestFolder folder;
  const Recipe recipe = clipped_recipe();
  const RunData data{std::make_shared<const Rows>(320, 1, 3, uneven),
                     std::make_shared<const Rows>(70, 2, 3, uneven)};
  const auto train = [&](const char* name, std::int64_t workers, std::int64_t stop) {
    RunOptions options;
    options.out = folder / name;
    options.data = data;
    options.stop_steps = stop;
    options.placement = {.workers = workers, .backend = law_backend()};
    RunObserver nobody;
    return run(recipe, rows_model, options, nobody).parameter_hash;
  };
  const std::uint64_t expected = train("whole", 1, 0);
  train("parts", 2, 7);
  EXPECT_EQ(train("parts", 3, 0), expected);
}

}  // namespace
}  // namespace podium
