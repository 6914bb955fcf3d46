#include "report/comparison.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/scratch_test_util.h"
#include "files/file_io.h"
#include "report/band.h"
#include "report/pages/comparison_page.h"
#include "report/pages/html.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

struct Written {
  std::string seed = "0", workers = "1", cpu = "a cpu", kind = "exact fp32",
              hash = "00000000000000aa";
  std::string price = "null", more_recipe;
  double speed = 1000;       // images/s
  std::int64_t points = 20;  // each of 10 steps
  double accuracy = 0.9;     // of the test after half of the steps and of the last
  std::string metric = "accuracy", item = "image";
  std::string words;  // of environment.json
};

// A folder as `podium train` leaves it. The batch is 100: speed 1000 is 10 steps/s.
fs::path write_run(const fs::path& folder, const Written& run) {
  fs::create_directories(folder);
  put_text(folder / "recipe.toml",
           cat("name = \"r\"\nmodel = \"mnist\"\ndata = \"glyphs\"\ntrain_examples = 1000\n"
               "batch = 100\nreplicas = 2\nseed = ",
               run.seed, "\nsteps = ", 10 * run.points,
               "\n[optimizer]\nname = \"sgd\"\nlearning_rate = 0.1\n", run.more_recipe));
  std::string metrics, hashes;
  for (std::int64_t i = 1; i <= run.points; ++i) {
    // The warm-up is slow.
    const double speed = i <= 2 ? run.speed / 10 : run.speed;
    metrics +=
        cat("{\"step\": ", 10 * i, ", \"loss\": 1, \"", run.metric, "\": 0.5, \"", run.item,
            "s_per_second\": ", speed, ", \"input_wait_percent\": 2, \"seconds\": ", i, "}\n");
    hashes += cat("{\"step\": ", 10 * i, ", \"hash\": \"", run.hash, "\"}\n");
    if (i == run.points / 2 || i == run.points)
      metrics += cat("{\"step\": ", 10 * i, ", \"test_", run.metric, "\": ", run.accuracy,
                     ", \"test_loss\": 1}\n");
  }
  put_text(folder / "metrics.jsonl", metrics);
  put_text(folder / "hashes.jsonl", hashes);
  put_text(folder / "environment.json",
           cat("{\"starts\": [{\"from_step\": 0, \"cpu\": \"", run.cpu, "\", \"kind\": \"",
               run.kind, "\", \"workers\": ", run.workers, ", \"threads\": 1, ", run.words,
               "\"price\": ", run.price, ", \"outcome\": {\"seconds\": ", run.points + 1,
               ", \"peak_memory_bytes\": 1048576, \"joules\": null}}]}"));
  return folder;
}

const char* const kPrice =
    "{\"provider\": \"p\", \"machine\": \"m\", \"usd_per_hour\": 3600, \"date\": \"2018-04\", "
    "\"kind\": \"on demand\"}";

Comparison compared(const std::vector<fs::path>& folders, const CompareOptions& options = {}) {
  std::vector<RunHistory> runs;
  for (const fs::path& folder : folders) runs.push_back(read_history(folder));
  return compare_runs(std::move(runs), options);
}

bool says(const std::vector<std::string>& lines, const std::string& part) {
  for (const std::string& line : lines)
    if (line.find(part) != std::string::npos) return true;
  return false;
}

TEST(Comparison, two_placements_are_told_in_a_sentence) {
  const TestFolder folder;
  const auto all =
      compared({write_run(folder / "a", {.price = kPrice}),
                write_run(folder / "b", {.workers = "2", .price = kPrice, .speed = 1970})});
  ASSERT_EQ(all.sentences.size(), 1u);
  EXPECT_EQ(all.sentences[0],
            "2 workers: 1.97 times as fast as 1 worker, same result to the bit, at the same cost "
            "(n = 1 and 1 runs).");
  EXPECT_TRUE(all.findings.empty());
  EXPECT_FALSE(all.different_trainings);
  EXPECT_TRUE(all.differences.empty());
  // 200 steps, a tenth of which are warm-up: 18 points.
  EXPECT_EQ(all.runs[0].steps_per_second.n, 18u);
  EXPECT_DOUBLE_EQ(all.runs[0].steps_per_second.median, 10);
  EXPECT_DOUBLE_EQ(all.runs[1].items_per_second.median, 1970);
  EXPECT_DOUBLE_EQ(all.runs[0].usd, 21);  // 1 USD a second
  EXPECT_EQ(all.runs[0].price->price.date, "2018-04");
}

