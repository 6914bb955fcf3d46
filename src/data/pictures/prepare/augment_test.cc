#include "data/pictures/prepare/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "base/numerics/hash.h"
#include "files/test_files.h"

namespace podium {
namespace {

using namespace podium::test_files;

constexpr std::int64_t kSide = 28;
using Image = std::vector<float>;

Image dot(std::int64_t y, std::int64_t x) {
  Image image(kSide * kSide, 0.0f);
  image[static_cast<std::size_t>(y * kSide + x)] = 1.0f;
  return image;
}

// A picture without any symmetry, of values above 0.
Image slope(std::int64_t channels = 1) {
  Image image(static_cast<std::size_t>(channels * kSide * kSide));
  for (std::size_t i = 0; i < image.size(); ++i) {
    image[i] = 0.25f + static_cast<float>((i * 37 + i * i * 11) % 101) / 200.0f;
  }
  return image;
}

Image augment(const AugmentOptions& options, const ExampleKey& key, const Image& in,
              std::int64_t channels = 1) {
  Image out(in.size(), -1.0f);
  Augmenter(options, channels, kSide, kSide).apply(key, in.data(), out.data());
  return out;
}

// Where the ink of a picture lies on average.
struct Centre {
  double y = 0, x = 0, mass = 0;
};
Centre centre_of(const Image& image) {
  Centre c;
  for (std::int64_t y = 0; y < kSide; ++y) {
    for (std::int64_t x = 0; x < kSide; ++x) {
      const double v = image[static_cast<std::size_t>(y * kSide + x)];
      c.y += v * static_cast<double>(y);
      c.x += v * static_cast<double>(x);
      c.mass += v;
    }
  }
  c.y /= c.mass;
  c.x /= c.mass;
  return c;
}

AugmentOptions everything() {
  AugmentOptions options;
  options.shift = 2;
  options.rotate_degrees = 15;
  options.scale = 0.1f;
  options.shear = 0.2f;
  options.elastic = 3;
  options.cutout = 5;
  options.flip = "random";
  return options;
}

TEST(Augment, is_a_function_of_seed_epoch_and_example_alone) {
  const Augmenter augmenter(everything(), 1, kSide, kSide);
  const Image in = slope();
  Image first(in.size());
  Image again(in.size());
  augmenter.apply({1, 2, 3}, in.data(), first.data());
  for (const ExampleKey& other : {ExampleKey{9, 2, 3}, ExampleKey{1, 9, 3}, ExampleKey{1, 2, 9}}) {
    augmenter.apply(other, in.data(), again.data());
    EXPECT_NE(first, again);
  }
  augmenter.apply({1, 2, 3}, in.data(), again.data());
  EXPECT_EQ(first, again);
}

// The bits are part of what a recipe means: they hold on every machine.
TEST(Augment, has_the_recorded_bits) {
  std::uint64_t hash = 0;
  for (std::int64_t example = 0; example < 100; ++example) {
    const Image out = augment(everything(), {7, 3, example}, slope());
    hash = hash_append(hash, hash_tensor(hash_sum(out), out.size()));
  }
  EXPECT_EQ(hash_text(hash), "0ab377bf6d4f886c");
}

TEST(Augment, changes_nothing_where_all_is_off) {
  EXPECT_EQ(augment({}, {1, 2, 3}, slope()), slope());
  EXPECT_FALSE(AugmentOptions{}.any());
  EXPECT_TRUE(everything().any());
}

TEST(Augment, shift_moves_by_whole_pixels_each_amount_equally_often) {
  AugmentOptions options;
  options.shift = 2;
  std::map<std::pair<int, int>, int> counts;
  for (std::int64_t example = 0; example < 5000; ++example) {
    const Image out = augment(options, {5, 0, example}, dot(10, 20));
    const Centre c = centre_of(out);
    EXPECT_EQ(c.mass, 1.0);  // one pixel, not blended
    ++counts[{static_cast<int>(c.y) - 10, static_cast<int>(c.x) - 20}];
  }
  EXPECT_EQ(counts.size(), 25u);
  for (const auto& [moved, count] : counts) {
    EXPECT_LE(std::max(std::abs(moved.first), std::abs(moved.second)), 2);
    EXPECT_NEAR(count, 200, 75);  // five deviations
  }
}

TEST(Augment, shift_fills_with_zeros) {
  AugmentOptions options;
  options.shift = 27;
  const Image in(kSide * kSide, 1.0f);
  for (std::int64_t example = 0; example < 50; ++example) {
    for (const float v : augment(options, {5, 0, example}, in)) EXPECT_TRUE(v == 0 || v == 1);
  }
}

Image mirrored(Image image) {
  for (auto row = image.begin(); row != image.end(); row += kSide) std::reverse(row, row + kSide);
  return image;
}

// Whether each of the first `count` images is mirrored.
std::vector<bool> flips(const std::string& flip, std::int64_t epoch, std::int64_t count) {
  AugmentOptions options;
  options.flip = flip;
  std::vector<bool> list;
  for (std::int64_t example = 0; example < count; ++example) {
    const Image out = augment(options, {5, epoch, example}, slope());
    list.push_back(out == mirrored(slope()));
    EXPECT_TRUE(list.back() || out == slope());
  }
  return list;
}

TEST(Augment, random_flip_mirrors_one_image_in_two_anew_in_each_epoch) {
  std::vector<bool> first = flips("random", 0, 1000);
  for (std::int64_t epoch = 1; epoch < 4; ++epoch) {
    const std::vector<bool> next = flips("random", epoch, 1000);
    EXPECT_NEAR(static_cast<double>(std::ranges::count(next, true)), 500, 80);  // five deviations
    int agree = 0;
    for (std::size_t i = 0; i < next.size(); ++i) agree += next[i] == first[i] ? 1 : 0;
    EXPECT_NEAR(agree, 500, 80);
    first = next;
  }
}

TEST(Augment, alternating_flip_begins_at_random_and_then_turns_every_image_each_epoch) {
  const std::vector<bool> first = flips("alternating", 0, 1000);
  EXPECT_EQ(first, flips("random", 0, 1000));
  EXPECT_NEAR(static_cast<double>(std::ranges::count(first, true)), 500, 80);
  for (std::int64_t epoch = 1; epoch < 6; ++epoch) {
    std::vector<bool> expected = first;
    if (epoch % 2 != 0) expected.flip();
    EXPECT_EQ(flips("alternating", epoch, 1000), expected) << "epoch " << epoch;
  }
}

// Every offset and side that is drawn, against the image folded out without end.
TEST(Augment, reflection_goes_on_beyond_the_edge_pixel_without_repeating_it) {
  constexpr std::int64_t kHeight = 3, kWidth = 4;
  const Image in = {1, 2,  3,  4,  //
                    5, 6,  7,  8,  //
                    9, 10, 11, 12};
  AugmentOptions options;
  options.shift = 2;
  options.padding = "reflect";
  options.flip = "random";
  const Augmenter augmenter(options, 1, kHeight, kWidth);
  options.padding = "zero";
  const Augmenter with_zeros(options, 1, kHeight, kWidth);
  // The image mirrored at its edge pixels without end, as a lattice of period 2 n - 2.
  const auto at = [&](std::int64_t y, std::int64_t x) {
    const auto fold = [](std::int64_t i, std::int64_t n) {
      const std::int64_t period = 2 * n - 2, k = ((i % period) + period) % period;
      return std::min(k, period - k);
    };
    return in[static_cast<std::size_t>(fold(y, kHeight) * kWidth + fold(x, kWidth))];
  };
  std::set<std::array<std::int64_t, 3>> seen;
  for (std::int64_t example = 0; example < 500; ++example) {
    Image out(in.size()), zeros(in.size());
    augmenter.apply({1, 0, example}, in.data(), out.data());
    with_zeros.apply({1, 0, example}, in.data(), zeros.data());
    int matches = 0;
    for (std::int64_t down = -2; down <= 2; ++down) {
      for (std::int64_t right = -2; right <= 2; ++right) {
        for (const bool mirror : {false, true}) {
          Image expected, expected_zeros;
          for (std::int64_t y = -down; y < kHeight - down; ++y) {
            for (std::int64_t x = -right; x < kWidth - right; ++x) {
              const bool inside = y >= 0 && y < kHeight && x >= 0 && x < kWidth;
              expected.push_back(at(y, mirror ? kWidth - 1 - x : x));
              expected_zeros.push_back(inside ? expected.back() : 0.0f);
            }
          }
          if (expected != out || expected_zeros != zeros) continue;
          ++matches;
          seen.insert({down, right, mirror ? 1 : 0});
        }
      }
    }
    EXPECT_EQ(matches, 1);
  }
  EXPECT_EQ(seen.size(), 50u);
}

TEST(Augment, reflection_of_a_row_by_hand) {
  AugmentOptions options;
  options.shift = 1;
  options.padding = "reflect";
  const Augmenter augmenter(options, 1, 2, 3);
  const Image in = {1, 2, 3, 4, 5, 6};
  std::set<Image> seen;
  for (std::int64_t example = 0; example < 200; ++example) {
    Image out(in.size());
    augmenter.apply({1, 0, example}, in.data(), out.data());
    seen.insert(out);
  }
  EXPECT_EQ(seen, (std::set<Image>{{5, 4, 5, 2, 1, 2},  // down and to the right
                                   {4, 5, 6, 1, 2, 3},  // down or up: two rows are each other's
                                   {5, 6, 5, 2, 3, 2},  //
                                   {2, 1, 2, 5, 4, 5},  // to the right
                                   {1, 2, 3, 4, 5, 6},  //
                                   {2, 3, 2, 5, 6, 5}}));
}

TEST(Augment, cutout_clears_one_whole_square_each_place_equally_often) {
  AugmentOptions options;
  options.cutout = 24;
  std::map<std::size_t, int> corners;
  for (std::int64_t example = 0; example < 5000; ++example) {
    const Image out = augment(options, {5, 0, example}, slope());
    const auto first =
        static_cast<std::size_t>(std::find(out.begin(), out.end(), 0.0f) - out.begin());
    ++corners[first];
    EXPECT_EQ(std::count(out.begin(), out.end(), 0.0f), 24 * 24);
    EXPECT_EQ(out[first + 23 * kSide + 23], 0.0f);
  }
  EXPECT_EQ(corners.size(), 25u);
  for (const auto& [corner, count] : corners) {
    EXPECT_LE(corner / kSide, 4u);
    EXPECT_LE(corner % kSide, 4u);
    EXPECT_NEAR(count, 200, 75);  // five deviations
  }
}

TEST(Augment, rotation_turns_about_the_centre_within_its_bound) {
  AugmentOptions options;
  options.rotate_degrees = 20;
  double least = 90;
  double most = -90;
  for (std::int64_t example = 0; example < 500; ++example) {
    const Centre c = centre_of(augment(options, {5, 0, example}, dot(14, 22)));
    const double angle = std::atan2(c.y - 13.5, c.x - 13.5) - std::atan2(0.5, 8.5);
    EXPECT_NEAR(std::hypot(c.y - 13.5, c.x - 13.5), std::hypot(0.5, 8.5), 0.5);
    least = std::min(least, angle * 57.29578);
    most = std::max(most, angle * 57.29578);
  }
  EXPECT_NEAR(least, -20, 2.5);
  EXPECT_NEAR(most, 20, 2.5);
}

TEST(Augment, scale_changes_the_distance_from_the_centre_within_its_bound) {
  AugmentOptions options;
  options.scale = 0.2f;
  double least = 100;
  double most = 0;
  for (std::int64_t example = 0; example < 500; ++example) {
    const Centre c = centre_of(augment(options, {5, 0, example}, dot(14, 23)));
    least = std::min(least, (c.x - 13.5) / 9.5);
    most = std::max(most, (c.x - 13.5) / 9.5);
  }
  EXPECT_NEAR(least, 0.8, 0.05);
  EXPECT_NEAR(most, 1.2, 0.05);
}

TEST(Augment, shear_moves_rows_sideways_only) {
  AugmentOptions options;
  options.shear = 0.5f;
  double most = 0;
  for (std::int64_t example = 0; example < 500; ++example) {
    const Centre c = centre_of(augment(options, {5, 0, example}, dot(21, 14)));
    EXPECT_NEAR(c.y, 21, 1e-5);
    most = std::max(most, std::abs(c.x - 14));
  }
  EXPECT_NEAR(most, 0.5 * 7.5, 0.3);
}

TEST(Augment, elastic_moves_smoothly_and_within_its_bound) {
  AugmentOptions options;
  options.elastic = 3;
  double sum = 0;
  double squares = 0;
  constexpr int kCount = 2000;
  for (std::int64_t example = 0; example < kCount; ++example) {
    // A picture whose value tells where each pixel comes from.
    Image columns(kSide * kSide);
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i] = static_cast<float>(i % kSide);
    const Image out = augment(options, {5, 0, example}, columns);
    for (std::size_t i = 14 * kSide + 8; i < 14 * kSide + 20; ++i) {
      const double moved = out[i] - columns[i];
      EXPECT_LE(std::abs(moved), 3.001);
      EXPECT_LE(std::abs(out[i + 1] - out[i] - 1.0f), 0.75);  // 3 px over a cell of 7: no tears
    }
    const double moved = out[14 * kSide + 14] - 14.0;
    sum += moved;
    squares += moved * moved;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.1);
  EXPECT_NEAR(std::sqrt(squares / kCount), 0.29 * 3, 0.15);
}

TEST(Augment, warps_all_channels_alike) {
  AugmentOptions options = everything();
  options.cutout = 0;
  const Image one = slope();
  Image three;
  for (int c = 0; c < 3; ++c) three.insert(three.end(), one.begin(), one.end());
  const Image out = augment(options, {1, 2, 3}, three, 3);
  const Image expected = augment(options, {1, 2, 3}, one);
  for (long c = 0; c < 3; ++c) {
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out.begin() + c * kSide * kSide));
  }
}

