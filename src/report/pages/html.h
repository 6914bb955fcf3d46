// Parts of self-contained HTML pages, which load nothing and support light and dark mode, phones
// and print. A click on a column head sorts the table.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "report/pages/plot.h"

namespace podium {

// Escapes text for an element or an attribute: valid Unicode without control characters or markup.
std::string html_text(const std::string& text);

// A number for a cell, so that it can be copied: without its unit, which is in the head; "-" if it
// is not finite.
std::string html_number(double value, int significant = 4);

class HtmlTable {
 public:
  // Heads with their units: "tokens/s".
  explicit HtmlTable(std::vector<std::string> heads);
  // Cells as text. A column of numbers is aligned to the right and sorts as numbers. `mark` is a
  // class of the row: "bad", "text" of long sentences, or empty.
  void add(const std::vector<std::string>& cells, const std::string& mark = "");
  std::string html() const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::string mark;
  };

  std::vector<std::string> heads_;
  std::vector<Row> rows_;
};

// A plot in the colours of the page.
std::string html_plot(const Plot& plot);

// A complete page. `body` is HTML. `refresh_seconds` above 0: the browser reloads it at that
// interval.
std::string html_page(const std::string& title, const std::string& body, int refresh_seconds = 0);

// At most `most` points of a curve, each the mean of its stretch, so that a page stays small.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points,
                                               std::size_t most);

}  // namespace podium
