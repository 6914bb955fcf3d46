#include "data/pictures/prepare/colour.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace podium {
namespace {

using Colours = std::vector<std::uint8_t>;

// Nine pixels of many colours, [3][9].
const Colours kColours = {0,   255, 255, 0,  10,  200, 128, 30, 77,  //
                          0,   255, 0,   0,  20,  100, 128, 90, 77,  //
                          255, 255, 0,   40, 250, 50,  128, 60, 77};

Colours changed(const AugmentOptions& options, std::int64_t example, std::int64_t channels = 3) {
  Colours image(kColours.begin(), kColours.begin() + 9 * channels);
  change_colours(options, {1, 0, example}, channels, 9, image.data());
  return image;
}

TEST(Colour, is_a_function_of_seed_epoch_and_example) {
  const AugmentOptions options{
      .brightness = 0.4f, .contrast = 0.4f, .saturation = 0.4f, .hue = 0.1f};
  EXPECT_TRUE(changes_colours(options));
  EXPECT_FALSE(changes_colours({}));
  EXPECT_EQ(changed(options, 3), changed(options, 3));
  EXPECT_NE(changed(options, 3), changed(options, 4));
}

// Part of what a seed means: the same bytes on every machine.
TEST(Colour, has_the_recorded_bytes) {
  const AugmentOptions options{
      .brightness = 0.4f, .contrast = 0.4f, .saturation = 0.4f, .hue = 0.1f};
  EXPECT_EQ(changed(options, 3),
            (Colours{79,  181, 134, 21, 81,  124, 96, 40, 61,  17, 181, 92, 11, 26,
                     119, 96,  62,  61, 121, 181, 30, 27, 123, 63, 96,  64, 61}));
}

TEST(Colour, brightness_multiplies_and_keeps_black) {
  const Colours image = changed({.brightness = 0.5f}, 7);
  EXPECT_EQ(image[0], 0);
  // All by one factor: what is not cut off keeps its ratios.
  const double f = image[22] / 250.0;
  EXPECT_NEAR(image[4], 10 * f, 0.6);
  EXPECT_NEAR(image[14], 100 * f, 0.6);
}

TEST(Colour, contrast_keeps_the_mean_luminance_and_saturation_that_of_each_pixel) {
  const auto luminance = [](const Colours& image, std::size_t i) {
    return 0.299 * image[i] + 0.587 * image[9 + i] + 0.114 * image[18 + i];
  };
  for (std::int64_t example = 0; example < 20; ++example) {
    const Colours image = changed({.saturation = 0.2f}, example);
    for (const std::size_t i : {5U, 6U, 7U, 8U})  // whose values are not cut off
      EXPECT_NEAR(luminance(image, i), luminance(kColours, i), 1.01) << i;
    const Colours grey = changed({.contrast = 0.2f}, example, 1);
    for (std::size_t i = 0; i < 9; ++i) EXPECT_NEAR(grey[i], kColours[i], 0.2 * 160 + 1);
  }
}

TEST(Colour, hue_keeps_grey_and_the_largest_and_smallest_value_of_a_pixel) {
  for (std::int64_t example = 0; example < 20; ++example) {
    const Colours image = changed({.hue = 0.5f}, example);
    for (std::size_t i = 0; i < 9; ++i) {
      const auto [low, high] = std::minmax({image[i], image[9 + i], image[18 + i]});
      const auto [was_low, was_high] =
          std::minmax({kColours[i], kColours[9 + i], kColours[18 + i]});
      EXPECT_EQ(low, was_low);
      EXPECT_EQ(high, was_high);
    }
  }
}

// A turn by hardly anything changes nothing by more than one level.
TEST(Colour, small_changes_are_small) {
  const Colours image =
      changed({.brightness = 1e-6f, .contrast = 1e-6f, .saturation = 1e-6f, .hue = 1e-6f}, 0);
  for (std::size_t i = 0; i < image.size(); ++i) EXPECT_NEAR(image[i], kColours[i], 1) << i;
}

}  // namespace
}  // namespace podium
