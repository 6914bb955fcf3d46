// A program's own examples, handed to run(): checked, recorded with the run, needed to go on.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/numerics/hash.h"
#include "base/scratch_test_util.h"
#include "nn/models.h"
#include "train/predict/predictor.h"
#include "train/run/run.h"

namespace podium {
namespace {

// Images of the size that the model of MNIST takes; a class decides which rows are bright.
std::shared_ptr<const ImageSet> own_set(std::int64_t count, std::uint8_t brightness = 200) {
  constexpr std::int64_t kSide = 28;
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(count * kSide * kSide));
  std::vector<std::int32_t> labels;
  for (std::int64_t n = 0; n < count; ++n) {
    labels.push_back(static_cast<std::int32_t>(n % 4));
    for (std::int64_t i = 0; i < kSide * kSide; ++i)
      if (i / kSide / 7 == n % 4)
        pixels[static_cast<std::size_t>(n * kSide * kSide + i)] =
            static_cast<std::uint8_t>(brightness + (n + i) % 50);
  }
  return std::make_shared<const ImageSet>(make_image_set(
      pixels, labels,
      {.count = count, .height = kSide, .width = kSide, .classes = 4, .source = "drawn rows"}));
}

Recipe own_recipe() {
  Recipe recipe = parse_recipe(R"(
model = "mnist"
data = "glyphs"
batch = 8
replicas = 2
steps = 6
[optimizer]
name = "adam"
learning_rate = 0.003
)",
                               "own");
  return recipe;
}

RunResult run_own(const TestFolder& scratch, std::shared_ptr<const ImageSet> train,
                  std::int64_t stop_steps = 0) {
  RunOptions options;
  options.out = scratch.path() / "run";
  options.placement.workers = 2;
  options.stop_steps = stop_steps;
  options.data = {std::move(train), own_set(20)};
  RunObserver nobody;
  return run(own_recipe(), find_model("mnist").build, options, nobody);
}

std::string data_error(const std::function<void()>& work) {
  try {
    work();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kData) << error.what();
    return error.what();
  }
  return "accepted";
}

TEST(OwnData, a_run_does_not_take_an_address_of_a_store_for_a_folder) {
  RunOptions options;
  options.out = "s3://bucket/run";
  RunObserver nobody;
  try {
    run(own_recipe(), find_model("mnist").build, options, nobody);
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("StoredRun"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(std::filesystem::exists("s3:"));
}

TEST(OwnData, a_run_records_them_and_goes_on_with_the_same_examples_alone) {
  const TestFolder scratch;
  const RunResult first = run_own(scratch, own_set(40), 3);
  EXPECT_EQ(first.steps, 3);
  EXPECT_EQ(first.evaluation.sums.examples, 20);
  const Recipe recorded = read_recipe(scratch.path() / "run" / "recipe.toml");
  EXPECT_EQ(recorded.data, "own");
  EXPECT_EQ(recorded.train_examples, 40);
  EXPECT_EQ(recorded.test_examples, 20);

  const std::string error = data_error([&] { run_own(scratch, own_set(40, 100)); });
  EXPECT_NE(error.find("was trained on other data: then 40 examples, hash "), std::string::npos)
      << error;
  const RunResult second = run_own(scratch, own_set(40));
  EXPECT_EQ(second.steps, 6);
  EXPECT_EQ(second.steps_made, 3);
  const TestFolder elsewhere;
  EXPECT_EQ(second.parameter_hash, run_own(elsewhere, own_set(40)).parameter_hash);
}

TEST(OwnData, commands_say_whose_the_data_are_and_prediction_needs_none) {
  const TestFolder scratch;
  const RunResult result = run_own(scratch, own_set(40));
  const std::string error =
      data_error([&] { load_run(scratch.path() / "run", "", {.workers = 1}); });
  EXPECT_EQ(error,
            "data = \"own\": the examples are those of the program that trained this run, so only "
            "that program can resume or evaluate it; `podium predict` works without them");

  Predictor predictor = Predictor::load(scratch.path() / "run");
  EXPECT_EQ(predictor.classes(), 4);
  const auto held_out = own_set(20);
  const Tensor logits = predictor.logits(*held_out);
  std::int64_t correct = 0;
  for (std::int64_t n = 0; n < 20; ++n)
    correct += ranking(logits.f32().subspan(static_cast<std::size_t>(4 * n), 4)).front() ==
                       held_out->labels[static_cast<std::size_t>(n)]
                   ? 1
                   : 0;
  EXPECT_EQ(correct, result.evaluation.sums.count(kCorrectCount));
}

TEST(OwnData, sets_that_cannot_be_used_are_refused_before_anything_is_written) {
  const TestFolder scratch;
  const auto with = [&](auto change) {
    auto set = std::make_shared<ImageSet>(*own_set(40));
    change(*set);
    return data_error([&] { run_own(scratch, set); });
  };
  EXPECT_EQ(with([](ImageSet& set) { set.labels[7] = 4; }),
            "the training set (drawn rows): example 7 (counted from 0) has the label 4; labels are "
            "0 to 3, since there are 4 classes");
  EXPECT_EQ(with([](ImageSet& set) { set.pixels.resize(1000); }),
            "the training set (drawn rows): 40 images of 1 x 28 x 28 need 31360 bytes, and there "
            "are 1000: example 1 (counted from 0) is the first incomplete one");
  EXPECT_EQ(with([](ImageSet& set) { set.labels.clear(); }),
            "the training set (drawn rows): no labels; each of the 40 images needs one, from 0 to "
            "3");
  EXPECT_EQ(data_error([&] { run_own(scratch, nullptr); }),
            "RunOptions::data has no training set; give both, or neither");
  Recipe recipe = own_recipe();
  recipe.schedule.warmup = 10000;
  RunOptions options;
  options.out = scratch.path() / "run";
  options.data = {own_set(40), own_set(20)};
  RunObserver nobody;
  EXPECT_EQ(
      user_error(ExitCode::kUsage,
                 [&] { run(recipe, find_model("mnist").build, options, nobody); }),
      "recipe own, with 40 examples to train on: `schedule.warmup` = 10000 is longer than the "
      "run of 6 steps; set a shorter one, or 0 for none");
  recipe = own_recipe();
  recipe.batch = 48;
  EXPECT_EQ(
      user_error(ExitCode::kUsage,
                 [&] { run(recipe, find_model("mnist").build, options, nobody); }),
      "recipe own, with 40 examples to train on: `batch` = 48 is larger than the training set "
      "of 40 examples");
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "run"));
}

