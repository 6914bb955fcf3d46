#include "nn/task_words.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace podium {
namespace {

TEST(TaskWords, come_from_the_first_metric) {
  const std::vector<Metric> metrics = {mean_absolute_error_metric(), r2_metric()};
  const TaskWords words = task_words("row", metrics);
  EXPECT_EQ(words.rate_key(), "rows_per_second");
  EXPECT_EQ(words.rate_unit(), "rows/s");
  EXPECT_EQ(words.metric_name(), "mean absolute error");
  EXPECT_EQ(words.metric_head(), "mean absolute error");
  EXPECT_EQ(words.metric_text(0.97), "0.97");
  EXPECT_TRUE(words.is_better(0.1, 0.2));
  EXPECT_TRUE(words.reaches(0.1, 0.2));
  EXPECT_FALSE(words.reaches(0.3, 0.2));
  EXPECT_EQ(task_words("row", {}).metric_name(), "metric");
}

TEST(TaskWords, shares_are_read_in_percent) {
  const std::vector<Metric> metrics = {accuracy_metric()};
  const TaskWords words = task_words("image", metrics);
  EXPECT_EQ(words, TaskWords()) << "the defaults are those of older records";
  EXPECT_EQ(words.metric_head(), "accuracy, %");
  EXPECT_EQ(words.metric_text(0.99312), "99.31%");
  EXPECT_DOUBLE_EQ(words.shown(0.5), 50);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(words.metric_text(nan), "-");
  EXPECT_FALSE(words.is_better(nan, 0));
  EXPECT_TRUE(words.is_better(0, nan));
}

TEST(ShareText, is_rounded_down) {
  EXPECT_EQ(share_text(2.0 / 3), "66.66%");
  EXPECT_EQ(share_text(0.99999), "99.99%");
  EXPECT_EQ(share_text(0.9942), "99.42%");  // a decimal that binary rounds down
  EXPECT_EQ(share_text(1), "100.00%");
}

}  // namespace
}  // namespace podium
