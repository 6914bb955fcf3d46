#include "files/program.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/scratch_test_util.h"

namespace podium {
namespace {

TEST(Program, gives_its_exit_code_and_what_it_prints) {
  const ProgramEnd end =
      run_program({"sh", "-c", "echo one; echo two >&2; exit 7"}, {.keep_text = true}, "");
  EXPECT_EQ(end.code, 7);
  EXPECT_EQ(end.text, "one\ntwo\n");
}

TEST(Program, reads_a_file) {
  const TestFolder folder;
  const auto file = folder / "text";
  std::ofstream(file) << "words";
  EXPECT_EQ(run_program({"cat"}, {.input = file.string(), .keep_text = true}, "").text, "words");
}

TEST(Program, that_a_signal_ends_says_which) {
  EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}, {}, "").code, 128 + 9);
}

TEST(Program, that_is_not_there_is_an_error_with_the_remedy) {
  try {
    run_program({"no-such-program"}, {}, "; install it");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "no-such-program: cannot be started: No such file or directory; install it");
  }
}

}  // namespace
}  // namespace podium
