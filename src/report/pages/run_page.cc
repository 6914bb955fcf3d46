#include "report/pages/run_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/words.h"
#include "files/base64.h"
#include "files/file_io.h"
#include "report/comparison.h"
#include "report/pages/html.h"
#include "report/progress.h"
#include "train/machine/memory.h"
#include "train/run/last_failure.h"

namespace podium {
namespace {

constexpr std::size_t kMostCurvePoints = 600;  // of a curve
constexpr int kRefreshSeconds = 15;
constexpr std::size_t kMostOperations = 40;  // the slowest
constexpr std::int64_t kMostClasses = 40;    // of a confusion matrix that one can still read

using Points = std::vector<std::pair<double, double>>;

Points of_training(const RunHistory& run,
                   const std::function<double(const TrainingPoint&)>& value) {
  Points points;
  for (const TrainingPoint& point : run.course.training)
    points.emplace_back(static_cast<double>(point.step), value(point));
  return points;
}

Points of_tests(const RunHistory& run, const std::function<double(const TestPoint&)>& value) {
  Points points;
  for (const TestPoint& point : run.course.tests)
    points.emplace_back(static_cast<double>(point.step), value(point));
  return points;
}

std::string plot_of(const std::string& title, const std::string& y_title, const std::string& unit,
                    std::vector<std::pair<std::string, Points>> curves) {
  Plot plot{.title = title, .x_title = "step", .y_title = y_title, .lines = {}, .unit = unit};
  for (auto& [name, points] : curves)
    if (!points.empty())
      plot.lines.push_back({.name = name, .points = thinned(points, kMostCurvePoints)});
  return plot.lines.empty() ? "" : html_plot(plot);
}

std::string curves_of(const RunPage& page) {
  const RunHistory& run = page.history;
  const TaskWords& words = page.words;
  const char* held_out = run.recipe.validation != 0 ? "held out" : "test";
  std::string html = "<h2>Curves</h2>\n";
  std::vector<std::pair<std::string, Points>> metric;
  if (!words.metric.empty()) {
    metric.emplace_back(held_out,
                        of_tests(run, [&](const TestPoint& p) { return words.shown(p.metric); }));
    if (run.course.training_metric == words.metric)
      metric.emplace_back("training batches", of_training(run, [&](const TrainingPoint& p) {
                            return words.shown(p.metric);
                          }));
  }
  html += plot_of(words.metric_name(), words.unit.empty() ? words.metric_name() : words.unit,
                  words.unit, metric);
  html += plot_of(
      "loss", "loss", "",
      {{held_out, of_tests(run, [](const TestPoint& p) { return p.loss; })},
       {"training batches", of_training(run, [](const TrainingPoint& p) { return p.loss; })}});
  if (std::ranges::any_of(run.course.tests,
                          [](const TestPoint& p) { return std::isfinite(p.bleu); }))
    html += plot_of("BLEU of translations", "BLEU", "",
                    {{held_out, of_tests(run, [](const TestPoint& p) { return p.bleu; })}});
  html += plot_of(
      "speed", words.rate_unit(), " " + words.rate_unit(),
      {{"training", of_training(run, [](const TrainingPoint& p) { return p.items_per_second; })}});
  html +=
      plot_of("waiting for input", "% of a step", "%",
              {{"input wait",
                of_training(run, [](const TrainingPoint& p) { return p.input_wait_percent; })}});
  return html;
}

// A column for each start: a run has few of them, and they have many quantities.
std::string starts_of(const std::vector<RunStart>& starts) {
  if (starts.empty()) return "";
  std::vector<std::string> heads = {"start"};
  for (std::size_t i = 1; i <= starts.size(); ++i) heads.push_back(std::to_string(i));
  HtmlTable table(heads);
  const StartOutcome none{.seconds = kNoValue,
                          .start_seconds = kNoValue,
                          .train_seconds = kNoValue,
                          .eval_seconds = kNoValue};
  const auto add = [&](const char* what, auto text_of) {
    std::vector<std::string> row = {what};
    for (const RunStart& start : starts)
      row.push_back(text_of(start, start.outcome ? *start.outcome : none));
    table.add(row);
  };
  const auto mib = [](std::int64_t bytes) {
    return bytes == 0 ? std::string("-") : html_number(static_cast<double>(bytes) / (1 << 20));
  };
  using Start = const RunStart&;
  using Outcome = const StartOutcome&;
  add("date", [](Start start, Outcome) { return start.date; });
  add("from step", [](Start start, Outcome) { return std::to_string(start.from_step); });
  add("to step", [](Start start, Outcome outcome) {
    return start.outcome ? std::to_string(outcome.to_step) : "not ended";
  });
  add("device", [](Start start, Outcome) { return start.cpu; });
  add("placement", [](Start start, Outcome) { return start.placement(); });
  add("kind of results", [](Start start, Outcome) { return start.kind; });
  add("start, s", [](Start, Outcome outcome) { return html_number(outcome.start_seconds); });
  add("steps, s", [](Start, Outcome outcome) { return html_number(outcome.train_seconds); });
  add("evaluation, s", [](Start, Outcome outcome) { return html_number(outcome.eval_seconds); });
  add("all, s", [](Start, Outcome outcome) { return html_number(outcome.seconds); });
  add("peak memory, MiB", [&](Start, Outcome outcome) { return mib(outcome.peak_memory_bytes); });
  add("planned memory, MiB",
      [&](Start, Outcome outcome) { return mib(outcome.planned_memory_bytes); });
  add("energy, J", [](Start, Outcome outcome) {
    return outcome.joules ? html_number(*outcome.joules) : "not reported by the machine";
  });
  add("cost, USD", [](Start start, Outcome outcome) {
    return start.price ? html_number(start.price->usd(outcome.seconds), 3) : "-";
  });
  add("price of",
      [](Start start, Outcome) { return start.price ? start.price->text() : "none chosen"; });
  add("build", [](Start start, Outcome) {
    return cat(start.podium_version, " ", start.git_commit.substr(0, 10));
  });
  return "<h2>Starts</h2>\n" + table.html();
}

std::string operations_of(const RunPage& page) {
  if (!page.operations || page.operations->operations.empty()) return "";
  const OperationTimes& times = *page.operations;
  const double core_seconds = times.steps.seconds * static_cast<double>(times.cores);
  double in_operations = 0, rest = 0;
  HtmlTable table(
      {"operation", "% of a step", "ms of a core, a step", "calls, a step", "GFLOP/s", "GB/s"});
  for (std::size_t i = 0; i < times.operations.size(); ++i) {
    const KernelProfile& one = times.operations[i];
    in_operations += one.seconds;
    if (i >= kMostOperations) {
      rest += one.seconds;
      continue;
    }
    const auto steps = static_cast<double>(times.steps.count);
    const auto rate = [&](double work) {
      return one.seconds > 0 ? work / one.seconds / 1e9 : kNoValue;
    };
    table.add({one.name, fmt::format("{:.2f}", 100 * one.seconds / core_seconds),
               fmt::format("{:.3f}", 1e3 * one.seconds / steps / static_cast<double>(times.cores)),
               fmt::format("{:g}", static_cast<double>(one.calls) / steps),
               html_number(one.flops > 0 ? rate(one.flops) : kNoValue),
               html_number(one.bytes > 0 ? rate(one.bytes) : kNoValue)});
  }
  std::string html = fmt::format(
      "<h2>Time of each operation</h2>\n<p class=\"soft\">From {} from step {} on, {:.4g} ms a "
      "step, on {}: {:.1f}% of the time in operations, the rest outside them (input, "
      "exchange, waiting, and the clock that times them).</p>\n",
      count_text(times.steps.count, "step"), with_commas(times.steps.first),
      1e3 * times.steps.seconds / static_cast<double>(times.steps.count),
      count_text(times.cores, "core"), 100 * in_operations / core_seconds);
  html += table.html();
  if (times.operations.size() > kMostOperations)
    html += fmt::format(
        "<p class=\"soft\">{} take {:.1f}% of a step.</p>\n",
        count_text(std::ssize(times.operations) - std::int64_t{kMostOperations}, "other operation"),
        100 * rest / core_seconds);
  return html;
}

std::string confusion_of(const RunPage& page) {
  if (!page.confusion || page.confusion->classes() == 0) return "";
  const ConfusionMatrix& counts = *page.confusion;
  const auto name = [&](std::int64_t target) {
    const auto i = static_cast<std::size_t>(target);
    return i < page.class_names.size() ? page.class_names[i] : std::to_string(target);
  };
  std::string html =
      fmt::format("<h2>Confusion matrix after step {}</h2>\n", with_commas(page.confusion_step));
  if (counts.classes() > kMostClasses) {
    struct Pair {
      std::int64_t count, target, guess;
    };
    std::vector<Pair> pairs;
    for (const auto& [place, count] : counts.cells())
      if (place.first != place.second && place.second >= 0)
        pairs.push_back({count, place.first, place.second});
    std::ranges::stable_sort(pairs, std::ranges::greater(), &Pair::count);
    HtmlTable table({"class", "taken for", "examples"});
    for (std::size_t i = 0; i < std::min<std::size_t>(pairs.size(), 40); ++i)
      table.add({name(pairs[i].target), name(pairs[i].guess), std::to_string(pairs[i].count)});
    return html + table.html();
  }
  std::vector<std::string> heads = {"class", "accuracy, %", "examples"};
  for (std::int64_t guess = 0; guess < counts.classes(); ++guess) heads.push_back(name(guess));
  HtmlTable table(heads);
  for (std::int64_t target = 0; target < counts.classes(); ++target) {
    std::vector<std::string> row = {name(target), html_number(100 * counts.accuracy(target)),
                                    std::to_string(counts.examples(target))};
    for (std::int64_t guess = 0; guess < counts.classes(); ++guess)
      row.push_back(std::to_string(counts.at(target, guess)));
    table.add(row);
  }
  return html + table.html();
}

std::string figures_of(const std::string& title, const std::vector<PageFigure>& figures) {
  if (figures.empty()) return "";
  std::string html = fmt::format("<h2>{}</h2>\n<div>", html_text(title));
  for (const PageFigure& figure : figures)
    html += fmt::format(
        "<figure><img width=\"{3}\" alt=\"{0}\" src=\"data:image/png;base64,{1}\">"
        "<figcaption{2}>{0}</figcaption></figure>\n",
        html_text(figure.caption), base64(figure.png), figure.mistaken ? " class=\"bad\"" : "",
        figure.width);
  return html + "</div>\n";
}

// A row for each token that is written, a column for each that is read, the darker the larger its
// share.
std::string attention_of(const AttentionMap& map) {
  constexpr std::size_t kSide = 18, kLeft = 110, kTop = 100, kRight = 40;
  const std::size_t columns = map.read.size(), rows = map.written.size(),
                    width = kLeft + kSide * columns + kRight, height = kTop + kSide * rows;
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" style=\"max-width:{0}px\" role=\"img\" "
      "aria-label=\"attention\" font-size=\"11\" fill=\"currentColor\">\n",
      width, height);
  for (std::size_t j = 0; j < columns; ++j)
    svg += fmt::format("<text transform=\"translate({},{}) rotate(-60)\">{}</text>\n",
                       kLeft + kSide * j + 12, kTop - 4, html_text(map.read[j]));
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t y = kTop + kSide * i;
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", kLeft - 6, y + 13,
                       html_text(map.written[i]));
    for (std::size_t j = 0; j < columns; ++j)
      svg += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill-opacity=\"{:.2f}\"/>\n",
          kLeft + kSide * j, y, kSide - 1, kSide - 1, map.shares[i * columns + j]);
  }
  return svg + "</svg>\n";
}

