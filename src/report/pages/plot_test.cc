#include "report/pages/plot.h"

#include <gtest/gtest.h>

#include <limits>

namespace podium {
namespace {

using Ticks = std::vector<double>;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST(Plot, ticks_are_round_and_cover_the_values) {
  EXPECT_EQ(round_ticks(0, 12, 6), (Ticks{0, 2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(round_ticks(-1, 1, 4), (Ticks{-1, -0.5, 0, 0.5, 1}));
  const Ticks shares = round_ticks(0.113, 0.941, 6);
  EXPECT_NEAR(shares.front(), 0, 1e-12);
  EXPECT_NEAR(shares.back(), 1, 1e-12);
  EXPECT_EQ(shares.size(), 6U);
  for (const double size : {1e-7, 3.0, 12345.0}) {
    const Ticks ticks = round_ticks(0.9 * size, 1.7 * size, 5);
    EXPECT_LE(ticks.front(), 0.9 * size);
    EXPECT_GE(ticks.back(), 1.7 * size * (1 - 1e-12));
    EXPECT_LE(ticks.size(), 8U);
  }
}

TEST(Plot, draws_every_point_inside_and_names_its_lines) {
  const std::string svg =
      svg_of({.title = "a < b",
              .x_title = "epoch",
              .y_title = "accuracy",
              .lines = {{"R & 1", {{0, 0}, {5, 50}, {10, 100}}}, {"R 8", {{0, 20}, {10, 80}}}}});
  EXPECT_TRUE(svg.starts_with("<svg xmlns=")) << svg;
  EXPECT_TRUE(svg.ends_with("</svg>\n")) << svg;
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_NE(svg.find("R &amp; 1: 100<"), std::string::npos) << svg;
  EXPECT_NE(svg.find("R 8: 80<"), std::string::npos) << svg;
  // From the lower left corner of the axes to the upper right one.
  EXPECT_NE(svg.find("\"M64.0 404.0L427.0 224.0L790.0 44.0\""), std::string::npos) << svg;
  EXPECT_NE(svg.find("\"M64.0 332.0L790.0 116.0\""), std::string::npos) << svg;
}

TEST(Plot, shows_what_can_be_shown_of_few_equal_or_missing_values) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::vector<PlotLine>& lines :
       {std::vector<PlotLine>{}, std::vector<PlotLine>{{"none", {}}},
        std::vector<PlotLine>{{"one", {{3, 7}}}}, std::vector<PlotLine>{{"nan", {{1, nan}}}},
        std::vector<PlotLine>{{"flat", {{0, 0}, {1, 0}}}}}) {
    const std::string svg = svg_of({.title = "t", .x_title = "x", .y_title = "y", .lines = lines});
    EXPECT_EQ(count(svg, "nan"), lines.empty() || lines[0].name != "nan" ? 0U : 1U) << svg;
    EXPECT_EQ(count(svg, "inf"), 0U) << svg;
    EXPECT_EQ(count(svg, "</svg>"), 1U);
  }
  EXPECT_NE(svg_of({.title = "", .x_title = "", .y_title = "", .lines = {{"a", {{1, nan}}}}})
                .find("a: no values"),
            std::string::npos);
}

TEST(Plot, a_line_of_one_point_is_a_dot_and_others_are_not) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string svg =
      svg_of({.title = "t",
              .x_title = "x",
              .y_title = "y",
              .lines = {{"line", {{0, 0}, {10, 100}}}, {"one", {{5, 50}, {6, nan}}}}});
  EXPECT_EQ(count(svg, "<circle"), 1U) << svg;
  EXPECT_NE(svg.find("<circle cx=\"427.0\" cy=\"224.0\" r=\"4\" fill=\"#d55e00\"/>"),
            std::string::npos)
      << svg;
}

TEST(Plot, names_that_xml_cannot_hold_become_ones_that_it_can) {
  const std::string svg = svg_of({.title = "a\x1b[31m<b>\n\xe9 \xc3\xa9",
                                  .x_title = "x",
                                  .y_title = "y",
                                  .lines = {{"\xff", {{1, 2}, {3, 4}}}}});
  EXPECT_NE(svg.find("a [31m&lt;b&gt; \xef\xbf\xbd \xc3\xa9"), std::string::npos) << svg;
  EXPECT_EQ(svg.find('\xff'), std::string::npos);
}

TEST(Plot, lines_beyond_the_last_colour_are_dashed) {
  Plot plot{.title = "t", .x_title = "x", .y_title = "y", .lines = {}};
  for (int i = 0; i < 9; ++i) plot.lines.push_back({"line", {{0, 0}, {1, 1.0 * i}}});
  EXPECT_EQ(count(svg_of(plot), "stroke-dasharray=\"7 4\""), 2U);  // the line and its legend
}

}  // namespace
}  // namespace podium
