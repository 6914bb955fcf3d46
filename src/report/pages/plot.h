// Line plots as SVG text, for run folders and documents: readable on light and on dark pages, no
// scripts, no fonts of their own.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace podium {

struct PlotLine {
  std::string name;
  std::vector<std::pair<double, double>> points;  // by rising x; one that is not finite is left out
};

struct Plot {
  std::string title, x_title, y_title;
  std::vector<PlotLine> lines;
  std::string unit = "";  // of values in the legend: "%", " tokens/s"
};

// How wide a plot is drawn: for documents, for half of a page, or for phones, where a wider one
// would have to be shrunk until nobody can read it.
enum class PlotWidth { kWide, kHalf, kNarrow };

// A complete SVG file. The axes cover all points and end at round numbers; the legend below shows
// each line's last value. A line of one point is drawn as a dot.
std::string svg_of(const Plot& plot, PlotWidth width = PlotWidth::kWide);

// Round numbers from at most `low` to at least `high`, about `count` steps apart: 1, 2 or 5 times a
// power of ten.
std::vector<double> round_ticks(double low, double high, int count);

}  // namespace podium
