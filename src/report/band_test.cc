#include "report/band.h"

#include <gtest/gtest.h>

#include "base/scratch_test_util.h"
#include "train/file_io.h"

namespace podium {
namespace {

Band sample() {
  return {.recipe = "model = \"mnist\"\n",
          .runs = {{0, 0.99, "00"}, {1, 0.98, "01"}, {2, 0.97, "02"}, {7, 0.98, "07"}}};
}

TEST(Band, its_width_is_that_of_a_prediction_for_one_more_run) {
  const Band band = sample();
  EXPECT_NEAR(band.mean(), 0.98, 1e-12);
  EXPECT_NEAR(band.deviation(), 0.00816497, 1e-8);
  // t(3) = 5.841, sqrt(1 + 1/4) = 1.118034
  EXPECT_NEAR(band.low(), 0.98 - 5.841 * 0.00816497 * 1.118034, 1e-7);
  EXPECT_NEAR(band.high(), 0.98 + 5.841 * 0.00816497 * 1.118034, 1e-7);
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
  const Band back = read_band(folder.path() / "band.json");
  EXPECT_EQ(back.recipe, band.recipe);
  ASSERT_EQ(back.runs.size(), 4U);
  EXPECT_EQ(back.runs[3].seed, 7U);
  EXPECT_EQ(back.runs[1].accuracy, 0.98);
  EXPECT_EQ(back.runs[2].parameter_hash, "02");
}

std::string refusal(const std::string& text) {
  const TestFolder folder;
  replace_text(folder.path() / "b", text);
  try {
    read_band(folder.path() / "b");
  } catch (const UserError& error) {
    return std::string(error.what()).substr((folder.path() / "b").string().size());
  }
  return "accepted";
}

TEST(Band, a_bad_file_is_refused_with_the_reason) {
  EXPECT_TRUE(refusal("{").starts_with(": is no band: "));
  EXPECT_TRUE(refusal("[]").starts_with(": is no band: "));
  EXPECT_TRUE(refusal("{\"recipe\": \"\", \"runs\": [{\"seed\": \"x\"}]}").starts_with(": is no"));
  EXPECT_EQ(refusal("{\"recipe\": \"\", \"runs\": []}"),
            ": holds 0 runs, and a band needs two; `podium band RECIPE --seeds N` adds to it");
  const std::string run = "{\"seed\": 1, \"accuracy\": 99.1, \"parameter_hash\": \"\"}";
  EXPECT_EQ(refusal("{\"recipe\": \"\", \"runs\": [" + run + "," + run + "]}"),
            ": the accuracy of seed 1 is 99.1, which is no share of 0 to 1; `podium band RECIPE "
            "--seeds N` makes it anew");
  // A number that no integer can hold is not made one.
  for (const char* seed : {"18446777940043551615", "1e300", "1.5", "-1", "\"1\""})
    EXPECT_EQ(refusal(cat("{\"recipe\": \"\", \"runs\": [", run, ", {\"seed\": ", seed, "}]}")),
              ": is no band: the seed of run 2 is no whole number from 0 on; `podium band RECIPE "
              "--seeds N` makes one");
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

}  // namespace
}  // namespace podium