TEST(Augment, kinds_draw_from_streams_of_their_own) {
  AugmentOptions shift;
  shift.shift = 2;
  AugmentOptions both = shift;
  both.cutout = 4;
  for (std::int64_t example = 0; example < 20; ++example) {
    const Image alone = augment(shift, {1, 0, example}, slope());
    const Image with = augment(both, {1, 0, example}, slope());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      if (with[i] != 0) {
        EXPECT_EQ(with[i], alone[i]);
      }
    }
  }
}

TEST(Augment, takes_images_of_any_shape) {
  for (const auto& [height, width] :
       {std::pair<std::int64_t, std::int64_t>{5, 40}, {32, 32}, {6, 6}, {33, 17}}) {
    const Augmenter augmenter(everything(), 3, height, width);
    const auto size = static_cast<std::size_t>(3 * height * width);
    const Image in(size, 1.0f);
    Image out(size, -1.0f);
    for (std::int64_t example = 0; example < 50; ++example) {
      augmenter.apply({1, 0, example}, in.data(), out.data());
      for (const float v : out) EXPECT_TRUE(v >= 0 && v <= 1) << v;
    }
  }
}

TEST(Augment, options_out_of_range_are_named) {
  const auto error = [](const AugmentOptions& options) {
    return user_error(ExitCode::kUsage, [&] { const Augmenter bad(options, 1, kSide, kSide); });
  };
  AugmentOptions options;
  options.shift = 28;
  EXPECT_EQ(error(options),
            "`augment.shift` = 28: the images are 28 x 28 pixels; it must be between 0 and 27");
  options.cutout = 29;
  EXPECT_CONTAINS(error(options), "\n`augment.cutout` = 29: the images are 28 x 28 pixels");
  options = {};
  options.rotate_degrees = -1;
  EXPECT_CONTAINS(error(options), "`augment.rotate_degrees` = -1");
  options = {};
  options.elastic_cell = 0;
  EXPECT_CONTAINS(error(options), "`augment.elastic_cell` = 0");
  options = {};
  options.scale = std::nanf("");
  EXPECT_CONTAINS(error(options), "`augment.scale` = nan");
}

