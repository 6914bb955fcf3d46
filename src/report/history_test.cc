#include "report/history.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace podium {
namespace {

const char* const kMetrics =
    "{\"step\": 2, \"loss\": 2.5, \"accuracy\": 0.25, \"images_per_second\": 100}\n"
    "{\"step\": 4, \"loss\": null, \"accuracy\": 0.5, \"images_per_second\": 120, \"more\": 1}\n"
    "{\"step\": 4, \"test_accuracy\": 0.75, \"test_loss\": 1.5, \"test_examples\": 4}\n";

std::string history_refusal(const std::string& text) {
  try {
    parse_metrics(text, "m");
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    return error.what();
  }
  return "read";
}

TEST(History, metrics_are_read_line_by_line) {
  const Course course = parse_metrics(kMetrics, "m");
  ASSERT_EQ(course.training.size(), 2U);
  EXPECT_EQ(course.training[0].step, 2);
  EXPECT_EQ(course.training[0].loss, 2.5);
  EXPECT_EQ(course.training[1].items_per_second, 120);
  EXPECT_TRUE(std::isnan(course.training[1].loss));
  ASSERT_EQ(course.tests.size(), 1U);
  EXPECT_EQ(course.tests[0].step, 4);
  EXPECT_EQ(course.tests[0].metric, 0.75);
  EXPECT_EQ(course.tests[0].loss, 1.5);
}

TEST(History, a_torn_last_line_counts_for_nothing) {
  EXPECT_EQ(parse_metrics(std::string(kMetrics) + "{\"step\": 6, \"lo", "m").training.size(), 2U);
  EXPECT_EQ(parse_hashes("{\"step\": 1, \"hash\": \"000000000000000a\"}\n{\"st", "h").size(), 1U);
  EXPECT_TRUE(parse_metrics("", "m").training.empty());
}

TEST(History, a_bad_line_is_named) {
  for (const char* line : {"x", "[]", "{}", "{\"step\": \"1\"}", "{\"step\": 1.5}",
                           "{\"step\": 1, \"loss\": 1, \"accuracy\": \"a\"}",
                           "{\"step\": 1, \"test_accuracy\": 0.5}"}) {
    EXPECT_TRUE(
        history_refusal(std::string(line) + "\n" + kMetrics).starts_with("m:1: not a line "))
        << line;
  }
  EXPECT_TRUE(history_refusal(std::string(kMetrics) + "x\n" + kMetrics).starts_with("m:4: "));
}

TEST(History, hashes_are_read_by_step) {
  const auto hashes = parse_hashes(
      "{\"step\": 1, \"hash\": \"000000000000000a\"}\n{\"step\": 3, \"hash\": "
      "\"000000000000000b\"}\n",
      "h");
  EXPECT_EQ(hashes, (StepHashes{{1, 0xa}, {3, 0xb}}));
  // However it is written; of a step that was made twice, the later line counts.
  EXPECT_EQ(parse_hashes("{\"step\": 5, \"hash\": \"00000000000000ff\"}\n"
                         "{\"hash\":\"000000000000000c\",\"step\":3}\n"
                         "{\"step\": 5, \"hash\": \"fedcba9876543210\"}\n",
                         "h"),
            (StepHashes{{3, 0xc}, {5, 0xfedcba9876543210}}));
  for (const char* line :
       {"{\"step\": 1, \"hash\": 2}", "{\"step\": -1, \"hash\": \"000000000000000a\"}",
        "{\"step\": 1, \"hash\": \"00000000000000\"}",
        "{\"step\": 1, \"hash\": \"00000000000000g0\"}"})
    EXPECT_THROW(parse_hashes(std::string(line) + "\n{}\n", "h"), UserError) << line;
}

TEST(History, hashes_are_compared_over_the_steps_of_both) {
  const StepHashes a = {{1, 7}, {2, 8}, {4, 9}, {6, 1}}, b = {{2, 8}, {3, 5}, {4, 0}, {6, 2}};
  EXPECT_EQ(compare_hashes(a, a).compared, 4);
  EXPECT_FALSE(compare_hashes(a, a).first_difference.has_value());
  EXPECT_EQ(compare_hashes(a, b).compared, 2);
  EXPECT_EQ(compare_hashes(a, b).first_difference, 4);
  EXPECT_EQ(compare_hashes(a, b).last_equal, 2);
  EXPECT_EQ(compare_hashes(a, {}).compared, 0);
}

TEST(History, a_folder_without_a_recipe_is_no_run) {
  EXPECT_THROW(read_history("/nonexistent"), UserError);
}

}  // namespace
}  // namespace podium
