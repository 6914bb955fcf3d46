#include "report/band.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/scratch_test_util.h"
#include "files/file_io.h"

namespace podium {
namespace {

Band sample() {
  return {.recipe = "model = \"mnist\"\n",
          .runs = {{0, 0.99, "00"}, {1, 0.98, "01"}, {2, 0.97, "02"}, {7, 0.98, "07"}}};
}

TEST(Band, its_width_is_that_of_a_prediction_for_one_more_run) {
  Band band = sample();
  for (BandRun& run : band.runs) run.metric -= 0.1;
  EXPECT_NEAR(band.mean(), 0.88, 1e-12);
  EXPECT_NEAR(band.deviation(), 0.00816497, 1e-8);
  // t(3) = 5.841, sqrt(1 + 1/4) = 1.118034
  EXPECT_NEAR(band.low(), 0.88 - 5.841 * 0.00816497 * 1.118034, 1e-7);
  EXPECT_NEAR(band.high(), 0.88 + 5.841 * 0.00816497 * 1.118034, 1e-7);
}

TEST(Band, quantiles_fall_towards_the_normal_one) {
  EXPECT_EQ(student_quantile(1), 63.657);
  EXPECT_EQ(student_quantile(9), 3.250);
  EXPECT_NEAR(student_quantile(40), 2.704, 0.003);
  EXPECT_NEAR(student_quantile(1000000), 2.5758, 1e-4);
  for (std::int64_t n = 2; n < 60; ++n) EXPECT_LT(student_quantile(n), student_quantile(n - 1));
}

TEST(Band, is_read_back_as_it_was_written) {
  const TestFolder folder;
  const Band band = sample();
  write_band(folder.path() / "band.json", band);
  const Band back = read_band(folder.path() / "band.json", 2);
  EXPECT_EQ(back.recipe, band.recipe);
  ASSERT_EQ(back.runs.size(), 4U);
  EXPECT_EQ(back.runs[3].seed, 7U);
  EXPECT_EQ(back.runs[1].metric, 0.98);
  EXPECT_EQ(back.runs[2].parameter_hash, "02");
}

std::string refusal(const std::string& text, std::size_t least = 2) {
  const TestFolder folder;
  replace_text(folder.path() / "b", text);
  try {
    read_band(folder.path() / "b", least);
  } catch (const UserError& error) {
    return std::string(error.what()).substr((folder.path() / "b").string().size());
  }
  return "accepted";
}

// Orders of BF16 sums are kinds of one training.
TEST(Band, is_of_every_order_of_bf16_sums) {
  const auto with = [](const std::vector<std::string>& overrides) {
    return band_recipe(parse_recipe(
        "model = \"mnist\"\ndata = \"glyphs\"\nbatch = 8\nepochs = 1\n[optimizer]\nname = "
        "\"adam\"\nlearning_rate = 0.1\n",
        "recipe", overrides));
  };
  EXPECT_EQ(with({"precision=bf16", "bf16_order=hopper"}), with({"precision=bf16"}));
  EXPECT_NE(with({"precision=bf16"}), with({}));
}

TEST(Band, a_bad_file_is_refused_with_the_reason) {
  EXPECT_TRUE(refusal("{").starts_with(": is not a band: "));
  EXPECT_TRUE(refusal("[]").starts_with(": is not a band: "));
  EXPECT_TRUE(refusal("{\"recipe\": \"\", \"runs\": [{\"seed\": \"x\"}]}").starts_with(": is no"));
  EXPECT_EQ(refusal("{\"recipe\": \"\", \"runs\": []}"),
            ": holds 0 runs, but a band needs at least 2 runs; `podium band RECIPE --seeds 5` adds "
            "to it");
  const std::string run = "{\"seed\": 1, \"accuracy\": 99.1, \"parameter_hash\": \"\"}";
  EXPECT_EQ(refusal("{\"recipe\": \"\", \"runs\": [" + run + "," + run + "]}"),
            ": the accuracy of seed 1 is 99.1, which is not between 0 and 1; `podium band RECIPE "
            "--seeds N` makes a new band");
  // A number that no integer can hold is not made one.
  for (const char* seed : {"18446777940043551615", "1e300", "1.5", "-1", "\"1\""})
    EXPECT_EQ(
        refusal(cat("{\"recipe\": \"\", \"runs\": [", run, ", {\"seed\": ", seed, "}]}")),
        ": is not a band: the seed of run 2 is not a whole number from 0 on; `podium band RECIPE "
        "--seeds N` makes one");
}

TEST(Band, of_fewer_than_five_runs_has_no_bounds_and_is_refused) {
  const TestFolder folder;
  const std::filesystem::path file = folder.path() / "band.json";
  Band band = sample();
  write_band(file, band);
  const std::string four = file_text(file);
  EXPECT_EQ(four.find("\"low\""), std::string::npos) << four;
  EXPECT_NE(four.find("\"mean\""), std::string::npos) << four;
  EXPECT_NE(refusal(four, kLeastBandRuns).find("holds 4 runs, but a band needs at least 5"),
            std::string::npos);
  EXPECT_THROW(read_band(file), UserError);
  add_run(band, {9, 0.985, "09"});
  write_band(file, band);
  EXPECT_NE(file_text(file).find("\"low\""), std::string::npos);
  EXPECT_EQ(read_band(file).runs.size(), 5U);
}

TEST(Band, its_bounds_are_shares_of_0_to_1) {
  Band band = sample();
  band.runs[0].metric = 1;
  EXPECT_GT(band.mean() + 5.841 * band.deviation() * std::sqrt(1.25), 1);
  EXPECT_EQ(band.high(), 1);
  for (BandRun& run : band.runs) run.metric = 1 - run.metric;
  EXPECT_EQ(band.low(), 0);
}

TEST(Band, its_recipe_leaves_out_the_seed_and_what_decides_no_result) {
  Recipe a, b;
  a.seed = 3;
  b.evaluation.batch = 64;
  b.hash_every_steps = 10;
  EXPECT_EQ(band_recipe(a), band_recipe(b));
  b.batch = 12;
  EXPECT_NE(band_recipe(a), band_recipe(b));
}

TEST(Band, of_pictures_in_files_is_of_the_recipe_whatever_a_run_records_of_their_number_and_place) {
  const auto recipe = [](const std::string& more) {
    return parse_recipe(
        "name = \"p\"\nmodel = \"resnet18\"\ndata = \"folder:photos\"\nbatch = 8\n"
        "epochs = 2\n" +
            more + "[optimizer]\nname = \"sgd\"\nlearning_rate = 0.1\n",
        "p");
  };
  Recipe recorded = recipe("train_examples = 108\ntest_examples = 12\n");
  recorded.pictures.path = "/elsewhere/photos";
  recorded.pictures.classes = 3;
  EXPECT_EQ(band_recipe(recorded), band_recipe(recipe("")));
}

TEST(Band, that_came_with_podium_is_found_from_any_folder) {
  const TestFolder folder;
  std::filesystem::create_directories(folder / "bands");
  put_text(folder / "bands" / "r.json", "{}");
  ::setenv("PODIUM_BANDS", (folder / "bands").c_str(), 1);
  EXPECT_EQ(find_band("r"), folder / "bands" / "r.json");
  EXPECT_EQ(find_band("no-such-recipe"), "");
  ::unsetenv("PODIUM_BANDS");
}

}  // namespace
}  // namespace podium