std::string translations_of(const RunPage& page) {
  if (page.translations.empty()) return "";
  HtmlTable table({"sentence", "translation", "reference"});
  std::string maps;
  for (const ShownTranslation& one : page.translations) {
    table.add({one.source, one.translation, one.reference}, "text");
    if (one.attention)
      maps += fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n",
                          attention_of(*one.attention), html_text(one.source));
  }
  std::string html = "<h2>Translations</h2>\n" + table.html();
  if (!maps.empty())
    html +=
        "<h2>Attention</h2>\n<p class=\"soft\">Where the last block looks in the sentence "
        "while it writes each token of the translation, over all heads.</p>\n<div>" +
        maps + "</div>\n";
  return html;
}

// "99.31% after 5,640 of 5,640 steps; 1,234 items/s (median of 20 points)".
std::string summary_of(const RunPage& page) {
  const RunHistory& run = page.history;
  std::string text;
  if (!run.course.tests.empty()) {
    const TestPoint& last = run.course.tests.back();
    const std::string of = run.recipe.validation != 0 ? "held-out" : "test";
    text += page.words.metric.empty() ? fmt::format("{} loss {:.4f}", of, last.loss)
            : page.words.unit.empty()
                ? cat(of, " ", page.words.metric_name(), " ", page.words.metric_text(last.metric))
                : cat(page.words.metric_text(last.metric), " ", of, " ", page.words.metric_name());
    text += cat(" after step ", with_commas(last.step), ", ");
  } else {
    text += "not evaluated yet, ";
  }
  text += fmt::format("{} of {} steps", with_commas(run.last_step()),
                      with_commas(total_steps(run.recipe)));
  std::vector<double> speeds;
  for (const TrainingPoint& point : run.course.training) speeds.push_back(point.items_per_second);
  const Spread speed = spread_of(speeds);
  if (speed.n > 0)
    text += fmt::format(
        ", {} {} (median of {})", with_commas(static_cast<std::int64_t>(speed.median)),
        page.words.rate_unit(), count_text(static_cast<std::int64_t>(speed.n), "point"));
  double usd = 0;
  const ChosenPrice* price = nullptr;
  bool whole = true;  // a start that was killed has no end, and the one that goes on not yet
  for (const RunStart& start : page.starts) {
    whole = whole && start.price && start.outcome;
    if (start.price && start.outcome)
      usd += start.price->usd(start.outcome->seconds), price = &*start.price;
  }
  if (price != nullptr)
    text += fmt::format(", cost {}{} ({})", whole ? "" : "at least ", usd_text(usd), price->text());
  return text + ".";
}

}  // namespace

