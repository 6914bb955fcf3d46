#include "report/pages/comparison_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "base/words.h"
#include "report/pages/html.h"

namespace podium {
namespace {

constexpr std::size_t kMostLines = 16;      // of a plot that one can still read
constexpr std::size_t kMostPoints = 20000;  // of a plot, over its lines

std::string name_of(const Comparison& all, const ComparedRun& run) {
  std::set<std::string> placements;
  for (const ComparedRun& one : all.runs) placements.insert(one.placement + one.device);
  return placements.size() == all.runs.size() ? run.placement : run.history.folder.string();
}

std::string plot_of(const Comparison& all, const std::string& title, const std::string& x,
                    const std::string& y, const std::string& unit,
                    std::vector<std::pair<double, double>> ComparedRun::*curve,
                    double (*across)(const ComparedRun&, double)) {
  Plot plot{.title = title, .x_title = x, .y_title = y, .lines = {}, .unit = unit};
  const std::size_t lines = std::min(all.runs.size(), kMostLines);
  const std::size_t most =
      std::clamp<std::size_t>(kMostPoints / std::max<std::size_t>(lines, 1), 50, 600);
  bool any = false;
  for (std::size_t i = 0; i < lines; ++i) {
    const ComparedRun& run = all.runs[i];
    PlotLine line{.name = name_of(all, run), .points = {}};
    for (const auto& [time, value] : thinned(run.*curve, most)) {
      line.points.emplace_back(across(run, time), value);
      any = any || std::isfinite(line.points.back().first);
    }
    plot.lines.push_back(std::move(line));
  }
  if (!any) return "";
  std::string html = html_plot(plot);
  if (all.runs.size() > lines)
    html += fmt::format("<p class=\"soft\">The first {} of {} runs are shown.</p>\n", lines,
                        all.runs.size());
  return html;
}

std::string list_of(const std::vector<std::string>& lines, const char* mark) {
  std::string html = "<ul>";
  for (const std::string& line : lines)
    html += fmt::format("<li class=\"{}\">{}</li>\n", mark, html_text(line));
  return html + "</ul>\n";
}

// "a, b and 48 more runs".
std::string some_of(const std::vector<std::string>& runs) {
  constexpr std::size_t kNamed = 4;
  if (runs.size() <= kNamed) return join_words(runs);
  return cat(join_words({runs.begin(), runs.begin() + kNamed - 1}), " and ",
             count_text(static_cast<std::int64_t>(runs.size() - kNamed + 1), "more run"));
}

// A row for each value, so that many runs do not make it wide.
std::string differences_of(const Comparison& all) {
  constexpr std::size_t kMostValues = 12;  // of one difference
  if (all.differences.empty()) return "<p>The runs differ only in their placement.</p>\n";
  std::string html;
  if (all.different_trainings)
    html +=
        "<p class=\"bad\">This is a comparison between different trainings: the mathematics "
        "differs.</p>\n";
  HtmlTable table({"differs", "value", "runs"});
  for (const Difference& difference : all.differences) {
    std::vector<std::pair<std::string, std::vector<std::string>>> values;
    for (std::size_t i = 0; i < difference.values.size(); ++i) {
      auto known = std::ranges::find(values, difference.values[i],
                                     &std::pair<std::string, std::vector<std::string>>::first);
      if (known == values.end()) known = values.insert(known, {difference.values[i], {}});
      known->second.push_back(all.runs[i].history.folder.string());
    }
    const char* mark = difference.mathematics ? "bad" : "";
    for (std::size_t i = 0; i < std::min(values.size(), kMostValues); ++i)
      table.add({difference.what, values[i].first, some_of(values[i].second)}, mark);
    if (values.size() > kMostValues)
      table.add(
          {difference.what,
           count_text(static_cast<std::int64_t>(values.size() - kMostValues), "more value"), ""},
          mark);
  }
  return html + table.html();
}

struct Column {
  std::string head;
  std::vector<std::string> cells;  // by run
  bool shared = false;             // told once if all cells are equal
};

std::vector<Column> columns_of(const Comparison& all) {
  std::vector<Column> columns;
  const auto add = [&](const std::string& head, auto cell_of, bool shared = false) {
    Column column{.head = head, .cells = {}, .shared = shared};
    for (const ComparedRun& run : all.runs) column.cells.push_back(cell_of(run));
    columns.push_back(std::move(column));
  };
  using Run = const ComparedRun&;
  add("run", [](Run run) { return run.history.folder.string(); });
  add("placement", [](Run run) { return run.placement; });
  add(
      "device", [](Run run) { return run.device.empty() ? "unknown" : run.device; }, true);
  add("steps/s", [](Run run) { return html_number(run.steps_per_second.median); });
  add("10% to 90%, steps/s", [](Run run) {
    const Spread& speed = run.steps_per_second;
    return speed.n == 0 ? "-" : cat(html_number(speed.low), " to ", html_number(speed.high));
  });
  add("n, points", [](Run run) { return cat(run.steps_per_second.n); });
  const bool same_items = all.same_item();
  add(all.rate_unit(), [&](Run run) {
    return cat(html_number(run.items_per_second.median),
               same_items ? "" : " " + run.words.rate_unit());
  });
  const auto tests_of = [](Run run) -> const auto& { return run.history.course.tests; };
  add(all.words ? all.words->metric_head() : "metric", [&](Run run) {
    const double value = tests_of(run).empty() ? kNoValue : tests_of(run).back().metric;
    return all.words || !std::isfinite(value)
               ? html_number(run.words.shown(value))
               : cat(run.words.metric_name(), " ", run.words.metric_text(value));
  });
  add("at step",
      [&](Run run) { return tests_of(run).empty() ? "-" : cat(tests_of(run).back().step); });
  add("time, s", [](Run run) { return html_number(run.seconds); });
  add("cost, USD", [](Run run) { return html_number(run.usd, 3); });
  for (std::size_t i = 0; i < all.targets.size(); ++i) {
    const std::string to = "to " + target_text(all, all.targets[i]) + ", ";
    add(to + "s", [i](Run run) { return html_number(run.seconds_to[i]); });
    add(to + "USD", [i](Run run) { return html_number(run.usd_to[i], 3); });
  }
  add("input wait, %", [](Run run) { return html_number(run.input_wait_percent, 3); });
  add("peak memory, MiB", [](Run run) {
    return run.peak_memory_bytes == 0
               ? "-"
               : html_number(static_cast<double>(run.peak_memory_bytes) / (1 << 20));
  });
  add(
      "energy, J",
      [](Run run) { return run.joules ? html_number(*run.joules) : "not reported by the machine"; },
      true);
  add(
      "price of", [](Run run) { return run.price ? run.price->text() : "none chosen"; }, true);
  add(
      "warm-up, steps", [](Run run) { return cat(run.warm_up); }, true);
  add(
      "last step", [](Run run) { return cat(run.history.last_step()); }, true);
  add(
      "state", [](Run run) { return std::string(run.state()); }, true);
  return columns;
}

std::string table_of(const Comparison& all) {
  std::vector<Column> columns = columns_of(all);
  std::erase_if(columns, [](const Column& column) {
    return std::ranges::all_of(column.cells, [](const std::string& cell) { return cell == "-"; });
  });
  std::vector<std::string> shared;
  std::erase_if(columns, [&](const Column& column) {
    const auto& cells = column.cells;
    if (!column.shared || std::ranges::adjacent_find(cells, std::not_equal_to()) != cells.end())
      return false;
    shared.push_back(cat(column.head, ": ", cells.front()));
    return true;
  });
  std::vector<std::string> heads;
  for (const Column& column : columns) heads.push_back(column.head);
  HtmlTable table(heads);
  for (std::size_t i = 0; i < all.runs.size(); ++i) {
    std::vector<std::string> row;
    for (const Column& column : columns) row.push_back(column.cells[i]);
    table.add(row);
  }
  return table.html() + (shared.empty() ? ""
                                        : fmt::format("<p class=\"soft\">{}{}.</p>\n",
                                                      all.runs.size() == 1 ? "" : "All runs: ",
                                                      html_text(join_words(shared, "; "))));
}

}  // namespace

std::string comparison_page(const Comparison& all) {
  std::set<std::string> recipes;
  for (const ComparedRun& run : all.runs) recipes.insert(run.history.recipe.name);
  std::string title = "Podium:";
  for (const std::string& name : recipes) title += " " + name;
  std::string body = fmt::format("<h1>{}</h1>\n", html_text(title));
  for (const std::string& sentence : all.sentences)
    body += fmt::format("<p class=\"lead\">{}</p>\n", html_text(sentence));
  if (!all.findings.empty()) body += "<h2>Findings</h2>\n" + list_of(all.findings, "bad");
  body += "<h2>What differs other than the placement</h2>\n" + differences_of(all);
  body += "<h2>Runs</h2>\n" + table_of(all);
  std::vector<std::string> notes = {all.method +
                                    "; speeds are medians over the points of "
                                    "metrics.jsonl with the 10th and 90th percentile"};
  notes.insert(notes.end(), all.notes.begin(), all.notes.end());
  body += list_of(notes, "soft");
  const auto same = [](const ComparedRun&, double seconds) { return seconds; };
  const auto cost = [](const ComparedRun& run, double seconds) {
    return run.price ? run.price->usd(seconds) : kNoValue;
  };
  body += "<h2>Curves</h2>\n";
  body += plot_of(all, "steps per second over time", "seconds of training", "steps/s", " steps/s",
                  &ComparedRun::speed_curve, same);
  if (all.words && !all.words->metric.empty()) {
    const std::string name = all.words->metric_name(), head = all.words->metric_head(),
                      unit = all.words->unit;
    body +=
        plot_of(all, name + " over time", "seconds", head, unit, &ComparedRun::metric_curve, same);
    body += plot_of(all, name + " over cost", "USD", head, unit, &ComparedRun::metric_curve, cost);
  }
  return html_page(title, body);
}

}  // namespace podium
