#include "report/pages/run_page.h"

#include <gtest/gtest.h>

#include "base/scratch_test_util.h"
#include "data/pictures/image_set.h"
#include "report/pages/example_pictures.h"

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
    page.history.course.training.push_back({.step = i, .loss = 1, .items_per_second = 1000});
  return page;
}

TEST(RunPage, a_run_of_100000_points_is_a_small_page_that_loads_nothing) {
  RunPage page = page_of(100'000);
  page.history.course.tests.push_back({.step = 50'000, .metric = 0.9931, .loss = 0.1});
  page.goes_on = true;
  const std::string html = run_page(page);
  EXPECT_LT(html.size(), 300'000u);
  EXPECT_CONTAINS(html, "99.31% test accuracy after step 50,000");
  EXPECT_CONTAINS(html, "1,000 images/s (median of 100,000 points)");
  EXPECT_CONTAINS(html, "http-equiv=\"refresh\"");
  EXPECT_CONTAINS(html, "&lt;r&gt;");
  EXPECT_EQ(html.find("<r>"), std::string::npos);
  EXPECT_EQ(html.find("src=\"http"), std::string::npos);
}

TEST(RunPage, a_run_without_anything_has_a_page_that_says_so) {
  const std::string html = run_page(page_of(0));
  EXPECT_CONTAINS(html, "not evaluated yet, 0 of 200,000 steps");
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

TEST(RunPage, translations_stand_beside_their_references_with_attention) {
  RunPage page = page_of(1);
  page.history.course.tests = {{.step = 1, .loss = 2, .bleu = 31.25}};
  page.translations = {
      {"a <dog>", "ein Hund", "der Hund", std::nullopt},
      {"runs", "läuft", "rennt", AttentionMap{{"läuft", "end"}, {"runs"}, {1, 0.5}}}};
  page.confusion = ConfusionMatrix();
  const std::string html = run_page(page);
  EXPECT_CONTAINS(html, "BLEU of translations");
  EXPECT_CONTAINS(html, "31.25");
  EXPECT_CONTAINS(html, "<td>a &lt;dog&gt;</td><td>der Hund</td><td>ein Hund</td>");
  EXPECT_CONTAINS(html, "fill-opacity=\"0.50\"");
  EXPECT_EQ(html.find("Confusion matrix"), std::string::npos);
  EXPECT_EQ(run_page(page_of(1)).find("Translations"), std::string::npos);
}

TEST(RunPage, the_slowest_operations_are_listed_and_the_rest_is_summed_up) {
  RunPage page = page_of(1);
  OperationTimes times{.steps = {.first = 3, .count = 2, .seconds = 2}, .cores = 2};
  for (int i = 0; i < 50; ++i)
    times.operations.push_back({.name = "conv2d c" + std::to_string(i),
                                .seconds = 0.04,
                                .flops = 4e9,
                                .bytes = 0,
                                .calls = 4});
  page.operations = times;
  const std::string html = run_page(page);
  EXPECT_CONTAINS(html, "From 2 steps from step 3 on, 1000 ms a step, on 2 cores: 50.0% of the");
  EXPECT_CONTAINS(html,
                  "<td>conv2d c0</td><td class=\"n\">1.00</td><td class=\"n\">10.000</td>"
                  "<td class=\"n\">2</td><td class=\"n\">100.0</td><td class=\"n\">-</td>");
  EXPECT_EQ(html.find("conv2d c40"), std::string::npos);
  EXPECT_CONTAINS(html, "10 other operations take 10.0% of a step.");
}

TEST(RunPage, times_of_operations_are_read_as_they_were_written) {
  const TestFolder folder;
  EXPECT_FALSE(read_operations(folder.path()).has_value());
  const OperationTimes times{.steps = {.first = 3, .count = 2, .seconds = 0.25},
                             .cores = 2,
                             .operations = {{"conv2d \"a\"", 0.5, 1e9, 2e6, 4}}};
  write_operations(folder.path(), times);
  const OperationTimes read = read_operations(folder.path()).value();
  EXPECT_EQ(operations_text(read), operations_text(times));
  EXPECT_EQ(read.operations.at(0).name, "conv2d \"a\"");
  for (const char* wrong : {"", "{}", "[1]", "{\"first_step\": 3, \"steps\": \"two\"}"})
    EXPECT_FALSE(parse_operations(wrong).has_value()) << wrong;
}

TEST(RunPage, plots_are_drawn_for_phones_too) {
  const std::string html = run_page(page_of(3));
  EXPECT_CONTAINS(html, "<svg class=\"broad\"");
  EXPECT_CONTAINS(html, "<svg class=\"narrow\"");
}

TEST(ExamplePictures, large_ones_are_reduced_by_a_whole_factor) {
  ImageSet set({.count = 1,
                .channels = 3,
                .height = 200,
                .width = 300,
                .classes = 2,
                .source = "",
                .class_names = {"cat", "dog"}},
               std::vector<std::uint8_t>(3 * 200 * 300, 7), {1});
  const auto picture = picture_of(set, 0);
  ASSERT_TRUE(picture);
  EXPECT_EQ(picture->height, 50);
  EXPECT_EQ(picture->width, 75);
  EXPECT_EQ(caption_of(set, {.target = 1, .predicted = 1}), "dog");
  EXPECT_EQ(caption_of(set, {.target = 1, .predicted = 0, .loss = 2.5f}),
            "cat (is dog), loss 2.50");
  EXPECT_EQ(caption_of(set, {.target = 1, .predicted = -1, .loss = 1}),
            "no class (is dog), loss 1.00");
}

TEST(RunPage, pictures_are_within_the_page) {
  RunPage page = page_of(1);
  page.mistakes.push_back({.png = {'M', 'a', 'n', 'M'}, .caption = "dog", .mistaken = true});
  EXPECT_CONTAINS(run_page(page), "data:image/png;base64,TWFuTQ==");
  EXPECT_CONTAINS(run_page(page), "<figcaption class=\"bad\">dog");
}

}  // namespace
}  // namespace podium
