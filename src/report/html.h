// Pieces of self-contained HTML pages: nothing is loaded from elsewhere, light and dark, phone and
// print. Tables sort by a click on their heads.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "report/plot.h"

namespace podium {

// Text for an element or an attribute: Unicode, without control characters, nothing of it markup.
std::string html_text(const std::string& text);

// A number as cells show it, so that it can be copied: no unit, which is the head's, "-" where it
// is not finite.
std::string html_number(double value, int significant = 4);

class HtmlTable {
 public:
  // Heads with their units: "images/s".
  explicit HtmlTable(std::vector<std::string> heads);
  // Cells as text. Those that are numbers stand to the right and sort as numbers. `mark` is a class
  // of the row: "bad", or empty.
  void add(const std::vector<std::string>& cells, const std::string& mark = "");
  std::string html() const;

 private:
  std::vector<std::string> heads_;
  std::string rows_;
};

// A plot in the colours of the page.
std::string html_plot(const Plot& plot);

// A whole page. `body` is HTML. `refresh_seconds` above 0: the browser reads it again as often.
std::string html_page(const std::string& title, const std::string& body, int refresh_seconds = 0);

// At most `most` points of a curve, each the mean of its stretch, so that a page stays small.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points,
                                               std::size_t most);

}  // namespace podium
