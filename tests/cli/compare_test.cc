// Runs side by side.
#include <algorithm>
#include <chrono>
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
  const std::string table = outcome.out.substr(outcome.out.find("RUN "));
  const std::string head = table.substr(0, table.find('\n'));
  for (const char* column : {"RUN", "REPLICAS", "OPTIMIZER.LEARNING_RATE", "EPOCH", "TEST ACCURACY",
                             "BEST", "TEST LOSS", "IMAGES/S", "PARAMETERS"})
    EXPECT_NE(head.find(column), std::string::npos) << head;
  EXPECT_EQ(head.find("LOG_EVERY_STEPS"), std::string::npos) << head;
  EXPECT_NE(outcome.out.find("0.5 of 2"), std::string::npos) << outcome.out;

  const auto json = nlohmann::json::parse(podium({"compare", "a", "b", "c", "--json"}).out)["runs"];
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
  const auto json = nlohmann::json::parse(podium({"compare", "a", "--json"}).out)["runs"][0];
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
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["runs"].size(), 1U);
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

TEST_F(Compare, placements_of_a_recipe_are_run_first_and_told_in_a_sentence) {
  const Outcome outcome = podium({"compare", "glyphs", "train_examples=256", "test_examples=64",
                                  "replicas=2", "batch=32", "run.log_every_steps=1", "--placements",
                                  "workers=1; workers=2", "--steps", "6", "--out", "made",
                                  "--price", "aws/p3.2xlarge@2018", "--html", "page.html"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"made/workers-1", "made/workers-2",
                           "2 workers: ", " times as fast as 1 worker, same result to the bit, ",
                           "aws/p3.2xlarge of 2018-04", "(n = 1 and 1 runs)", "one run of a"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  EXPECT_EQ(outcome.out.find("differs:"), std::string::npos) << outcome.out;
  EXPECT_NE(read("page.html").find("</html>"), std::string::npos);
  // What was made is not made again, and can be compared by itself.
  const Outcome again = podium({"compare", "made/workers-1", "made/workers-2", "--json", "--target",
                                "0", "--target", "100"});
  const auto json = nlohmann::json::parse(again.out);
  EXPECT_TRUE(json["findings"].empty()) << again.out;
  EXPECT_EQ(json["runs"][1]["placement"], "2 workers");
  EXPECT_EQ(json["runs"][0]["price_date"], "2018-04");
  EXPECT_GT(json["runs"][0]["usd_to_target"][0], 0);
  EXPECT_TRUE(json["runs"][0]["seconds_to_target"][1].is_null());
  EXPECT_GT(json["runs"][0]["speeds"]["steps_per_second"]["n"], 1);
}

TEST_F(Compare, a_placement_that_fails_does_not_hide_the_others) {
  const Outcome outcome =
      podium({"compare", "glyphs", "train_examples=256", "test_examples=64", "replicas=2",
              "batch=32", "run.log_every_steps=1", "--placements",
              "workers=3; workers=1; workers=2", "--steps", "6", "--out", "made"});
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  for (const char* part : {"made/workers-1", "made/workers-2", "same result to the bit"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  EXPECT_NE(outcome.err.find("the run with the placement workers-3 ended with code 2"),
            std::string::npos)
      << outcome.err;
}

TEST_F(Compare, each_run_has_a_page_and_report_adds_pictures) {
  train("a");
  const std::string own = read("a/report.html");
  for (const char* part : {"</html>", "of 16 steps", "Confusion matrix after step 16",
                           "What was trained", "<svg", "Time of each operation", "conv2d conv1",
                           "Worst mistakes", "Examples", "data:image/png;base64,iVBOR"})
    EXPECT_NE(own.find(part), std::string::npos) << part;
  EXPECT_EQ(own.find("http-equiv=\"refresh\""), std::string::npos);
  // The page that has all of the run's last evaluation stays, until the run goes on.
  EXPECT_EQ(podium({"report", "a"}).out, "a/report.html\n");
  EXPECT_EQ(read("a/report.html"), own);
  std::filesystem::last_write_time(
      path("a/report.html"),
      std::filesystem::last_write_time(path("a/metrics.jsonl")) - std::chrono::seconds(5));
  EXPECT_EQ(podium({"report", "a"}).code, 0);
  EXPECT_NE(read("a/report.html").find("Time of each operation"), std::string::npos);
  const Outcome outcome = podium({"report", "a", "--pictures", "--out", "page.html"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "page.html\n");
  EXPECT_NE(read("page.html").find("data:image/png;base64,iVBOR"), std::string::npos);
  // A terminal would interpret what may stand in a name.
  EXPECT_EQ(podium({"report", "a", "--out", "\x1b[31mred.html"}).out, "?[31mred.html\n");
  expect_refusal(podium({"show", "a"}), 2, {"the folder of a run; give its recipe, a/recipe.toml"});
  expect_refusal(podium({"show", "./a"}), 2, {"is a folder", "give its recipe, ./a/recipe.toml"});
  expect_refusal(podium({"report", "nowhere"}), 3, {"nowhere", "recipe.toml"});
  expect_refusal(podium({"report", "a", "--out", "page.html"}), 2, {"exists already", "--force"});
}

TEST_F(Compare, a_run_that_failed_is_not_shown_as_one_that_goes_on) {
  train("a");
  const auto words =
      train_small("b", {"optimizer.learning_rate=1e30", "run.checkpoint_every_steps=1"});
  ASSERT_EQ(podium(words).code, 5);
  const std::string failure = "the loss is not finite";
  const std::string page = read("b/report.html");
  EXPECT_NE(page.find("The last start ended with a failure: step 2: " + failure),
            std::string::npos);
  EXPECT_EQ(page.find("in progress"), std::string::npos);

  const Outcome outcome = podium({"compare", "a", "b"});
  EXPECT_NE(outcome.out.find("failed"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("b ended with a failure: step 2: " + failure), std::string::npos)
      << outcome.out;
  const auto json = nlohmann::json::parse(podium({"compare", "a", "b", "--json"}).out)["runs"];
  EXPECT_TRUE(json[0]["failure"].is_null());
  EXPECT_EQ(json[1]["failure"].get<std::string>().find("step 2: " + failure), 0u);

  // The same command resumes at step 1, and says why.
  EXPECT_NE(podium(words).err.find("the last start of this run ended with a failure: step 2"),
            std::string::npos);
}

TEST_F(Compare, refuses_placements_prices_and_files_that_are_none) {
  train("a", {"--steps", "1"});
  expect_refusal(podium({"compare", "glyphs", "--placements", "worker=2"}), 2,
                 {"the nearest is \"workers\""});
  expect_refusal(podium({"compare", "glyphs", "--placements", "workers=0"}), 2,
                 {"from 1 to 65536"});
  expect_refusal(podium({"compare", "glyphs", "--placements", ";"}), 2, {"is empty"});
  expect_refusal(podium({"compare", "a", "--steps", "5"}), 2, {"--placements"});
  expect_refusal(podium({"compare", "a", "--price", "aws/p3.2large"}), 2,
                 {"the nearest are aws/p3.2xlarge"});
  const std::string recipe = read("a/recipe.toml");
  write("a/recipe.toml", "of_tomorrow = 1\n" + recipe);
  expect_refusal(podium({"compare", "a"}), 2,
                 {"a/recipe.toml:1: unknown key `of_tomorrow`", "if a newer Podium made this run"});
  write("a/recipe.toml", recipe);
  write("a/environment.json", "{\"starts\": 3}");
  expect_refusal(podium({"compare", "a"}), 3, {"environment.json", "remove the file"});
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
