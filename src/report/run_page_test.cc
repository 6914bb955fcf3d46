#include "report/run_page.h"

#include <gtest/gtest.h>

#include "base/scratch_test_util.h"

namespace podium {
namespace {

RunPage page_of(std::int64_t points) {
  RunPage page;
  page.history.folder = "r";
  page.history.recipe = parse_recipe(
      "name = \"<r>\"\nmodel = \"mnist\"\ndata = \"glyphs\"\nbatch = 100\nsteps = 200000\n"
      "[optimizer]\nname = \"sgd\"\nlearning_rate = 0.1\n",
      "r");
  for (std::int64_t i = 1; i <= points; ++i)
    page.history.course.training.push_back({.step = i, .loss = 1, .images_per_second = 1000});
  return page;
}

TEST(RunPage, a_run_of_100000_points_is_a_small_page_that_loads_nothing) {
  RunPage page = page_of(100'000);
  page.history.course.tests.push_back({.step = 50'000, .accuracy = 0.9931, .loss = 0.1});
  page.goes_on = true;
  const std::string html = run_page(page);
  EXPECT_LT(html.size(), 300'000u);
  EXPECT_CONTAINS(html, "99.31% test accuracy after step 50,000");
  EXPECT_CONTAINS(html, "1,000 images/s (median of 100000 points)");
  EXPECT_CONTAINS(html, "http-equiv=\"refresh\"");
  EXPECT_CONTAINS(html, "&lt;r&gt;");
  EXPECT_EQ(html.find("<r>"), std::string::npos);
  EXPECT_EQ(html.find("src=\"http"), std::string::npos);
}

TEST(RunPage, a_run_without_anything_has_a_page_that_says_so) {
  const std::string html = run_page(page_of(0));
  EXPECT_CONTAINS(html, "no accuracy yet, 0 of 200,000 steps");
  EXPECT_EQ(html.find("http-equiv=\"refresh\""), std::string::npos);
}

TEST(RunPage, a_confusion_matrix_names_its_classes_and_a_large_one_its_worst_pairs) {
  RunPage page = page_of(1);
  page.class_names = {"cat", "dog"};
  page.confusion = ConfusionMatrix(2);
  page.confusion->add(0, 1, 3);
  page.confusion->add(1, 1, 5);
  EXPECT_CONTAINS(run_page(page), "<td>cat</td><td class=\"n\">0.000</td><td class=\"n\">3</td>");
  page.confusion = ConfusionMatrix(kMostClasses);
  page.confusion->add(7, 999, 12);
  EXPECT_CONTAINS(run_page(page),
                  "<td class=\"n\">7</td><td class=\"n\">999</td><td class=\"n\">12</td>");
}

TEST(RunPage, pictures_are_within_the_page) {
  RunPage page = page_of(1);
  page.mistakes.push_back({.png = {'M', 'a', 'n', 'M'}, .caption = "dog", .mistaken = true});
  EXPECT_CONTAINS(run_page(page), "data:image/png;base64,TWFuTQ==");
  EXPECT_CONTAINS(run_page(page), "<figcaption class=\"bad\">dog");
}

}  // namespace
}  // namespace podium
