#include "data/pictures/prepare/crop.h"

#include <gtest/gtest.h>

#include <cmath>

namespace podium {
namespace {

TEST(Crop, drawn_ones_lie_inside_and_have_the_area_and_ratio_that_are_allowed) {
  const CropOptions options;
  double areas = 0;
  constexpr std::int64_t kDraws = 4000;
  for (std::int64_t i = 0; i < kDraws; ++i) {
    const PictureArea crop = random_crop(options, {3, 1, i}, 375, 500);
    ASSERT_GE(crop.top, 0);
    ASSERT_GE(crop.left, 0);
    ASSERT_GE(crop.height, 1);
    ASSERT_GE(crop.width, 1);
    ASSERT_LE(crop.top + crop.height, 375);
    ASSERT_LE(crop.left + crop.width, 500);
    const double area = static_cast<double>(crop.height * crop.width) / (375.0 * 500.0);
    const double ratio = static_cast<double>(crop.width) / static_cast<double>(crop.height);
    EXPECT_GT(area, 0.078);
    EXPECT_LE(area, 1);
    EXPECT_GT(ratio, 0.73);
    EXPECT_LT(ratio, 1.36);
    areas += area;
  }
  // 0.432 by the same rule in Python: large ones fit less often.
  EXPECT_NEAR(areas / kDraws, 0.432, 0.012);
}

TEST(Crop, drawn_ones_are_a_function_of_seed_epoch_and_example) {
  const CropOptions options;
  const auto draw = [&](ExampleKey key) { return random_crop(options, key, 375, 500); };
  EXPECT_EQ(draw({1, 2, 3}), draw({1, 2, 3}));
  EXPECT_NE(draw({1, 2, 3}), draw({1, 2, 4}));
  EXPECT_NE(draw({1, 2, 3}), draw({1, 3, 3}));
  EXPECT_NE(draw({1, 2, 3}), draw({2, 2, 3}));
}

TEST(Crop, where_no_drawn_one_fits_it_is_the_largest_in_the_middle) {
  CropOptions options;
  options.least_area = options.most_area = 1;
  // No box of the whole area has an allowed ratio.
  EXPECT_EQ(random_crop(options, {0, 0, 0}, 100, 1000), (PictureArea{0, 433, 100, 133}));
  EXPECT_EQ(random_crop(options, {0, 0, 0}, 1000, 99), (PictureArea{434, 0, 132, 99}));
  EXPECT_EQ(random_crop(options, {0, 0, 0}, 1, 1), (PictureArea{0, 0, 1, 1}));
}

// As torchvision's Resize(256) and CenterCrop(224): int(256 * long / short), then half of what is
// over, rounded to even.
TEST(Crop, the_middle_is_that_of_torchvision) {
  const CropOptions options;
  const auto is = [&](std::int64_t height, std::int64_t width, std::int64_t h, std::int64_t w,
                      std::int64_t top, std::int64_t left) {
    const CentreCrop crop = centre_crop(options, height, width);
    EXPECT_EQ(crop.height, h);
    EXPECT_EQ(crop.width, w);
    EXPECT_EQ(crop.top, top);
    EXPECT_EQ(crop.left, left);
  };
  is(375, 500, 256, 341, 16, 58);  // (341 - 224) / 2 = 58.5
  is(500, 375, 341, 256, 58, 16);
  is(224, 224, 256, 256, 16, 16);
  is(2400, 1600, 384, 256, 80, 16);
  is(75, 56, 342, 256, 59, 16);
}

}  // namespace
}  // namespace podium
