#include "report/comparison_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report/html.h"

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
                    double (*across)(const ComparedRun&, double), double up) {
  Plot plot{.title = title, .x_title = x, .y_title = y, .lines = {}, .unit = unit};
  const std::size_t lines = std::min(all.runs.size(), kMostLines);
  const std::size_t most =
      std::clamp<std::size_t>(kMostPoints / std::max<std::size_t>(lines, 1), 50, 600);
  bool any = false;
  for (std::size_t i = 0; i < lines; ++i) {
    const ComparedRun& run = all.runs[i];
    PlotLine line{.label = name_of(all, run), .points = {}};
    for (const auto& [time, value] : thinned(run.*curve, most)) {
      line.points.emplace_back(across(run, time), up * value);
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

std::string differences_of(const Comparison& all) {
  if (all.differences.empty()) return "<p>The runs differ only in their placement.</p>\n";
  std::string html;
  if (all.different_trainings)
    html +=
        "<p class=\"bad\">This is a comparison between different trainings: the mathematics "
        "differs.</p>\n";
  std::vector<std::string> heads = {"differs"};
  for (const ComparedRun& run : all.runs) heads.push_back(run.history.folder.string());
  HtmlTable table(heads);
  for (const Difference& difference : all.differences) {
    std::vector<std::string> row = {difference.what};
    row.insert(row.end(), difference.values.begin(), difference.values.end());
    table.add(row, difference.mathematics ? "bad" : "");
  }
  return html + table.html();
}

std::string table_of(const Comparison& all) {
  std::vector<std::string> heads = {"run",        "placement",   "device",    "steps/s",
                                    "10% to 90%", "images/s",    "n, points", "warm-up, steps",
                                    "steps",      "accuracy, %", "time, s",   "cost, USD",
                                    "price of"};
  for (const double target : all.targets) {
    heads.push_back(fmt::format("to {:g}%, s", 100 * target));
    heads.push_back(fmt::format("to {:g}%, USD", 100 * target));
  }
  for (const char* head : {"input wait, %", "peak memory, MiB", "energy, J", "state"})
    heads.emplace_back(head);
  HtmlTable table(heads);
  for (const ComparedRun& run : all.runs) {
    const auto& tests = run.history.course.tests;
    std::vector<std::string> row = {
        run.history.folder.string(),
        run.placement,
        run.device.empty() ? "unknown" : run.device,
        html_number(run.steps_per_second.median),
        run.steps_per_second.n == 0 ? "-"
                                    : html_number(run.steps_per_second.low) + " to " +
                                          html_number(run.steps_per_second.high),
        html_number(run.images_per_second.median),
        std::to_string(run.steps_per_second.n),
        std::to_string(run.warm_up),
        std::to_string(run.history.last_step()),
        html_number(tests.empty() ? kNoValue : 100 * tests.back().accuracy),
        html_number(run.seconds),
        html_number(run.usd, 3),
        run.price ? run.price->text() : "none chosen"};
    for (std::size_t i = 0; i < all.targets.size(); ++i) {
      row.push_back(html_number(run.seconds_to[i]));
      row.push_back(html_number(run.usd_to[i], 3));
    }
    row.push_back(html_number(run.input_wait_percent, 3));
    row.push_back(run.peak_memory_bytes == 0
                      ? "-"
                      : html_number(static_cast<double>(run.peak_memory_bytes) / (1 << 20)));
    row.push_back(run.joules ? html_number(*run.joules) : "not reported by the machine");
    row.push_back(run.state());
    table.add(row);
  }
  return table.html();
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
                  &ComparedRun::speed_curve, same, 1);
  body += plot_of(all, "accuracy over time", "seconds", "accuracy, %", "%",
                  &ComparedRun::accuracy_curve, same, 100);
  body += plot_of(all, "accuracy over cost", "USD", "accuracy, %", "%",
                  &ComparedRun::accuracy_curve, cost, 100);
  return html_page(title, body);
}

}  // namespace podium
