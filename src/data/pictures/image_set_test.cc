#include "data/pictures/image_set.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace podium {
namespace {

constexpr std::int64_t kImage = 2 * 3 * 4;
const ImageFields kShape = {.count = 5, .channels = 2, .height = 3, .width = 4, .classes = 3};

std::vector<std::uint8_t> pixels_of(std::int64_t bytes) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(7 * i);
  return pixels;
}

// The text of the error, which is about data; "accepted" where there is none.
std::string set_error(const ImageFields& shape, std::span<const std::uint8_t> pixels,
                      std::span<const std::int32_t> labels) {
  try {
    make_image_set(pixels, labels, shape);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    return error.what();
  }
  return "accepted";
}

const std::vector<std::uint8_t> kPixels = pixels_of(5 * kImage);
const std::vector<std::int32_t> kLabels = {0, 2, 1, 1, 0};

TEST(MakeImageSet, copies_images_and_labels) {
  const ImageSet set = make_image_set(kPixels, kLabels, kShape);
  EXPECT_EQ(set.count, 5);
  EXPECT_EQ(set.image_bytes(), kImage);
  EXPECT_EQ(set.pixels, kPixels);
  EXPECT_EQ(set.labels, (std::vector<std::int32_t>{0, 2, 1, 1, 0}));
  EXPECT_EQ(set.source, "the program's own data");
  EXPECT_NO_THROW(set.require_usable("the training set"));
}

TEST(MakeImageSet, names_the_first_example_whose_label_is_no_class) {
  for (const std::int32_t wrong : {-1, 3, 256, 259}) {
    std::vector<std::int32_t> labels = kLabels;
    labels[3] = labels[4] = wrong;
    EXPECT_EQ(set_error(kShape, kPixels, labels),
              cat("the program's own data: example 3 (counted from 0) has the label ", wrong,
                  "; labels are 0 to 2, since there are 3 classes"));
  }
}

TEST(MakeImageSet, names_the_first_example_that_a_short_buffer_has_no_pixels_for) {
  EXPECT_EQ(set_error(kShape, pixels_of(4 * kImage + 5), kLabels),
            "the program's own data: 5 images of 2 x 3 x 4 need 120 bytes, and there are 101: "
            "example 4 (counted from 0) is the first incomplete one");
  EXPECT_EQ(set_error(kShape, pixels_of(6 * kImage), kLabels),
            "the program's own data: 5 images of 2 x 3 x 4 need 120 bytes, and there are 144: the "
            "shape or the number of images is wrong");
}

TEST(MakeImageSet, refuses_missing_labels_and_as_many_as_do_not_fit) {
  EXPECT_EQ(set_error(kShape, kPixels, {}),
            "the program's own data: no labels; each of the 5 images needs one, from 0 to 2");
  EXPECT_EQ(set_error(kShape, kPixels, std::span(kLabels).first(3)),
            "the program's own data: 3 labels for 5 images: example 3 (counted from 0) is the "
            "first without one");
  EXPECT_EQ(set_error({.count = 3, .channels = 2, .height = 3, .width = 4, .classes = 3},
                      pixels_of(3 * kImage), kLabels),
            "the program's own data: 5 labels for 3 images; there must be one for each");
}

TEST(MakeImageSet, refuses_null_pointers) {
  const auto* no_pixels = static_cast<const std::uint8_t*>(nullptr);
  const auto* no_labels = static_cast<const std::int32_t*>(nullptr);
  EXPECT_EQ(set_error(kShape, {no_pixels, 0}, kLabels),
            "the program's own data: the pixels are a null pointer");
  EXPECT_EQ(set_error(kShape, {no_pixels, 5 * kImage}, kLabels),
            "the program's own data: the pixels are a null pointer");
  EXPECT_EQ(set_error(kShape, kPixels, {no_labels, 5}),
            "the program's own data: the labels are a null pointer");
}

TEST(MakeImageSet, refuses_zero_examples_and_shapes_that_cannot_be) {
  ImageFields shape = kShape;
  shape.count = 0;
  EXPECT_EQ(set_error(shape, kPixels, kLabels),
            "the program's own data: 0 examples; there must be 1 to 10000000");
  for (const std::int64_t extent : {std::int64_t{0}, std::int64_t{-4}, std::int64_t{1} << 40}) {
    shape = kShape;
    shape.width = extent;
    EXPECT_EQ(set_error(shape, kPixels, kLabels),
              cat("the program's own data: images of 2 channels, 3 x ", extent,
                  " pixels; each must be 1 to 65536"));
  }
  for (const std::int64_t classes : {0, 1048577}) {
    shape = kShape;
    shape.classes = classes;
    EXPECT_EQ(set_error(shape, kPixels, kLabels),
              cat("the program's own data: ", classes, " classes; there must be 1 to 1048576"));
  }
  shape = {.count = 10000000, .channels = 65536, .height = 65536, .width = 65536, .classes = 3};
  EXPECT_NE(set_error(shape, kPixels, kLabels).find("more than any memory"), std::string::npos);
}

TEST(RequireUsable, says_which_set_and_where_it_came_from) {
  ImageSet set = make_image_set(kPixels, kLabels, kShape);
  set.labels[2] = 9;
  try {
    set.require_usable("the held-out set");
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "the held-out set (the program's own data): example 2 (counted from 0) has the "
                 "label 9; labels are 0 to 2, since there are 3 classes");
  }
}

}  // namespace
}  // namespace podium