TEST(Augment, unknown_words_and_a_reflection_of_what_is_warped_are_refused) {
  const auto error = [](const AugmentOptions& options) {
    return user_error(ExitCode::kUsage, [&] { const Augmenter bad(options, 1, kSide, kSide); });
  };
  AugmentOptions options;
  options.flip = "both";
  options.padding = "edge";
  EXPECT_EQ(error(options),
            "`augment.flip` = \"both\" is unknown; known: none, random, alternating\n"
            "`augment.padding` = \"edge\" is unknown; known: zero, reflect");
  options = {};
  options.padding = "reflect";
  options.rotate_degrees = 3;
  EXPECT_EQ(error(options),
            "`augment.padding` = \"reflect\" works only with shifts by whole pixels and cannot be "
            "combined with "
            "`augment.rotate_degrees`; use \"zero\", or set that to 0");
  options.elastic = 1;
  EXPECT_CONTAINS(error(options),
                  "`augment.rotate_degrees`, `augment.elastic`; use \"zero\", or "
                  "set those to 0");
  options = {};
  options.padding = "reflect";  // with nothing to pad
  EXPECT_EQ(augment(options, {1, 2, 3}, slope()), slope());
  EXPECT_FALSE(options.any());
}

}  // namespace
}  // namespace podium
