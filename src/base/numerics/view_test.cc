#include "base/numerics/view.h"

#include <gtest/gtest.h>

namespace podium {
namespace {

TEST(View, weights_are_those_documented_and_their_sum_is_one) {
  for (const std::int64_t views : kViewCounts) {
    float sum = 0;
    for (std::int64_t i = 0; i < views; ++i) sum += view_weight(views, i);
    EXPECT_EQ(sum, 1.0f) << views;
  }
  EXPECT_EQ(view_weight(2, 1), 0.5f);
  EXPECT_EQ(view_weight(6, 1), 0.25f);
  EXPECT_EQ(view_weight(6, 2), 0.125f);
}

}  // namespace
}  // namespace podium
