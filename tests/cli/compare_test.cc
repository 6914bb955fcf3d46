// Runs side by side.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/run_podium.h"

namespace podium::test {
namespace {

class Compare : public CommandLine {
 protected:
  void train(const std::string& out, const std::vector<std::string>& more = {}) const {
    const Outcome outcome = podium(train_small(out, more));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
};

TEST_F(Compare, names_the_keys_that_differ_and_what_came_of_them) {
  train("a");
  train("b", {"replicas=2", "optimizer.learning_rate=0.02", "run.log_every_steps=1"});
  train("c", {"--steps", "4"});
  const Outcome outcome = podium({"compare", "a", "b", "c"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string head = outcome.out.substr(0, outcome.out.find('\n'));
  for (const char* column : {"RUN", "REPLICAS", "OPTIMIZER.LEARNING_RATE", "EPOCH", "TEST ACCURACY",
                             "BEST", "TEST LOSS", "IMAGES/S", "PARAMETERS"})
    EXPECT_NE(head.find(column), std::string::npos) << head;
  EXPECT_EQ(head.find("LOG_EVERY_STEPS"), std::string::npos) << head;
  EXPECT_NE(outcome.out.find("0.5 of 2"), std::string::npos) << outcome.out;

  const auto json = nlohmann::json::parse(podium({"compare", "a", "b", "c", "--json"}).out);
  ASSERT_EQ(json.size(), 3U);
  EXPECT_EQ(json[1]["differs"]["replicas"], "2");
  EXPECT_EQ(json[1]["differs"].size(), 2U);
  EXPECT_EQ(json[2]["step"], 4);
  EXPECT_EQ(json[2]["total_steps"], 16);
  const auto own = nlohmann::json::parse(podium({"eval", "a", "--json"}).out);
  EXPECT_EQ(json[0]["test_accuracy"], own["accuracy"]);
  EXPECT_EQ(json[0]["parameter_hash"], own["parameter_hash"]);
  EXPECT_EQ(json[0]["tests"].size(), 2U);
  EXPECT_NE(json[0]["parameter_hash"], json[1]["parameter_hash"]);
}

TEST_F(Compare, an_accuracy_and_a_hash_are_shown_with_their_own_steps) {
  train("a", {"--steps", "4"});
  // As of a run with a hash every three steps, stopped after step 12, between two evaluations.
  write("a/hashes.jsonl", "{\"step\": 9, \"hash\": \"0123456789abcdef\"}\n");
  write("a/metrics.jsonl",
        "{\"step\": 4, \"test_accuracy\": 0.75, \"test_loss\": 1}\n"
        "{\"step\": 8, \"test_accuracy\": 0.5, \"test_loss\": 1}\n"
        "{\"step\": 12, \"loss\": 1, \"accuracy\": 0.4, \"images_per_second\": 9}\n");
  const Outcome outcome = podium({"compare", "a"});
  for (const char* part : {" 12 ", "50.00% (step 8)", "75.00% (step 4)", "1.0000 (step 8)",
                           "0123456789abcdef (step 9)"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  const auto json = nlohmann::json::parse(podium({"compare", "a", "--json"}).out)[0];
  EXPECT_EQ(json["step"], 12);
  EXPECT_EQ(json["test_step"], 8);
  EXPECT_EQ(json["test_accuracy"], 0.5);
  EXPECT_EQ(json["best_test_step"], 4);
  EXPECT_EQ(json["best_test_accuracy"], 0.75);
  EXPECT_EQ(json["parameter_hash_step"], 9);
}

TEST_F(Compare, many_differences_are_counted) {
  train("a");
  train("b", {"optimizer.name=sgd", "optimizer.momentum=0.5", "optimizer.nesterov=true",
              "optimizer.weight_decay=0.1", "augment.shift=1", "augment.cutout=2", "replicas=2",
              "label_smoothing=0.1", "seed=3"});
  const Outcome outcome = podium({"compare", "a", "b"});
  EXPECT_NE(outcome.out.find("RECIPE"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("differ in 9 keys"), std::string::npos) << outcome.out;
}

TEST_F(Compare, draws_the_curves) {
  train("a", {"run.log_every_steps=1"});
  train("b", {"run.log_every_steps=1", "seed=3"});
  for (const char* measure : {"test-accuracy", "loss"}) {
    const Outcome outcome = podium({"compare", "a", "b", "--plot", "plot.svg", "--measure", measure,
                                    "--title", "two", "--force"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const std::string svg = read("plot.svg");
    EXPECT_TRUE(svg.starts_with("<svg ")) << svg;
    for (const char* part : {">two<", ">epoch<", ">seed = 0: ", ">seed = 3: "})
      EXPECT_NE(svg.find(part), std::string::npos) << svg;
  }
}

// `podium compare runs/*` meets whatever else lies there.
TEST_F(Compare, skips_what_is_no_run_with_a_note) {
  train("a", {"--steps", "1"});
  write("notes.txt", "x");
  write("glyphs-band/band.json", "{}");
  const Outcome outcome = podium({"compare", "a", "notes.txt", "glyphs-band", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out).size(), 1U);
  for (const char* part : {"notes.txt: skipped", "glyphs-band: skipped",
                           "the runs of this band are glyphs-band/seed-*"})
    EXPECT_NE(outcome.err.find(part), std::string::npos) << part << "\n" << outcome.err;
  expect_refusal(podium({"compare", "notes.txt", "glyphs-band"}), 3,
                 {"none of these is a run's folder"});
}

TEST_F(Compare, epochs_are_shown_to_one_decimal) {
  const auto train_steps = [&](const std::string& out, const std::string& batch,
                               const std::string& steps) {
    const Outcome outcome = podium({"train", "glyphs", "train_examples=256", "test_examples=20",
                                    "replicas=1", batch, steps, "--steps", "3", "--out", out});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  };
  train_steps("a", "batch=24", "steps=21");  // of 10 steps an epoch
  train_steps("b", "batch=36", "steps=10");  // of 7
  const std::string text = podium({"compare", "a", "b"}).out;
  EXPECT_NE(text.find(" 0.3 of 2.1 "), std::string::npos) << text;
  EXPECT_NE(text.find(" 0.4 of 1.4 "), std::string::npos) << text;
}

TEST_F(Compare, a_plot_says_what_it_shows_and_of_which_recipes) {
  train("a");
  ASSERT_EQ(podium({"compare", "a", "--plot", "a.svg"}).code, 0);
  EXPECT_NE(read("a.svg").find(">glyphs: test accuracy<"), std::string::npos) << read("a.svg");
  train("b", {"name=drawn"});
  ASSERT_EQ(podium({"compare", "a", "b", "--plot", "b.svg", "--measure", "loss"}).code, 0);
  EXPECT_NE(read("b.svg").find(">glyphs, drawn: loss of training batches<"), std::string::npos);
}

TEST_F(Compare, refuses_what_is_no_run) {
  train("a");
  expect_refusal(podium({"compare", "a", "nowhere"}), 3, {"nowhere", "recipe.toml"});
  expect_refusal(podium({"compare", "a", "--measure", "speed"}), 2, {"--measure", "speed"});
  write("a/metrics.jsonl", "{\"step\": 1}\n" + read("a/metrics.jsonl"));
  expect_refusal(podium({"compare", "a"}), 3, {"metrics.jsonl:1", "repair or remove that line"});
  // A plot that cannot be written leaves no part of one.
  write("a/metrics.jsonl", "");
  EXPECT_EQ(podium({"compare", "a", "--plot", "no/folder/plot.svg"}).code, 3);
}

}  // namespace
}  // namespace podium::test