TEST(OwnData, a_trainer_checks_its_sets) {
  const auto make = [](std::shared_ptr<const ImageSet> train,
                       std::shared_ptr<const ImageSet> held_out) {
    return data_error(
        [&] { Trainer(own_recipe(), find_model("mnist").build, train, held_out, {.workers = 1}); });
  };
  EXPECT_EQ(make(nullptr, own_set(20)), "the training set is a null pointer");
  EXPECT_EQ(make(own_set(40), nullptr), "the held-out set is a null pointer");
  auto unlabelled = std::make_shared<ImageSet>(*own_set(20));
  unlabelled->labels.clear();
  EXPECT_EQ(make(own_set(40), unlabelled),
            "the held-out set (drawn rows): no labels; each of the 20 images needs one, from 0 to "
            "3");
}

// --- what a program does in a run

struct Patient : RunObserver {
  std::vector<std::int64_t> evaluated_at;
  std::int64_t asked = 0;
  void evaluated(const Trainer&, const EvaluationResult& result) override {
    evaluated_at.push_back(result.step);
  }
  bool ends_run(const Trainer& trainer) override {
    ++asked;
    return trainer.steps_done() == 4;
  }
};

TEST(RunByProgram, ends_where_the_observer_says_saved_and_evaluated_once) {
  const TestFolder scratch;
  Recipe recipe = own_recipe();
  recipe.evaluation.every_epochs = 1;
  RunOptions options;
  options.out = scratch.path() / "run";
  options.placement.workers = 1;
  options.data = {own_set(16), own_set(20)};  // two steps an epoch
  Patient patient;
  const RunResult result = run(recipe, find_model("mnist").build, options, patient);
  EXPECT_TRUE(result.ended);
  EXPECT_FALSE(result.stopped);
  EXPECT_EQ(result.steps, 4);
  EXPECT_EQ(patient.asked, 4);
  EXPECT_EQ(patient.evaluated_at, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(result.evaluation.step, 4);
  EXPECT_EQ(result.evaluation.sums.examples, 20);
  EXPECT_EQ(Predictor::load(options.out).step(), 4);
  RunObserver nobody;
  const RunResult rest = run(recipe, find_model("mnist").build, options, nobody);
  EXPECT_FALSE(rest.ended);
  EXPECT_EQ(rest.steps_made, 2) << "the same call goes on from there";
}

TEST(RunByProgram, changes_gradients_in_every_step) {
  const TestFolder scratch;
  RunOptions options;
  options.out = scratch.path() / "run";
  options.placement.workers = 2;
  options.data = {own_set(40), own_set(20)};
  Trainer start(own_recipe(), find_model("mnist").build, options.data.train, options.data.held_out,
                {.workers = 1});
  int calls = 0;
  options.on_gradients = [&](Trainer& trainer) {
    ++calls;
    for (const TensorSpan& gradient : trainer.gradients()) std::ranges::fill(gradient.values, 0.f);
  };
  RunObserver nobody;
  const RunResult result = run(own_recipe(), find_model("mnist").build, options, nobody);
  EXPECT_EQ(calls, 6);
  EXPECT_EQ(result.parameter_hash, start.parameter_hash()) << "Adam moves nothing by zeros";
}

}  // namespace
}  // namespace podium
