#include "backend/cpu/kernels/targets.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace podium::cpu {
namespace {

TEST(Targets, the_machine_has_at_least_one_and_the_best_is_the_default) {
  ASSERT_FALSE(vector_targets().empty());
  if (std::getenv("PODIUM_VECTOR_TARGET") == nullptr) {
    EXPECT_EQ(vector_target(), vector_targets().front());
  }
}

TEST(Targets, any_of_the_machine_can_be_set) {
  const std::string before = vector_target();
  for (const std::string& name : vector_targets()) {
    set_vector_target(name);
    EXPECT_EQ(vector_target(), name);
  }
  set_vector_target(before);
}

TEST(Targets, an_unknown_one_is_refused_with_the_list) {
  const std::string before = vector_target();
  try {
    set_vector_target("sse2");
    FAIL();
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("\"sse2\""), std::string::npos) << text;
    for (const std::string& name : vector_targets()) {
      EXPECT_NE(text.find(name), std::string::npos) << text;
    }
  }
  EXPECT_EQ(vector_target(), before);
}

// In a process of its own: the environment is read once.
TEST(TargetsDeathTest, the_environment_names_the_target) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const std::string last = vector_targets().back();
  EXPECT_EXIT(
      {
        internal::vector_target_chosen = false;
        setenv("PODIUM_VECTOR_TARGET", last.c_str(), 1);
        std::exit(vector_target() == last ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        internal::vector_target_chosen = false;
        setenv("PODIUM_VECTOR_TARGET", "mmx", 1);
        try {
          choose_vector_target();
        } catch (const UserError& error) {
          std::fprintf(stderr, "%s\n", error.what());
          std::exit(2);
        }
      },
      ::testing::ExitedWithCode(2), "PODIUM_VECTOR_TARGET.*mmx.*targets: ");
}

}  // namespace
}  // namespace podium::cpu
