#include "graph/attributes.h"

#include <gtest/gtest.h>

namespace podium {
namespace {

enum class Flavour : std::uint8_t { kPlain = 0, kSweet = 2 };

struct Everything {
  std::int64_t stride = 2;
  bool flag = true;
  float rate = 0.1f;
  double fine = 0.1;
  Flavour flavour = Flavour::kSweet;
  std::string text = "a b";
  std::vector<std::int64_t> list = {3, -4};

  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("stride", stride), v("flag", flag), v("rate", rate), v("fine", fine);
    v("flavour", flavour), v("text", text), v("list", list);
  }
};

struct One {
  float value = 0;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("value", value);
  }
};
struct Other {  // the same text, another type
  float value = 0;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("value", value);
  }
};

TEST(Attributes, give_back_the_struct_that_they_were_made_of) {
  const Attributes attributes = Everything{.stride = 7, .text = "kept"};
  EXPECT_EQ(attributes.as<Everything>().stride, 7);
  EXPECT_EQ(attributes.as<Everything>().text, "kept");
  const Attributes copy = attributes;
  EXPECT_EQ(copy.as<Everything>().stride, 7);
}

TEST(Attributes, asked_for_as_another_struct_they_refuse) {
  const Attributes attributes = One{1};
  EXPECT_THROW(attributes.as<Other>(), InternalError);
  EXPECT_THROW(attributes.as<NoAttributes>(), InternalError);
  EXPECT_THROW(Attributes().as<One>(), InternalError);
}

TEST(Attributes, print_each_kind_of_field_in_the_order_of_visit) {
  EXPECT_EQ(Attributes(Everything{}).text(),
            "stride=2, flag=true, rate=0x1.99999ap-4, fine=0x1.999999999999ap-4, flavour=2, "
            "text=\"a b\", list=[3, -4]");
  EXPECT_EQ(Attributes().text(), "");
  EXPECT_TRUE(Attributes(Everything{.list = {}}).text().ends_with("list=[]"));
}

TEST(Attributes, are_equal_by_type_and_fields) {
  EXPECT_EQ(Attributes(Everything{}), Attributes(Everything{}));
  EXPECT_FALSE(Attributes(Everything{}) == Attributes(Everything{.flag = false}));
  EXPECT_FALSE(Attributes(Everything{}) == Attributes(Everything{.flavour = Flavour::kPlain}));
  EXPECT_FALSE(Attributes(Everything{}) == Attributes(Everything{.list = {3}}));
  EXPECT_FALSE(Attributes(One{1}) == Attributes(Other{1}));
  EXPECT_EQ(Attributes(), Attributes(NoAttributes{}));
}

TEST(Attributes, tell_apart_floats_that_decimal_digits_would_not) {
  EXPECT_FALSE(Attributes(One{0.1f}) == Attributes(One{0.1f + 0x1p-27f}));
  EXPECT_FALSE(Attributes(One{0.0f}) == Attributes(One{-0.0f}));
}

}  // namespace
}  // namespace podium
