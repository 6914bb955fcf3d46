#include "tests/house/words.h"

#include <gtest/gtest.h>

namespace podium::house {
namespace {

using Lines = std::vector<std::string>;

Lines check_words(const std::string& path, const std::string& text) {
  return words_of_one_task({{path, text}});
}

TEST(Words, of_one_kind_of_task_stand_only_in_files_about_it) {
  std::string text;
  for (const std::string& line : words_of_one_task(read_sources("src"))) text += line + "\n";
  EXPECT_TRUE(text.empty()) << text
                            << "Say item, example, target or data; what is about pictures "
                               "belongs in a file that tests/house/words.cc lists.";
}

TEST(Words, are_found_in_names_comments_and_texts) {
  EXPECT_EQ(check_words("train/loop/step.cc", "int step;\n// of all Images\n"),
            Lines{"train/loop/step.cc:2: images"});
  EXPECT_EQ(check_words("cli/commands/train_command.cc", "say(\"12 images/s\");\n"),
            Lines{"cli/commands/train_command.cc:1: images"});
  EXPECT_EQ(check_words("plan/plan.cc", "auto n = pixel_count;\n"),
            Lines{"plan/plan.cc:1: pixel_count"});
  EXPECT_EQ(check_words("report/pages/plot.cc", "line.label\n"),
            Lines{"report/pages/plot.cc:1: label"});
  EXPECT_EQ(check_words("backend/cpu/job.cc", "// a photograph's images\n"),
            Lines{"backend/cpu/job.cc:1: photograph"});
}

TEST(Words, of_other_folders_of_tests_and_of_listed_files_are_free) {
  EXPECT_EQ(check_words("data/pictures/prepare/crop.cc", "image"), Lines{});
  EXPECT_EQ(check_words("nn/layers.cc", "image"), Lines{});
  EXPECT_EQ(check_words("train/loop/step_test.cc", "image"), Lines{});
  EXPECT_EQ(check_words("train/loop/views.cc", "image"), Lines{});
  EXPECT_EQ(check_words("backend/cpu/kernels/products/pack.cc", "images, labels"), Lines{});
}

TEST(Words, have_a_plural_that_fits_their_number) {
  EXPECT_EQ(unsure_plurals(read_sources("src")), Lines{});
  EXPECT_EQ(unsure_plurals({{"cli/a.cc", "int n;\nsay(cat(n, \" picture(s)\"));\nfoo(s);\n"}}),
            Lines{"cli/a.cc:2"});
}

TEST(Words, that_are_parts_of_names_and_includes_are_free) {
  EXPECT_EQ(check_words("report/pages/html.cc", "img{image-rendering:pixelated}\n"), Lines{});
  EXPECT_EQ(check_words("train/run/run.cc", "#include \"data/pictures/pictures.h\"\n"), Lines{});
  EXPECT_EQ(check_words("plan/cost.cc", "double label_smoothing; // corrected\n"), Lines{});
}

}  // namespace
}  // namespace podium::house