TEST(Comparison, time_and_cost_to_an_accuracy_are_of_the_first_test_that_reaches_it) {
  const TestFolder folder;
  const auto all = compared({write_run(folder / "a", {.price = kPrice})}, {.targets = {90, 95}});
  // At step 100, and the window of the next ten steps, which end at second 11, takes one.
  EXPECT_DOUBLE_EQ(all.runs[0].seconds_to[0], 10);
  EXPECT_DOUBLE_EQ(all.runs[0].usd_to[0], 10);
  EXPECT_TRUE(std::isnan(all.runs[0].seconds_to[1]));
}

TEST(Comparison, unequal_bits_within_a_kind_are_a_finding_and_across_kinds_are_none) {
  const TestFolder folder;
  const fs::path a = write_run(folder / "a", {});
  const fs::path b = write_run(folder / "b", {.workers = "2", .hash = "00000000000000bb"});
  const auto same_kind = compared({a, b});
  EXPECT_TRUE(says(same_kind.findings, "parameters differ from step 10 on"));
  EXPECT_TRUE(says(same_kind.sentences, "ANOTHER RESULT"));
  const fs::path c = write_run(folder / "c", {.kind = "cuda bf16", .hash = "00000000000000bb"});
  const auto other = compared({a, c});
  EXPECT_TRUE(other.findings.empty());
  EXPECT_TRUE(says(other.sentences, "another kind of results"));
  EXPECT_TRUE(says(other.notes, "has no band"));
}

TEST(Comparison, unequal_bits_after_the_end_of_the_first_run_are_found) {
  const TestFolder folder;
  const fs::path a = write_run(folder / "a", {.points = 2});
  const fs::path b = write_run(folder / "b", {});
  const fs::path c = write_run(folder / "c", {.workers = "2"});
  // One training: the last step is not part of the mathematics.
  fs::copy_file(b / "recipe.toml", a / "recipe.toml", fs::copy_options::overwrite_existing);
  std::string hashes;
  for (std::int64_t step = 10; step <= 200; step += 10)
    hashes +=
        cat("{\"step\": ", step, ", \"hash\": \"00000000000000", step < 100 ? "aa" : "bb", "\"}\n");
  put_text(c / "hashes.jsonl", hashes);
  const auto all = compared({a, b, c});
  ASSERT_EQ(all.findings.size(), 1u);
  EXPECT_CONTAINS(all.findings[0], "parameters differ from step 100 on");
}

TEST(Comparison, placements_of_unequal_batches_are_two_trainings_and_not_compared) {
  const TestFolder folder;
  const fs::path a = write_run(folder / "a", {});
  const fs::path b = write_run(folder / "b", {.workers = "2"});
  std::string recipe = read_text(b / "recipe.toml").value();
  recipe.replace(recipe.find("batch = 100"), 11, "batch = 50");
  put_text(b / "recipe.toml", recipe);
  const auto all = compared({a, b});
  ASSERT_EQ(all.sentences.size(), 3u);
  EXPECT_CONTAINS(all.sentences[0], "2 different trainings");
  EXPECT_FALSE(says(all.sentences, "as fast as"));
  EXPECT_FALSE(says(all.sentences, "bit."));
}

const char* const kErrorWords =
    "\"item\": \"row\", \"metric\": {\"name\": \"mean_absolute_error\", \"unit\": \"USD\", "
    "\"more_is_better\": false}, ";

