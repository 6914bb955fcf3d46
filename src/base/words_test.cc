#include "base/words.h"

#include <gtest/gtest.h>

namespace podium {
namespace {

TEST(Words, edit_distance_counts_inserts_deletes_and_replacements) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("adam", "adam"), 0U);
  EXPECT_EQ(edit_distance("", "sgd"), 3U);
  EXPECT_EQ(edit_distance("sgd", ""), 3U);
  EXPECT_EQ(edit_distance("replica", "replicas"), 1U);
  EXPECT_EQ(edit_distance("batch", "catch"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("sitting", "kitten"), 3U);
  EXPECT_EQ(edit_distance("ab", "ba"), 2U);  // an exchange is two edits
}

TEST(Words, the_nearest_word_has_the_fewest_edits) {
  const std::vector<std::string> known = {"momentum", "nesterov", "learning_rate", "weight_decay"};
  EXPECT_EQ(nearest_word("lerning_rate", known), "learning_rate");
  EXPECT_EQ(nearest_word("weightdecay", known), "weight_decay");
  EXPECT_EQ(nearest_word("momentum", known), "momentum");
}

TEST(Words, the_first_of_equally_near_words_wins) {
  EXPECT_EQ(nearest_word("b", {"a", "c"}), "a");
  EXPECT_EQ(nearest_word("b", {"c", "a"}), "c");
}

TEST(Words, nothing_is_near_where_nothing_is_known) { EXPECT_EQ(nearest_word("x", {}), ""); }

TEST(Words, join_puts_the_separator_between) {
  EXPECT_EQ(join_words({}), "");
  EXPECT_EQ(join_words({"sgd"}), "sgd");
  EXPECT_EQ(join_words({"sgd", "adam"}), "sgd, adam");
  EXPECT_EQ(join_words({"a", "b", "c"}, " or "), "a or b or c");
}

}  // namespace
}  // namespace podium
