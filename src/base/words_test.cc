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

TEST(Words, a_pattern_matches_whole_names) {
  for (const char* pattern :
       {"fc1.weight", "fc1.*", "*.weight", "*", "fc?.weight", "**1*t", "f*c*1*"})
    EXPECT_TRUE(matches_pattern(pattern, "fc1.weight")) << pattern;
  for (const char* pattern :
       {"", "fc1", "fc1.weigh", "c1.weight", "fc1.weight?", "fc??.weight", "*.bias", "*.weights"})
    EXPECT_FALSE(matches_pattern(pattern, "fc1.weight")) << pattern;
  EXPECT_TRUE(matches_pattern("", ""));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_FALSE(matches_pattern("?", ""));
  EXPECT_TRUE(matches_pattern("a*b*c", "axbxbxc"));
}

TEST(Words, a_pattern_of_many_stars_takes_no_time) {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) pattern += "*a";
  EXPECT_FALSE(matches_pattern(pattern + "b", std::string(5000, 'a')));
}

TEST(Words, with_commas_groups_the_digits_by_three) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(40800), "40,800");
  EXPECT_EQ(with_commas(1234567), "1,234,567");
  EXPECT_EQ(with_commas(-123456), "-123,456");
}

TEST(Words, count_text_has_the_noun_in_its_number) {
  EXPECT_EQ(count_text(1, "picture"), "1 picture");
  EXPECT_EQ(count_text(0, "picture"), "0 pictures");
  EXPECT_EQ(count_text(2000, "picture"), "2,000 pictures");
  EXPECT_EQ(count_text(1, "class", "classes"), "1 class");
  EXPECT_EQ(count_text(3, "class", "classes"), "3 classes");
}

}  // namespace
}  // namespace podium
