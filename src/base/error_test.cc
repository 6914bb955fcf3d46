#include "base/error.h"

#include <gtest/gtest.h>

namespace podium {
namespace {

template <typename Error, typename F>
std::string text_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Errors, cat_joins_as_a_stream_prints) {
  EXPECT_EQ(cat("batch = ", 256, ", rate ", 0.5f, ' ', true), "batch = 256, rate 0.5 1");
}

TEST(Errors, exit_codes_are_those_of_the_documents) {
  EXPECT_EQ(static_cast<int>(ExitCode::kDone), 0);
  EXPECT_EQ(static_cast<int>(ExitCode::kUsage), 2);
  EXPECT_EQ(static_cast<int>(ExitCode::kData), 3);
  EXPECT_EQ(static_cast<int>(ExitCode::kMemory), 4);
  EXPECT_EQ(static_cast<int>(ExitCode::kDiverged), 5);
  EXPECT_EQ(static_cast<int>(ExitCode::kInternal), 70);
  EXPECT_EQ(static_cast<int>(ExitCode::kStopped), 75);
}

TEST(Errors, a_user_error_is_one_of_usage_unless_it_says_otherwise) {
  EXPECT_EQ(UserError("x").code(), ExitCode::kUsage);
  EXPECT_EQ(UserError("x", ExitCode::kData).code(), ExitCode::kData);
}

TEST(Errors, require_throws_its_text_and_code) {
  try {
    PODIUM_REQUIRE(1 > 2, ExitCode::kMemory, "batch = ", 512, " does not fit");
    FAIL() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "batch = 512 does not fit");
    EXPECT_EQ(error.code(), ExitCode::kMemory);
  }
}

TEST(Errors, check_names_file_line_condition_and_details) {
  const int line = __LINE__ + 1;
  const auto broken = [](int x) { PODIUM_CHECK(x == 3, "x is ", x); };
  const std::string text = text_of<InternalError>([&] { broken(4); });
  EXPECT_EQ(text, cat(__FILE__, ":", line, ": x == 3 x is 4"));
  EXPECT_NO_THROW(broken(3));
}

TEST(Errors, check_needs_no_details) {
  const std::string text = text_of<InternalError>([] { PODIUM_CHECK(1 == 2); });
  EXPECT_NE(text.find("error_test.cc:"), std::string::npos) << text;
  EXPECT_NE(text.find("1 == 2"), std::string::npos) << text;
}

TEST(Errors, details_are_computed_only_for_a_broken_rule) {
  int computed = 0;
  const auto detail = [&] { return ++computed; };
  PODIUM_CHECK(true, detail());
  PODIUM_REQUIRE(true, ExitCode::kUsage, detail());
  EXPECT_EQ(computed, 0);
}

TEST(Errors, what_users_do_and_our_bugs_have_different_roots) {
  EXPECT_THROW(throw UserError("x"), std::runtime_error);
  EXPECT_THROW(throw InternalError("file", 1, "x"), std::logic_error);
}

}  // namespace
}  // namespace podium
