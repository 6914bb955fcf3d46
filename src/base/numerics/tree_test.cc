#include "base/numerics/tree.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace podium {
namespace {

// A sum as text, so that its order can be read: "((0+1)+2)".
struct Text {
  std::string text;
  friend Text operator+(const Text& a, const Text& b) {
    return {cat("(", a.text, "+", b.text, ")")};
  }
};

std::string order(std::int64_t lo, std::int64_t hi) {
  return tree_sum(lo, hi, [](std::int64_t i) { return Text{std::to_string(i)}; }).text;
}

// The rule as base/numerics/tree.h writes it.
std::string written_rule(std::int64_t lo, std::int64_t hi) {
  if (hi - lo == 1) return std::to_string(lo);
  std::int64_t half = 1;
  while (half * 2 < hi - lo) half *= 2;
  return cat("(", written_rule(lo, lo + half), "+", written_rule(lo + half, hi), ")");
}

TEST(Tree, sums_follow_the_written_rule) {
  for (std::int64_t n = 1; n <= 17; ++n) {
    EXPECT_EQ(order(0, n), written_rule(0, n)) << n;
    EXPECT_EQ(order(5, 5 + n), written_rule(5, 5 + n)) << n;
  }
}

TEST(Tree, small_sums_read_as_the_documents_say) {
  EXPECT_EQ(order(0, 1), "0");
  EXPECT_EQ(order(0, 2), "(0+1)");
  EXPECT_EQ(order(0, 3), "((0+1)+2)");
  EXPECT_EQ(order(0, 4), "((0+1)+(2+3))");
  EXPECT_EQ(order(0, 5), "(((0+1)+(2+3))+4)");
  EXPECT_EQ(order(0, 6), "(((0+1)+(2+3))+(4+5))");
  EXPECT_EQ(order(0, 7), "(((0+1)+(2+3))+((4+5)+6))");
  EXPECT_EQ(order(0, 8), "(((0+1)+(2+3))+((4+5)+(6+7)))");
}

TEST(Tree, the_middle_leaves_the_largest_power_of_two_below_the_length_on_the_left) {
  EXPECT_EQ(tree_middle(0, 2), 1);
  EXPECT_EQ(tree_middle(0, 16), 8);
  EXPECT_EQ(tree_middle(0, 17), 16);
  EXPECT_EQ(tree_middle(3, 6), 5);
  EXPECT_EQ(tree_middle(0, (std::int64_t{1} << 40) + 1), std::int64_t{1} << 40);
}

TEST(Tree, parts_are_asked_for_once_and_from_left_to_right) {
  std::string asked;
  tree_sum(0, 7, [&](std::int64_t i) {
    asked += std::to_string(i);
    return 0;
  });
  EXPECT_EQ(asked, "0123456");
}

TEST(Tree, rounding_shows_the_order) {
  // From left to right each 2^-24 would be lost; in pairs they add up to a unit of the last place.
  const float small = 0x1p-24f;
  const float parts[] = {1.0f, 0.0f, small, small};
  EXPECT_EQ(tree_sum(0, 4, [&](std::int64_t i) { return parts[i]; }), 1.0f + 0x1p-23f);
  EXPECT_EQ(((parts[0] + parts[1]) + parts[2]) + parts[3], 1.0f);
}

}  // namespace
}  // namespace podium
