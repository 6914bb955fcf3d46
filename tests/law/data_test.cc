// G3: batch k, its augmentation and its dropout masks are the same whichever worker, thread or
// resume point made them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/datasets/dataset.h"
#include "law_util.h"

namespace podium {
namespace {

// Every augmentation; 480 examples make 6 steps an epoch.
Recipe augmented_recipe() {
  Recipe recipe = small_recipe(80, 8);
  recipe.train_examples = 480;
  recipe.augment = {.shift = 2,
                    .rotate_degrees = 12,
                    .scale = 0.1f,
                    .shear = 0.1f,
                    .elastic = 1,
                    .cutout = 5,
                    .flip = "random"};
  return recipe;
}

const RunData& augmented_data() {
  static const RunData data = load_data(augmented_recipe(), "");
  return data;
}

std::unique_ptr<Trainer> augmented_trainer(std::int64_t workers, int threads = 1,
                                           const Recipe& recipe = augmented_recipe()) {
  return std::make_unique<Trainer>(
      recipe, find_model("mnist").build, augmented_data().train, augmented_data().held_out,
      Placement{.workers = workers, .threads = threads, .backend = law_backend()});
}

constexpr int kDataSteps = 9;  // into the second epoch

TEST(Data, augmented_steps_are_the_same_for_any_workers_and_threads) {
  const auto expected = step_hashes(*augmented_trainer(1), kDataSteps);
  for (const auto& [workers, threads] :
       {std::pair<std::int64_t, int>{2, 1}, {3, 2}, {5, 1}, {8, 1}, {1, 3}}) {
    EXPECT_EQ(step_hashes(*augmented_trainer(workers, threads), kDataSteps), expected)
        << workers << " workers of " << threads << " threads";
  }
}

TEST(Data, threads_that_make_batches_ahead_change_no_step) {
  const auto expected = step_hashes(*augmented_trainer(1), kDataSteps);
  for (const auto& [workers, input_threads] : {std::pair<std::int64_t, int>{1, 1}, {3, 2}}) {
    Trainer trainer(
        augmented_recipe(), find_model("mnist").build, augmented_data().train,
        augmented_data().held_out,
        Placement{.workers = workers, .input_threads = input_threads, .backend = law_backend()});
    const Checkpoint start = trainer.checkpoint();
    EXPECT_EQ(step_hashes(trainer, kDataSteps), expected);
    trainer.restore(start);  // whatever was made ahead
    EXPECT_EQ(step_hashes(trainer, kDataSteps), expected)
        << workers << " workers, " << input_threads << " threads";
  }
}

TEST(Data, a_refused_step_says_why_where_threads_make_batches_ahead) {
  Recipe recipe = augmented_recipe();
  recipe.optimizer = {};
  recipe.optimizer.name = "sgd";
  recipe.optimizer.learning_rate = 1e38;
  recipe.schedule = {};
  std::vector<std::string> reasons;
  for (const int input_threads : {0, 2}) {
    Trainer trainer(
        recipe, find_model("mnist").build, augmented_data().train, augmented_data().held_out,
        Placement{.workers = 2, .input_threads = input_threads, .backend = law_backend()});
    StepResult step;
    for (int i = 0; i < 20 && step.non_finite.empty(); ++i)
      step = trainer.step({.throw_on_divergence = false});
    EXPECT_NE(step.non_finite, "");
    EXPECT_EQ(trainer.step({.throw_on_divergence = false}).non_finite, step.non_finite)
        << "the same step again";
    reasons.push_back(cat(step.step, " ", step.non_finite));
  }
  EXPECT_EQ(reasons[0], reasons[1]);
}

TEST(Data, normalised_and_reflected_steps_are_the_same_for_any_workers_and_threads) {
  Recipe recipe = augmented_recipe();
  recipe.augment = {.shift = 3, .cutout = 5, .flip = "alternating", .padding = "reflect"};
  std::vector<std::vector<std::uint64_t>> seen;
  for (const NormaliseOptions& normalise :
       {NormaliseOptions{}, {"per-channel", {0.14}, {0.3}}, {"per-image", {}, {}}}) {
    recipe.normalise = normalise;
    seen.push_back(step_hashes(*augmented_trainer(1, 1, recipe), kDataSteps));
    for (const auto& [workers, threads] : {std::pair<std::int64_t, int>{3, 2}, {8, 1}}) {
      EXPECT_EQ(step_hashes(*augmented_trainer(workers, threads, recipe), kDataSteps), seen.back())
          << normalise.name << ", " << workers << " workers of " << threads << " threads";
    }
  }
  EXPECT_NE(seen[0], seen[1]);
  EXPECT_NE(seen[0], seen[2]);
  EXPECT_NE(seen[1], seen[2]);
}

// A trainer is made of a recipe that nobody checked: what does not fit is named.
TEST(Data, options_that_do_not_fit_the_images_are_refused_when_a_trainer_is_made) {
  const auto error = [](const Recipe& recipe) -> std::string {
    try {
      augmented_trainer(1, 1, recipe);
    } catch (const UserError& refused) {
      return refused.what();
    }
    return "accepted";
  };
  Recipe recipe = augmented_recipe();
  recipe.normalise = {"per-channel", {0.1, 0.2, 0.3}, {0.1}};
  EXPECT_EQ(
      error(recipe),
      "`normalise.mean` has 3 numbers; the images have 1 channel: give one number per channel");
  recipe = augmented_recipe();
  recipe.augment.shift = 28;
  EXPECT_EQ(error(recipe),
            "`augment.shift` = 28: the images are 28 x 28 pixels; it must be between 0 and 27");
}

TEST(Data, augmented_steps_are_the_same_from_any_point_of_resumption) {
  const auto first = augmented_trainer(2);
  const auto expected = step_hashes(*augmented_trainer(1), kDataSteps);
  for (int done = 0; done < kDataSteps; ++done) {
    const auto resumed = augmented_trainer(1 + done % 8);
    resumed->restore(first->checkpoint());
    EXPECT_EQ(step_hashes(*resumed, kDataSteps - done),
              std::vector(expected.begin() + done, expected.end()))
        << "from step " << done;
    first->step();
  }
}

// What a step saw, as `podium inspect` writes it.
TEST(Data, a_steps_batch_and_masks_are_the_same_whoever_made_them) {
  const auto whole = augmented_trainer(1);
  std::vector<std::vector<NamedTensor>> seen;
  std::vector<Checkpoint> before;
  for (int step = 0; step < kDataSteps; ++step) {
    before.push_back(whole->checkpoint());
    seen.push_back(whole->inspect_step().tensors);
  }
  for (const int step : {8, 0, 5, 6}) {  // in any order: nothing is left over from another step
    const auto other = augmented_trainer(3 + step % 3, 2);
    other->restore(before[static_cast<std::size_t>(step)]);
    const std::vector<NamedTensor> again = other->inspect_step().tensors;
    const std::vector<NamedTensor>& first = seen[static_cast<std::size_t>(step)];
    ASSERT_EQ(again.size(), first.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      ASSERT_EQ(again[i].name, first[i].name);
      EXPECT_EQ(std::memcmp(again[i].tensor.data(), first[i].tensor.data(),
                            static_cast<std::size_t>(first[i].tensor.type().bytes())),
                0)
          << first[i].name << " of step " << step;
    }
  }
}

// A run goes on with the examples that it began with, in their order, or not at all.
TEST(Data, a_checkpoint_of_other_examples_is_refused) {
  const auto trainer = augmented_trainer(2);
  step_hashes(*trainer, 2);
  const Checkpoint checkpoint = trainer->checkpoint();
  EXPECT_NO_THROW(augmented_trainer(1)->require_same_data(checkpoint));
  auto swapped = std::make_shared<ImageSet>(dynamic_cast<const ImageSet&>(*augmented_data().train));
  const std::int64_t image = swapped->image_bytes();
  std::swap_ranges(swapped->pixels.begin(), swapped->pixels.begin() + image,
                   swapped->pixels.begin() + image);
  std::swap(swapped->labels[0], swapped->labels[1]);
  const Trainer other(augmented_recipe(), find_model("mnist").build, swapped,
                      augmented_data().held_out, Placement{.workers = 1, .backend = law_backend()});
  try {
    other.require_same_data(checkpoint);
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_NE(std::string(error.what()).find("480 examples, hash "), std::string::npos)
        << error.what();
  }
}

TEST(Data, sets_that_do_not_fit_each_other_are_refused) {
  auto other =
      std::make_shared<ImageSet>(dynamic_cast<const ImageSet&>(*augmented_data().held_out));
  other->classes = 11;
  EXPECT_THROW(Trainer(augmented_recipe(), find_model("mnist").build, augmented_data().train, other,
                       Placement{.workers = 1, .backend = law_backend()}),
               UserError);
}

// The inspected step is the step that was made: by plain gradient descent of rate 1, each parameter
// moves by exactly the gradient of the inspected batch.
TEST(Data, what_is_inspected_is_what_the_workers_computed) {
  Recipe recipe = augmented_recipe();
  recipe.optimizer = {};
  recipe.optimizer.name = "sgd";
  recipe.optimizer.learning_rate = 1;
  recipe.optimizer.momentum = 0;
  recipe.schedule = {};
  Trainer trainer(recipe, find_model("mnist").build, augmented_data().train,
                  augmented_data().held_out, Placement{.workers = 3, .backend = law_backend()});
  step_hashes(trainer, 4);
  const std::vector<NamedTensor> seen = trainer.inspect_step().tensors;
  int compared = 0;
  for (const NamedTensor& gradient : seen) {
    if (!gradient.name.starts_with("gradient/")) continue;
    const std::string name = gradient.name.substr(std::strlen("gradient/"));
    const Tensor *before = find_tensor(seen, "before/" + name),
                 *after = find_tensor(seen, "after/" + name);
    ASSERT_TRUE(before != nullptr && after != nullptr) << name;
    for (std::int64_t i = 0; i < before->elements(); ++i, ++compared) {
      ASSERT_EQ(after->f32()[i], before->f32()[i] - gradient.tensor.f32()[i])
          << name << ", element " << i;
    }
  }
  EXPECT_GT(compared, 100000);
}

TEST(Data, the_batch_and_the_masks_differ_from_step_to_step_and_between_replicas) {
  const auto trainer = augmented_trainer(1);
  const auto find = [](const std::vector<NamedTensor>& list, const std::string& name) {
    const Tensor* tensor = find_tensor(list, name);
    EXPECT_NE(tensor, nullptr) << name;
    return std::vector(tensor->f32().begin(), tensor->f32().end());
  };
  const std::vector<NamedTensor> one = trainer->inspect_step().tensors,
                                 two = trainer->inspect_step().tensors;
  EXPECT_NE(find(one, "inputs"), find(two, "inputs"));
  const std::vector<float> mask = find(one, "dropout/dropout");
  EXPECT_NE(mask, find(two, "dropout/dropout"));
  const std::size_t replica = mask.size() / 8;
  for (std::size_t r = 1; r < 8; ++r) {
    EXPECT_FALSE(std::equal(mask.begin(), mask.begin() + static_cast<long>(replica),
                            mask.begin() + static_cast<long>(r * replica)))
        << "replica " << r;
  }
}

// The recipes write down what they normalise by; the training set says whether that is right.
TEST(Data, recipes_of_cifar10_normalise_by_its_mean_and_deviation) {
  if (!locate_files(find_dataset("cifar10"), "").has_value())
    GTEST_SKIP() << "the files of cifar10 are not here; podium data fetch cifar10 gets them";
  const ImageSet set = load_dataset("cifar10", Split::kTrain);
  const std::int64_t plane = set.height * set.width;
  for (const char* name : {"cifar10-davidnet", "cifar10-sprint"}) {
    const Recipe recipe = read_recipe(find_recipe(name));
    for (std::int64_t c = 0; c < set.channels; ++c) {
      double sum = 0, squares = 0;
      for (std::int64_t n = 0; n < set.count; ++n) {
        for (std::int64_t i = 0; i < plane; ++i) {
          const double x =
              set.pixels[static_cast<std::size_t>((n * set.channels + c) * plane + i)] / 255.0;
          sum += x, squares += x * x;
        }
      }
      const auto count = static_cast<double>(set.count * plane);
      const auto channel = static_cast<std::size_t>(c);
      EXPECT_NEAR(recipe.normalise.mean[channel], sum / count, 6e-5) << name;
      EXPECT_NEAR(recipe.normalise.deviation[channel],
                  std::sqrt(squares / count - (sum / count) * (sum / count)), 6e-5)
          << name;
    }
  }
}

}  // namespace
}  // namespace podium
