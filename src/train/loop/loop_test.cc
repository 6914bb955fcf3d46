// A loop of one's own: gradients in hand, changed, clipped, given to another optimizer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/numerics/tree.h"
#include "train/loop/trainer_test_util.h"

namespace podium {
namespace {

// Of plain gradient descent: the gradient is all that moves a parameter.
Recipe plain_recipe() {
  Recipe recipe = tiny_recipe();
  recipe.optimizer.momentum = 0;
  return recipe;
}

// Three runs of squares in one parameter, and a part of one.
Value wide_model(Network& net, Value images, std::int64_t classes) {
  const Value hidden = net.relu(net.dense("fc1", net.flatten(images), {.units = 600}));
  return net.dense("fc2", hidden, {.units = classes, .bias = true});
}

std::unique_ptr<Trainer> wide_trainer(const Recipe& recipe, std::int64_t workers,
                                      const std::string& backend = "cpu") {
  return std::make_unique<Trainer>(recipe, wide_model,
                                   std::make_shared<const ImageSet>(tiny_set(60)),
                                   std::make_shared<const ImageSet>(tiny_set(30, 1)),
                                   Placement{.workers = workers, .backend = backend});
}

std::map<std::string, std::vector<float>> copy_of(std::span<const TensorSpan> tensors) {
  std::map<std::string, std::vector<float>> copy;
  for (const TensorSpan& tensor : tensors)
    copy[tensor.name] = std::vector(tensor.values.begin(), tensor.values.end());
  return copy;
}

TEST(OwnLoop, two_halves_of_a_step_make_the_step_for_any_placement) {
  const auto whole = tiny_trainer(tiny_recipe(), {.workers = 1});
  std::vector<StepResult> expected;
  for (int i = 0; i < 7; ++i) expected.push_back(whole->step({.hash = true}));
  for (const Placement& placement :
       {Placement{.workers = 1}, Placement{.workers = 3}, Placement{.workers = 4},
        Placement{.workers = 2, .threads = 2, .input_threads = 2}}) {
    const auto halves = tiny_trainer(tiny_recipe(), placement);
    for (const StepResult& step : expected) {
      const StepResult first = halves->compute_gradients();
      EXPECT_EQ(halves->steps_done(), step.step - 1);
      const StepResult again = halves->compute_gradients();
      const StepResult second = halves->apply_update({.hash = true});
      EXPECT_EQ(second.hash, step.hash) << step.step;
      for (const StepResult& result : {first, again, second}) {
        EXPECT_EQ(result.step, step.step);
        EXPECT_EQ(result.sums.loss, step.sums.loss);
        EXPECT_EQ(result.sums.count(kCorrectCount), step.sums.count(kCorrectCount));
      }
    }
    EXPECT_EQ(halves->evaluate().sums.count(kCorrectCount),
              whole->evaluate().sums.count(kCorrectCount));
  }
}

TEST(OwnLoop, gradients_are_whole_tensors_equal_for_any_workers) {
  const auto one = tiny_trainer(tiny_recipe(), {.workers = 1});
  one->compute_gradients();
  const auto expected = copy_of(one->gradients());
  ASSERT_EQ(expected.size(), 4u);
  EXPECT_EQ(expected.at("fc1.weight").size(), 128u);
  for (const std::int64_t workers : {2, 3, 4}) {
    const auto trainer = tiny_trainer(tiny_recipe(), {.workers = workers});
    trainer->compute_gradients();
    EXPECT_EQ(copy_of(trainer->gradients()), expected) << workers;
  }
}

TEST(OwnLoop, the_update_is_made_from_the_gradients_as_the_caller_left_them) {
  Recipe twice = plain_recipe();
  twice.optimizer.learning_rate *= 2;
  const auto expected = tiny_trainer(twice);
  const auto doubled = tiny_trainer(plain_recipe());
  for (int i = 0; i < 5; ++i) {
    const StepResult step =
        doubled->step({.hash = true}, [](Trainer& trainer) {  // a power of two: exact
          for (const TensorSpan& gradient : trainer.gradients())
            for (float& x : gradient.values) x *= 2;
        });
    EXPECT_EQ(step.hash, expected->step({.hash = true}).hash) << i;
  }
}

TEST(OwnLoop, an_optimizer_of_ones_own_takes_the_place_of_the_recipes) {
  const auto expected = tiny_trainer(plain_recipe());
  Recipe other = plain_recipe();
  other.optimizer.learning_rate = 99;  // nobody reads it
  const auto own = tiny_trainer(other);
  const auto rate = static_cast<float>(plain_recipe().optimizer.learning_rate);
  for (int i = 0; i < 5; ++i) {
    own->compute_gradients();
    const auto gradients = copy_of(own->gradients());
    for (const TensorSpan& parameter : own->parameters()) {
      const std::vector<float>& gradient = gradients.at(parameter.name);
      for (std::size_t k = 0; k < gradient.size(); ++k)
        parameter.values[k] = std::fma(-rate, gradient[k], parameter.values[k]);
    }
    const StepResult step = own->apply_update({.hash = true, .update_parameters = false});
    EXPECT_EQ(step.hash, expected->step({.hash = true}).hash) << i;
  }
}

TEST(OwnLoop, a_half_of_a_step_without_the_other_is_refused) {
  const auto trainer = tiny_trainer();
  const auto error = [](const std::function<void()>& work) -> std::string {
    try {
      work();
    } catch (const UserError& refused) {
      EXPECT_EQ(refused.code(), ExitCode::kUsage);
      return refused.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error([&] { trainer->apply_update(); }),
            "apply_update(): the gradients of step 1 have not been computed; call "
            "compute_gradients() first");
  EXPECT_NE(error([&] { trainer->gradients(); }), "accepted");
  const Checkpoint start = trainer->checkpoint();
  trainer->compute_gradients();
  EXPECT_EQ(error([&] { trainer->step(); }),
            "step 1: its gradients have been computed by compute_gradients(); end it by "
            "apply_update()");
  trainer->restore(start);  // what was computed is of no state any more
  EXPECT_NE(error([&] { trainer->apply_update(); }), "accepted");
  EXPECT_EQ(trainer->step({.hash = true}).hash, tiny_trainer()->step({.hash = true}).hash);
}

// --- optimizer.clip_norm

// The statement of docs/numerics.md in plain loops.
float stated_norm(std::span<const TensorSpan> gradients) {
  std::vector<float> of_tensors;
  for (const TensorSpan& gradient : gradients) {
    std::vector<float> of_runs;
    for (std::size_t begin = 0; begin < gradient.values.size(); begin += 4096) {
      float lanes[16] = {};
      for (std::size_t i = begin; i < std::min(begin + 4096, gradient.values.size()); ++i)
        lanes[i % 16] = std::fma(gradient.values[i], gradient.values[i], lanes[i % 16]);
      of_runs.push_back(tree_sum(0, 16, [&](std::int64_t l) { return lanes[l]; }));
    }
    of_tensors.push_back(tree_sum(0, std::ssize(of_runs), [&](std::int64_t run) {
      return of_runs[static_cast<std::size_t>(run)];
    }));
  }
  return std::sqrt(tree_sum(0, std::ssize(of_tensors), [&](std::int64_t tensor) {
    return of_tensors[static_cast<std::size_t>(tensor)];
  }));
}

TEST(ClipNorm, scales_the_gradients_as_stated_on_every_backend_for_any_workers) {
  const auto reader = wide_trainer(plain_recipe(), 1);
  reader->compute_gradients();
  const float norm = stated_norm(reader->gradients());
  Recipe recipe = plain_recipe();
  recipe.clip_norm = norm / 3;
  const float factor = recipe.clip_norm / norm;
  const auto rate = static_cast<float>(recipe.optimizer.learning_rate);
  const auto gradients = copy_of(reader->gradients());
  std::uint64_t hash = 0;
  for (const std::string& backend : backend_names()) {
    for (const std::int64_t workers : {1, 2, 3, 4}) {
      const auto trainer = wide_trainer(recipe, workers, backend);
      const auto before = copy_of(trainer->parameters());
      const StepResult step = trainer->step({.hash = true});
      EXPECT_EQ(step.gradient_norm, norm) << backend << ", " << workers << " workers";
      for (const TensorSpan& parameter : trainer->parameters()) {
        const std::vector<float>&gradient = gradients.at(parameter.name),
              &old = before.at(parameter.name);
        for (std::size_t i = 0; i < old.size(); ++i)
          ASSERT_EQ(parameter.values[i], std::fma(-rate, gradient[i] * factor, old[i]))
              << parameter.name << " " << i << ", " << backend << ", " << workers << " workers";
      }
      for (int i = 0; i < 4; ++i) trainer->step();
      if (hash == 0) hash = trainer->parameter_hash();
      EXPECT_EQ(trainer->parameter_hash(), hash) << backend << ", " << workers << " workers";
    }
  }
}

TEST(ClipNorm, leaves_gradients_alone_whose_norm_does_not_exceed_it) {
  const auto plain = wide_trainer(plain_recipe(), 2);
  Recipe recipe = plain_recipe();
  recipe.clip_norm = 1e6f;
  const auto clipped = wide_trainer(recipe, 2);
  for (int i = 0; i < 3; ++i) {
    const StepResult step = clipped->step({.hash = true}), expected = plain->step({.hash = true});
    EXPECT_EQ(step.hash, expected.hash);
    EXPECT_GT(step.gradient_norm, 0);
    EXPECT_EQ(expected.gradient_norm, 0) << "nobody asked for it";
  }
}

TEST(ClipNorm, clips_what_the_caller_made_of_the_gradients) {
  Recipe recipe = plain_recipe();
  recipe.clip_norm = 1e-3f;
  const auto trainer = wide_trainer(recipe, 2);
  float norm = 0;
  const StepResult step = trainer->step({}, [&](Trainer& its) {
    for (const TensorSpan& gradient : its.gradients()) std::ranges::fill(gradient.values, 2.0f);
    norm = stated_norm(its.gradients());
  });
  EXPECT_EQ(step.gradient_norm, norm);
}

TEST(ClipNorm, a_norm_that_is_not_finite_is_divergence_and_updates_nothing) {
  Recipe recipe = plain_recipe();
  recipe.clip_norm = 1;
  for (const std::int64_t workers : {1, 3}) {
    const auto trainer = wide_trainer(recipe, workers);
    for (const TensorSpan& parameter : trainer->parameters())
      if (parameter.name == "fc2.weight") parameter.values[0] = 1e25f;
    const std::uint64_t hash = trainer->parameter_hash();
    try {
      trainer->step();
      FAIL() << "accepted";
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kDiverged);
      EXPECT_TRUE(std::string(error.what())
                      .starts_with("step 1: the norm of the gradients is not finite; the first "
                                   "operation with such a result is the norm itself"))
          << error.what();
    }
    EXPECT_EQ(trainer->parameter_hash(), hash);
    EXPECT_EQ(trainer->steps_done(), 0);
  }
}

}  // namespace
}  // namespace podium
