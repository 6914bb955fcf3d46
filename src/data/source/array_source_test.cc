#include "data/source/array_source.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "base/error.h"
#include "data/pictures/image_set.h"

namespace podium {
namespace {

const std::vector<float> kFeatures = {1, 2, 3, 4, 5, 6};
const std::vector<std::int32_t> kClasses = {2, 0, 1};

std::vector<FieldArray> arrays_of(const std::vector<float>& features,
                                  const std::vector<std::int32_t>& classes) {
  return {{.field = {.name = "features", .shape = Shape{2}, .unit = "row"},
           .values = features.data(),
           .rows = std::ssize(features) / 2},
          {.field = {.name = "kind", .dtype = DType::kI32, .below = 3, .target = true},
           .values = classes.data(),
           .rows = std::ssize(classes)}};
}

std::string array_refusal(const std::vector<float>& features,
                          const std::vector<std::int32_t>& classes) {
  try {
    ArraySource(arrays_of(features, classes)).require_usable("the training set");
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    return error.what();
  }
  return "accepted";
}

TEST(ArraySource, reads_rows_of_memory_that_it_does_not_copy) {
  std::vector<float> features = kFeatures;
  const ArraySource source(arrays_of(features, kClasses));
  EXPECT_EQ(source.examples(), 3);
  EXPECT_EQ(to_text(source.fields()), "\"features\" f32[2], \"kind\" i32[] below 3");
  EXPECT_EQ(source.memory_bytes(), 36);
  features[3] = 40;
  std::array<float, 2> row = {};
  std::int32_t kind = 9;
  source.read(1, nullptr, {row.data(), &kind});
  EXPECT_EQ(row, (std::array<float, 2>{3, 40}));
  EXPECT_EQ(kind, 0);
}

TEST(ArraySource, keeps_the_owner_of_its_memory) {
  auto owner = std::make_shared<std::vector<float>>(kFeatures);
  const std::weak_ptr<std::vector<float>> watched = owner;
  {
    const ArraySource source(arrays_of(*owner, kClasses), owner);
    owner.reset();
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

TEST(ArraySource, names_field_and_row_of_what_cannot_be_used) {
  EXPECT_EQ(array_refusal(kFeatures, kClasses), "accepted");
  std::vector<float> features = kFeatures;
  features[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(array_refusal(features, kClasses),
            "the training set: field \"features\", row 2 (counted from 0): nan is not a finite "
            "number; leave the row out");
  EXPECT_EQ(
      array_refusal(kFeatures, {0, 3, 1}),
      "the training set: field \"kind\", row 1 (counted from 0): 3 is not one of its numbers, "
      "which are 0 to 2");
  EXPECT_EQ(array_refusal(kFeatures, {0, 1}),
            "arrays in memory: field \"kind\" has 2 rows, and \"features\" has 3; give as many of "
            "each");
  EXPECT_EQ(array_refusal({}, {}),
            "the training set (arrays in memory) has no rows; give at least one");
}

TEST(ArraySource, is_identified_by_its_fields_and_values) {
  const auto identity = [](const std::vector<FieldArray>& arrays) {
    return ArraySource(arrays).identity({});
  };
  const std::string own = identity(arrays_of(kFeatures, kClasses));
  EXPECT_TRUE(own.starts_with("3 rows of arrays, hash ")) << own;
  EXPECT_EQ(identity(arrays_of(kFeatures, kClasses)), own);
  EXPECT_NE(identity(arrays_of({1, 2, 3, 4, 5, 7}, kClasses)), own);
  EXPECT_NE(identity(arrays_of(kFeatures, {2, 0, 2})), own);
  std::vector<FieldArray> renamed = arrays_of(kFeatures, kClasses);
  renamed[1].field.name = "class";
  EXPECT_NE(identity(renamed), own);
}

TEST(BorrowedImages, are_the_images_of_a_set_that_copies_them) {
  const std::vector<std::uint8_t> pixels = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<std::int32_t> labels = {1, 0};
  const ImageFields shape = {.count = 2, .height = 2, .width = 2, .classes = 2};
  const BorrowedImages borrowed(pixels, labels, shape);
  const ImageSet copied = make_image_set(pixels, labels, shape);
  EXPECT_EQ(borrowed.identity({}), copied.identity({}));
  EXPECT_EQ(borrowed.memory_bytes(), copied.memory_bytes());
  EXPECT_EQ(borrowed.read_image(1, nullptr, nullptr).pixels, pixels.data() + 4);
  EXPECT_EQ(borrowed.read_image(0, nullptr, nullptr).label, 1);
  EXPECT_THROW(BorrowedImages(pixels, {}, shape), UserError);
}

}  // namespace
}  // namespace podium