TEST(Comparison, a_metric_of_ones_own_has_its_name_and_unit_everywhere) {
  const TestFolder folder;
  const Written run{
      .accuracy = 0.25, .metric = "mean_absolute_error", .item = "row", .words = kErrorWords};
  Written better = run;
  better.workers = "2", better.accuracy = 0.125;
  const auto all =
      compared({write_run(folder / "a", run), write_run(folder / "b", better)}, {.targets = {0.2}});
  ASSERT_TRUE(all.words.has_value());
  EXPECT_EQ(all.words->metric_text(0.25), "0.25 USD");
  EXPECT_TRUE(std::isnan(all.runs[0].seconds_to[0])) << "less is better: 0.25 does not reach 0.2";
  EXPECT_DOUBLE_EQ(all.runs[1].seconds_to[0], 10);
  const std::string page = comparison_page(all);
  for (const char* part : {">mean absolute error, USD<", ">rows/s<", ">0.25<",
                           "to mean absolute error 0.2, s", "mean absolute error over time"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const char* part : {"accuracy", "images/s", "25%"})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
}

TEST(Comparison, runs_of_several_metrics_share_no_target_and_no_scale) {
  const TestFolder folder;
  const std::vector<fs::path> folders = {
      write_run(folder / "a", {.metric = "r2", .item = "row"}),  // nothing but its lines says so
      write_run(folder / "b", {})};
  const auto all = compared(folders);
  EXPECT_FALSE(all.words.has_value());
  EXPECT_TRUE(all.targets.empty());
  EXPECT_TRUE(says(all.notes, "judged by several metrics"));
  const std::string page = comparison_page(all);
  for (const char* part : {">r2 0.9<", ">accuracy 90.00%<", ">items/s<"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_THROW(compared(folders, {.targets = {0.5}}), UserError);
}

// A step of a language model has more items than examples.
TEST(Comparison, steps_per_second_are_those_that_the_lines_state) {
  const TestFolder folder;
  const fs::path a = write_run(folder / "a", {.item = "token"});
  std::string lines = *read_text(a / "metrics.jsonl");
  const std::string rate = "\"tokens_per_second\"";
  for (std::size_t at = 0; (at = lines.find(rate, at)) != std::string::npos; at += rate.size() + 25)
    lines.insert(at, "\"steps_per_second\": 5, ");
  put_text(a / "metrics.jsonl", lines);
  const auto all = compared({a});
  EXPECT_DOUBLE_EQ(all.runs[0].steps_per_second.median, 5);
  EXPECT_DOUBLE_EQ(all.runs[0].items_per_second.median, 1000);
}

TEST(Comparison, an_accuracy_outside_the_band_is_a_finding) {
  const TestFolder folder;
  const fs::path a = write_run(folder / "a", {.accuracy = 0.5});
  Band band{.recipe = band_recipe(read_history(a).recipe), .runs = {}};
  for (std::uint64_t seed = 0; seed < 5; ++seed)
    add_run(band, {.seed = seed, .metric = 0.9 + 0.001 * static_cast<double>(seed)});
  write_band(folder / "r.json", band);
  EXPECT_TRUE(says(compared({a}, {.bands = folder.path().string()}).findings,
                   "accuracy 50.00% is outside the recipe's band"));
}

TEST(Comparison, a_band_of_too_few_runs_is_not_used) {
  const TestFolder folder;
  const fs::path a = write_run(folder / "a", {.accuracy = 0.5});
  const fs::path b = write_run(folder / "b", {.kind = "cuda bf16", .accuracy = 0.5});
  Band band{.recipe = band_recipe(read_history(a).recipe), .runs = {}};
  for (std::uint64_t seed = 0; seed < 2; ++seed) add_run(band, {.seed = seed, .metric = 0.9});
  write_band(folder / "r.json", band);
  const auto all = compared({a, b}, {.bands = folder.path().string()});
  EXPECT_TRUE(all.findings.empty());
  EXPECT_TRUE(says(all.notes, "has fewer than 5 runs"));
}

TEST(Comparison, other_mathematics_are_named_and_said_to_be_another_training) {
  const TestFolder folder;
  const auto all =
      compared({write_run(folder / "a", {}),
                write_run(folder / "b", {.cpu = "another", .more_recipe = "momentum = 0.5\n"})});
  EXPECT_TRUE(all.different_trainings);
  ASSERT_FALSE(all.differences.empty());
  EXPECT_EQ(all.differences[0].what, "optimizer.momentum");
  EXPECT_TRUE(says(all.sentences, "2 different trainings"));
  EXPECT_FALSE(says(all.sentences, "times as fast"));
  bool device = false;
  for (const Difference& one : all.differences) device = device || one.what == "device";
  EXPECT_TRUE(device);
}

TEST(Comparison, seeds_that_every_placement_was_run_with_are_repetitions) {
  const TestFolder folder;
  const fs::path a = write_run(folder / "a", {});
  const fs::path b = write_run(folder / "b", {.seed = "1"});
  const fs::path c = write_run(folder / "c", {.seed = "1", .workers = "2"});
  const fs::path d = write_run(folder / "d", {.workers = "2"});
  const auto repeated = compared({a, b, c, d});
  EXPECT_FALSE(repeated.different_trainings);
  ASSERT_EQ(repeated.differences.size(), 1u);
  EXPECT_EQ(repeated.differences[0].what, "seed");
  EXPECT_TRUE(says(repeated.sentences, "same result to the bit"));
  EXPECT_TRUE(compared({a, c}).different_trainings);
  EXPECT_TRUE(says(compared({a, c}).sentences, "result not compared"));
}

TEST(Comparison, a_third_run_of_another_recipe_enters_no_ratio_and_no_word_about_bits) {
  const TestFolder folder;
  const fs::path a = write_run(folder / "a", {});
  const fs::path b = write_run(folder / "b", {.workers = "2", .speed = 1970});
  const fs::path c =
      write_run(folder / "c", {.workers = "2", .more_recipe = "momentum = 0.5\n", .speed = 10});
  const auto all = compared({a, b, c});
  ASSERT_EQ(all.sentences.size(), 3u);
  EXPECT_CONTAINS(all.sentences[1],
                  "2 workers: 1.97 times as fast as 1 worker, same result to the "
                  "bit (n = 1 and 1 runs).");
  EXPECT_CONTAINS(all.sentences[2], "2 workers: 0.1 steps/s (1 run).");
}

TEST(Comparison, a_key_that_a_recipe_has_not_is_not_told_by_its_default) {
  const TestFolder folder;
  const fs::path a = write_run(folder / "a", {}), b = write_run(folder / "b", {});
  std::string text = read_text(b / "recipe.toml").value();
  text.replace(text.find("\"mnist\""), 7, "\"gpt\"");
  const std::string data = "data = \"glyphs\"\ntrain_examples = 1000\n";
  text.replace(text.find(data), data.size(), "");
  put_text(b / "recipe.toml", text + "[data]\nname = \"text\"\npath = \"a.txt\"\n");
  const Comparison all = compared({a, b});
  bool has_data = false;
  for (const auto& difference : all.differences) {
    const auto& values = difference.values;
    if (difference.what == "network.layers") {
      EXPECT_EQ(values.at(0), "none");
      EXPECT_EQ(values.at(1), "12");
    }
    has_data = has_data || difference.what == "data";
  }
  EXPECT_TRUE(has_data);
}

TEST(Comparison, a_run_of_a_programs_own_model_and_data_is_read_like_any_other) {
  const TestFolder folder;
  const fs::path a = write_run(folder / "a", {}), b = write_run(folder / "b", {.workers = "2"});
  for (const fs::path& run : {a, b}) {
    std::string recipe = read_text(run / "recipe.toml").value();
    recipe.replace(recipe.find("\"mnist\""), 7, "\"of-this-program\"");
    recipe.replace(recipe.find("\"glyphs\""), 8, "\"own\"");
    put_text(run / "recipe.toml", "test_examples = 100\n" + recipe);
  }
  EXPECT_TRUE(says(compared({a, b}).sentences, "same result to the bit"));
}

TEST(Comparison, bits_are_said_to_be_equal_only_of_the_runs_and_steps_whose_hashes_were_compared) {
  const TestFolder folder;
  const fs::path a = write_run(folder / "a", {});
  const fs::path b = write_run(folder / "b", {.workers = "2"});
  const fs::path c = write_run(folder / "c", {.seed = "1", .workers = "2"});
  EXPECT_TRUE(says(compared({a, b, c}).sentences,
                   "to the bit of the 2 of 3 runs that have a partner of their seed"));
  put_text(b / "hashes.jsonl", "{\"step\": 10, \"hash\": \"00000000000000aa\"}\n");
  EXPECT_TRUE(says(compared({a, b}).sentences, "over the steps with hashes of both"));
}

TEST(Comparison, the_cost_of_runs_of_unequal_length_is_not_compared) {
  const TestFolder folder;
  const fs::path a = write_run(folder / "a", {.price = kPrice});
  const fs::path b = write_run(folder / "b", {.workers = "2", .price = kPrice, .points = 10});
  // It was stopped early.
  fs::copy_file(a / "recipe.toml", b / "recipe.toml", fs::copy_options::overwrite_existing);
  const auto all = compared({a, b});
  ASSERT_EQ(all.sentences.size(), 1u);
  EXPECT_EQ(all.sentences[0].find("price"), std::string::npos) << all.sentences[0];
  EXPECT_EQ(all.sentences[0].find("cheaper"), std::string::npos) << all.sentences[0];
}

TEST(Comparison, the_method_of_pods_leaves_out_the_first_epoch_and_runs_below_the_target) {
  const TestFolder folder;
  const auto all = compared(
      {write_run(folder / "a", {}), write_run(folder / "b", {.seed = "1", .accuracy = 0.8})},
      {.method = Method::kPods, .targets = {85}});
  EXPECT_EQ(all.runs[0].warm_up, 10);
  EXPECT_EQ(all.runs[0].steps_per_second.n, 19u);
  // 18 points of a second, two of ten: steps alone.
  EXPECT_NEAR(all.runs[0].seconds, 18 + 20, 1e-9);
  EXPECT_FALSE(all.runs[1].counted);
  EXPECT_TRUE(says(all.notes, "did not reach 85%"));
}

TEST(Comparison, a_resumed_run_has_the_time_of_all_its_starts) {
  const TestFolder folder;
  const fs::path a = write_run(folder / "a", {.points = 2});
  const std::string train =
      "\"loss\": 1, \"accuracy\": 0, \"images_per_second\": 1000, \"seconds\": ";
  put_text(a / "metrics.jsonl",
           "{\"step\": 10, " + train +
               "7}\n{\"step\": 10, \"test_accuracy\": 0.2, \"test_loss\": 1}\n" +
               "{\"step\": 20, " + train +
               "5}\n{\"step\": 20, \"test_accuracy\": 0.9, \"test_loss\": 1}\n");
  EXPECT_DOUBLE_EQ(compared({a}, {.targets = {90}}).runs[0].seconds_to[0], 12);
}

TEST(Comparison, an_older_or_unfinished_run_without_environment_is_compared_as_far_as_it_goes) {
  const TestFolder folder;
  const fs::path a = write_run(folder / "a", {});
  fs::remove(a / "environment.json");
  put_text(a / "metrics.jsonl",
           "{\"step\": 10, \"loss\": 1, \"accuracy\": 0.5, \"images_per_second\": 1000}\n{\"st");
  fs::remove(a / "hashes.jsonl");
  const auto all = compared({a});
  EXPECT_EQ(all.runs[0].placement, "unknown placement");
  EXPECT_FALSE(all.runs[0].finished);
  EXPECT_NE(comparison_page(all).find("unfinished"), std::string::npos);
  put_text(a / "environment.json", "[");
  EXPECT_CONTAINS(user_error(ExitCode::kData, [&] { compared({a}); }), "remove the file");
}

TEST(Comparison, a_page_is_whole_small_and_loads_nothing) {
  const TestFolder folder;
  std::vector<fs::path> folders;
  folders.push_back(write_run(folder / "<a>", {.price = kPrice, .points = 20'000}));
  for (int i = 0; i < 99; ++i)
    folders.push_back(write_run(folder / cat("r", i), {.seed = cat(i), .price = kPrice}));
  const auto start = std::chrono::steady_clock::now();
  const std::string page = comparison_page(compared(folders));
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  RecordProperty("seconds", cat(taken.count()));
  EXPECT_LT(page.size(), 3'000'000u);
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("<link"), std::string::npos);
  EXPECT_EQ(page.find("<a>"), std::string::npos);
  EXPECT_NE(page.find("&lt;a&gt;"), std::string::npos);
  EXPECT_NE(page.find("accuracy over cost"), std::string::npos);
  EXPECT_NE(page.find("2018-04"), std::string::npos);
}

TEST(Html, numbers_keep_their_digits_and_curves_their_means) {
  EXPECT_EQ(html_number(1234.5678), "1235");
  EXPECT_EQ(html_number(12.345), "12.35");
  EXPECT_EQ(html_number(0.00123456, 3), "0.00123");
  EXPECT_EQ(html_number(kNoValue), "-");
  const auto thin = thinned({{1, 1}, {2, 3}, {3, 5}, {4, 7}}, 2);
  ASSERT_EQ(thin.size(), 2u);
  EXPECT_EQ(thin[0], (std::pair<double, double>{2, 2}));
  EXPECT_EQ(thin[1], (std::pair<double, double>{4, 6}));
}

}  // namespace
}  // namespace podium