std::string run_page(const RunPage& page) {
  const RunHistory& run = page.history;
  std::string body =
      fmt::format("<h1>{}, seed {}</h1>\n<p class=\"lead\">{}</p>\n", html_text(run.recipe.name),
                  run.recipe.seed, html_text(summary_of(page)));
  if (!run.recipe.description.empty())
    body += fmt::format("<p class=\"soft\">{}</p>\n", html_text(run.recipe.description));
  if (page.goes_on)
    body += "<p class=\"soft\">The run is in progress; this page refreshes itself.</p>\n";
  else if (!page.failure.empty())
    body += fmt::format("<p class=\"bad\">The last start ended with a failure: {}</p>\n",
                        html_text(page.failure));
  body += curves_of(page);
  body += operations_of(page);
  body += translations_of(page);
  body += confusion_of(page);
  body += figures_of("Worst mistakes", page.mistakes);
  body += figures_of("Examples", page.examples);
  body += "<h2>What was trained</h2>\n<pre>" + html_text(page.resolved) + "</pre>\n";
  body += starts_of(page.starts);
  body += "<h2>Recipe</h2>\n<pre>" + html_text(to_toml(run.recipe)) + "</pre>\n";
  return html_page(run.recipe.name + ": a run", body, page.goes_on ? kRefreshSeconds : 0);
}

RunPage read_run_page(const std::filesystem::path& run) {
  RunPage page;
  page.history = read_history(run);
  page.starts = read_starts(run);
  page.words = words_of(page.starts, page.history.course);
  page.failure = last_failure(run);
  page.resolved = read_text(run / "resolved.txt").value_or("");
  page.operations = read_operations(run);
  return page;
}

}  // namespace podium
