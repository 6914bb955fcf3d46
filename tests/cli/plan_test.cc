// What a run will need and cost, before it is made.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

class PlanCommand : public CommandLine {};

TEST_F(PlanCommand, says_time_and_cost_with_an_interval_and_the_date_of_the_price) {
  const Outcome outcome = podium({"plan", "cifar10-resnet32", "--on", "v100"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part :
       {"whitepaper WP-08608-001, 2017", "memory of a device", "80% INTERVAL", "another recipe",
        "on demand, 2026", "cheapest", "scaling falls below 80%"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  const auto json =
      nlohmann::json::parse(podium({"plan", "cifar10-resnet32", "--on", "v100", "--price",
                                    "aws/p3.2xlarge@2018", "--critical-batch", "2000", "--json"})
                                .out);
  ASSERT_EQ(json["rows"].size(), 13U);  // 1, 2, 4, ... 4096
  EXPECT_EQ(json["price_date"], "2018-04");
  const auto& first = json["rows"][0];
  EXPECT_NEAR(first["usd"].get<double>(), first["seconds"].get<double>() * 3.06 / 3600, 1e-6);
  EXPECT_LT(first["seconds_low"], first["seconds"]);
  EXPECT_GT(first["seconds_high"], first["seconds"]);
  EXPECT_FALSE(json["rows"][12]["same_recipe"].get<bool>());
  EXPECT_GT(json["rows"][12]["epochs"], first["epochs"]);
}

TEST_F(PlanCommand, plans_for_this_machine_and_for_so_many_devices) {
  const auto here = nlohmann::json::parse(podium({"plan", "mnist", "--on", "here", "--json"}).out);
  EXPECT_GT(here["rows"][0]["images_per_second"], 100);
  EXPECT_EQ(here["precision"], "fp32");
  const auto eight =
      nlohmann::json::parse(podium({"plan", "mnist", "--on", "tpu-v2x8", "--json"}).out);
  ASSERT_EQ(eight["rows"].size(), 1U);
  EXPECT_EQ(eight["rows"][0]["devices"], 8);
  EXPECT_EQ(eight["rows"][0]["machines"], 2);  // of four chips
}

TEST_F(PlanCommand, a_budget_that_nothing_meets_is_answered_with_the_nearest) {
  const Outcome outcome =
      podium({"plan", "cifar10-resnet32", "--on", "v100", "--deadline", "1s", "--budget", "0.01"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("no number of devices meets that; the nearest is"), std::string::npos)
      << outcome.out;
}

TEST_F(PlanCommand, refuses_devices_prices_and_times_that_are_none) {
  expect_refusal(podium({"plan", "mnist", "--on", "v1000"}), 2, {"the nearest is \"v100\""});
  expect_refusal(podium({"plan", "mnist", "--on", "v100x0"}), 2, {"from 1 to 1000000"});
  expect_refusal(podium({"plan", "mnist", "--on", "v100", "--precision", "bf16"}), 2,
                 {"it has fp16, fp32"});
  expect_refusal(podium({"plan", "mnist", "--on", "v100", "--price", "gcp/tpu-v2-8"}), 2,
                 {"is for the device tpu-v2"});
  expect_refusal(podium({"plan", "mnist", "--on", "v100", "--deadline", "soon"}), 2,
                 {"is not a time above zero"});
  expect_refusal(podium({"plan", "mnist", "--on", "v100", "--budget", "-3"}), 2,
                 {"--budget: \"-3\" is not a number above zero"});
  expect_refusal(podium({"plan", "mnist", "--on", "a40", "--budget", "3"}), 2,
                 {"no price of a40 is known"});
}

class PlanOfPictures : public CommandLine {
 protected:
  // So many files that only look like pictures: a plan opens none.
  void write_pictures(const std::string& part, int count) const {
    for (int i = 0; i < count; ++i)
      write("photos/" + part + (i % 2 == 0 ? "/cats/" : "/dogs/") + std::to_string(i) + ".jpg",
            "x");
  }
  Outcome of(std::vector<std::string> words, const std::vector<std::string>& more) const {
    words.insert(words.end(), more.begin(), more.end());
    return podium(words);
  }
  const std::vector<std::string> show_ = {"show", "pictures", "data.path=photos", "batch=4"},
                                 plan_ = {"plan",   "pictures",         "--on",   "v100",
                                          "--json", "data.path=photos", "batch=4"};
};

TEST_F(PlanOfPictures, that_are_not_there_is_made_for_what_the_recipe_states) {
  const std::vector<std::string> stated = {"train_examples=40", "test_examples=8",
                                           "data.classes=2"};
  const Outcome guess = of(plan_, stated), text = of(show_, stated);
  ASSERT_EQ(guess.code, 0) << guess.err;
  ASSERT_EQ(text.code, 0) << text.err;
  for (const Outcome& one : {guess, text})
    EXPECT_EQ(one.err,
              "the pictures photos were not found; planned for what the recipe states: 40 "
              "to train on, 8 to evaluate, 2 classes\n");
  EXPECT_NE(text.out.find("the run's 400 steps"), std::string::npos) << text.out;
  // The same of the pictures themselves, without a word.
  write_pictures("train", 40);
  write_pictures("val", 8);
  for (const std::vector<std::string>& words : {stated, {}}) {
    const Outcome found = of(plan_, words);
    EXPECT_EQ(found.err, "");
    const auto rows = [](const Outcome& one) { return nlohmann::json::parse(one.out)["rows"]; };
    EXPECT_EQ(rows(found)[0]["seconds"], rows(guess)[0]["seconds"]);
    EXPECT_EQ(rows(found)[0]["memory_bytes"], rows(guess)[0]["memory_bytes"]);
  }
}

TEST_F(PlanOfPictures, that_are_not_there_nor_stated_is_refused) {
  for (const auto& words : {show_, plan_})
    expect_refusal(of(words, {"train_examples=40", "data.classes=2"}), 3,
                   {"the pictures photos were not found", "data.path=PHOTOS", "train_examples=N",
                    "test_examples=N data.classes=N"});
  // A run needs them.
  expect_refusal(podium({"train", "pictures", "data.path=photos", "train_examples=40",
                         "test_examples=8", "data.classes=2", "--out", "run"}),
                 3, {"the pictures photos were not found"});
}

TEST_F(PlanOfPictures, other_pictures_than_the_recipe_states_are_refused) {
  write_pictures("train", 40);
  write_pictures("val", 8);
  const std::vector<std::string> parts = {"40 to train on (`train_examples` = 41)",
                                          "2 classes (`data.classes` = 1000)",
                                          "train_examples=40 data.classes=2"};
  const std::vector<std::string> wrong = {"train_examples=41", "test_examples=8",
                                          "data.classes=1000"};
  for (const auto& words : {show_, plan_}) expect_refusal(of(words, wrong), 3, parts);
  expect_refusal(of({"train", "pictures", "data.path=photos", "--out", "run"}, wrong), 3, parts);
  EXPECT_FALSE(std::filesystem::exists(path("run")));
}

TEST_F(PlanOfPictures, of_imagenet_needs_none) {
  for (const char* recipe : {"imagenet-resnet50", "imagenet-resnet50-lars"}) {
    const Outcome outcome =
        podium({"plan", recipe, "--on", "tpu-v3x8", "data.path=not-here", "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("1281167 to train on, 50000 to evaluate, 1000 classes"),
              std::string::npos)
        << outcome.err;
    EXPECT_TRUE(nlohmann::json::parse(outcome.out)["rows"][0]["fits"].get<bool>());
  }
}

}  // namespace
}  // namespace podium::test
