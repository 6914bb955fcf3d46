#include "data/views.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/scratch_test_util.h"
#include "data/test_files.h"

namespace podium {
namespace {

using namespace podium::testing;
using Image = std::vector<float>;

Image view(std::int64_t views, int i, const Image& in, std::int64_t channels, std::int64_t height,
           std::int64_t width) {
  Image out(in.size(), -1.0f);
  make_view(views, i, channels, height, width, in.data(), out.data());
  return out;
}

const Image kImage = {1, 2, 3,  //
                      4, 5, 6,  //
                      7, 8, 9};
const Image kMirrored = {3, 2, 1,  //
                         6, 5, 4,  //
                         9, 8, 7};
// Padded by reflection:  5 4 5 6 5
//                        2 1 2 3 2
//                        5 4 5 6 5
//                        8 7 8 9 8
//                        5 4 5 6 5
const Image kDownRight = {5, 4, 5,  //
                          2, 1, 2,  //
                          5, 4, 5};
const Image kUpLeft = {5, 6, 5,  //
                       8, 9, 8,  //
                       5, 6, 5};

TEST(Views, one_is_the_image) {
  EXPECT_EQ(view_count(1), 1);
  EXPECT_EQ(view(1, 0, kImage, 1, 3, 3), kImage);
  EXPECT_EQ(view_weight(1, 0), 1.0f);
}

TEST(Views, two_are_the_image_and_its_mirror_image) {
  EXPECT_EQ(view_count(2), 2);
  EXPECT_EQ(view(2, 0, kImage, 1, 3, 3), kImage);
  EXPECT_EQ(view(2, 1, kImage, 1, 3, 3), kMirrored);
  EXPECT_EQ(view_weight(2, 0), 0.5f);
  EXPECT_EQ(view_weight(2, 1), 0.5f);
}

TEST(Views, six_are_two_of_the_image_and_four_of_its_shifts_at_half_the_weight) {
  EXPECT_EQ(view_count(6), 6);
  EXPECT_EQ(view(6, 0, kImage, 1, 3, 3), kImage);
  EXPECT_EQ(view(6, 1, kImage, 1, 3, 3), kMirrored);
  EXPECT_EQ(view(6, 2, kImage, 1, 3, 3), kDownRight);
  EXPECT_EQ(view(6, 3, kImage, 1, 3, 3), kDownRight);  // its own mirror image
  EXPECT_EQ(view(6, 4, kImage, 1, 3, 3), kUpLeft);
  EXPECT_EQ(view(6, 5, kImage, 1, 3, 3), kUpLeft);
  float sum = 0;
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(view_weight(6, i), i < 2 ? 0.25f : 0.125f);
    sum += view_weight(6, i);
  }
  EXPECT_EQ(sum, 1.0f);
}

TEST(Views, shifts_are_mirrored_after_they_were_made) {
  const Image in = {1, 2, 3, 4,  //
                    5, 6, 7, 8};
  EXPECT_EQ(view(6, 2, in, 1, 2, 4), (Image{6, 5, 6, 7, 2, 1, 2, 3}));
  EXPECT_EQ(view(6, 3, in, 1, 2, 4), (Image{7, 6, 5, 6, 3, 2, 1, 2}));
  EXPECT_EQ(view(6, 4, in, 1, 2, 4), (Image{6, 7, 8, 7, 2, 3, 4, 3}));
  EXPECT_EQ(view(6, 5, in, 1, 2, 4), (Image{7, 8, 7, 6, 3, 4, 3, 2}));
}

TEST(Views, show_all_channels_alike) {
  Image in = kImage;
  for (const float v : kImage) in.push_back(10 * v);
  for (int i = 0; i < 6; ++i) {
    Image expected = view(6, i, kImage, 1, 3, 3);
    for (std::size_t k = 0; k < 9; ++k) expected.push_back(10 * expected[k]);
    EXPECT_EQ(view(6, i, in, 2, 3, 3), expected) << i;
  }
}

TEST(Views, any_other_number_is_refused) {
  for (const std::int64_t views : {0, 3, -1, 7}) {
    EXPECT_CONTAINS(user_error(ExitCode::kUsage, [&] { view_count(views); }),
                    "; it must be 1, 2 or 6");
  }
}

}  // namespace
}  // namespace podium
