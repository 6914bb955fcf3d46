// podium compare: runs side by side: in which keys their recipes differ, how accurate they are, how
// fast they were; and their curves in one plot.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/json_text.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "report/history.h"
#include "report/plot.h"
#include "train/file_io.h"
#include "train/recipe_keys.h"
#include "train/run_folder.h"

namespace podium {
namespace {

struct CompareArguments {
  std::vector<std::string> runs;
  std::string plot, measure = "test-accuracy", title;
  bool json = false, force = false;
};

// What a curve can be of, by the word that asks for it.
struct Measure {
  const char* name;
  const char* title;  // of the axis; what stands before the comma, of the plot
  double (*training)(const TrainingPoint&);  // null: it is one of tests
  double (*test)(const TestPoint&);
};
constexpr Measure kMeasures[] = {
    {"test-accuracy", "test accuracy, %", nullptr,
     [](const TestPoint& p) { return 100 * p.accuracy; }},
    {"test-loss", "test loss", nullptr, [](const TestPoint& p) { return p.loss; }},
    {"accuracy", "accuracy of training batches, %",
     [](const TrainingPoint& p) { return 100 * p.accuracy; }, nullptr},
    {"loss", "loss of training batches", [](const TrainingPoint& p) { return p.loss; }, nullptr},
    {"images-per-second", "images per second",
     [](const TrainingPoint& p) { return p.images_per_second; }, nullptr},
};

std::vector<const RecipeKey*> differing_keys(const std::vector<RunHistory>& runs) {
  std::vector<const RecipeKey*> keys;
  std::size_t groups = 0;
  for (const RunHistory& run : runs) groups = std::max(groups, run.recipe.optimizer_groups.size());
  for (const RecipeKey& key : recipe_keys(groups)) {
    if (!key.decides_result) continue;
    const std::string first = value_text(key, runs.front().recipe);
    if (std::ranges::any_of(
            runs, [&](const RunHistory& run) { return value_text(key, run.recipe) != first; }))
      keys.push_back(&key);
  }
  return keys;
}

// More columns than these tell a reader nothing.
constexpr std::size_t kMostKeys = 8;

// For people, who need no quotes.
std::string plain_value(const RecipeKey& key, const RunHistory& run) {
  const std::string text = value_text(key, run.recipe);
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') continue;
    if (text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == '"' || text[i + 1] == '\\')) ++i;
    plain += text[i];
  }
  return plain;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

double epoch_of(const RunHistory& run, std::int64_t step) {
  return static_cast<double>(step) / static_cast<double>(steps_per_epoch(run.recipe));
}

// Of what the steps recorded: NaN where there are none.
double median_speed(const RunHistory& run) {
  std::vector<double> speeds;
  for (const TrainingPoint& point : run.course.training) {
    if (std::isfinite(point.images_per_second)) speeds.push_back(point.images_per_second);
  }
  if (speeds.empty()) return std::nan("");
  const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2);
  std::ranges::nth_element(speeds, middle);
  return *middle;
}

// Step 0 and NaN before the first.
constexpr TestPoint kNoTest = {.accuracy = std::numeric_limits<double>::quiet_NaN(),
                               .loss = std::numeric_limits<double>::quiet_NaN()};
TestPoint best_test(const RunHistory& run) {
  TestPoint best = kNoTest;
  for (const TestPoint& point : run.course.tests)
    if (!(point.accuracy <= best.accuracy)) best = point;
  return best;
}
TestPoint last_test(const RunHistory& run) {
  return run.course.tests.empty() ? kNoTest : run.course.tests.back();
}

// What belongs to another step than the run's last is shown with its own.
std::string at_step(const RunHistory& run, const std::string& text, std::int64_t step) {
  return step == 0 || step == run.last_step() ? text : cat(text, " (step ", step, ")");
}

// What sets a run apart: its values of the keys that differ; its folder where none does, or many.
std::string label_of(const RunHistory& run, const std::vector<const RecipeKey*>& keys) {
  if (keys.size() > kMostKeys) return run.folder.string();
  std::string text;
  for (const RecipeKey* key : keys)
    text += cat(text.empty() ? "" : ", ", key->path(), " = ", plain_value(*key, run));
  return text.empty() ? run.folder.string() : text;
}

PlotLine curve_of(const RunHistory& run, const Measure& measure, const std::string& label) {
  PlotLine line{.label = label, .points = {}};
  if (measure.test != nullptr) {
    for (const TestPoint& point : run.course.tests)
      line.points.emplace_back(epoch_of(run, point.step), measure.test(point));
  } else {
    for (const TrainingPoint& point : run.course.training)
      line.points.emplace_back(epoch_of(run, point.step), measure.training(point));
  }
  return line;
}

// "mnist, glyphs: test accuracy".
std::string title_of(const std::vector<RunHistory>& runs, const Measure& measure) {
  std::vector<std::string> names;
  for (const RunHistory& run : runs)
    if (std::ranges::find(names, run.recipe.name) == names.end()) names.push_back(run.recipe.name);
  const std::string_view axis = measure.title;
  return cat(join_words(names), ": ", axis.substr(0, axis.find(',')));
}

void write_plot(const CompareArguments& arguments, const std::vector<RunHistory>& runs,
                const std::vector<const RecipeKey*>& keys) {
  const auto* measure = std::ranges::find_if(
      kMeasures, [&](const Measure& m) { return arguments.measure == m.name; });
  Plot plot{.title = arguments.title.empty() ? title_of(runs, *measure) : arguments.title,
            .x_title = "epoch",
            .y_title = measure->title,
            .lines = {}};
  for (const RunHistory& run : runs)
    plot.lines.push_back(curve_of(run, *measure, label_of(run, keys)));
  replace_text(arguments.plot, svg_of(plot));
}

void print(const std::vector<RunHistory>& runs, const std::vector<const RecipeKey*>& keys) {
  const bool many = keys.size() > kMostKeys;
  std::vector<const RecipeKey*> shown;
  if (!many) shown = keys;
  std::vector<std::string> head{"RUN"};
  if (many) head.emplace_back("RECIPE");
  for (const RecipeKey* key : shown) head.push_back(upper(key->path()));
  for (const char* title :
       {"STEP", "EPOCH", "TEST ACCURACY", "BEST", "TEST LOSS", "IMAGES/S, MEDIAN", "PARAMETERS"})
    head.emplace_back(title);
  Table table(head);
  for (const RunHistory& run : runs) {
    const std::int64_t step = run.last_step(), total = total_steps(run.recipe);
    const TestPoint last = last_test(run);
    std::vector<std::string> row{run.folder.string()};
    if (many) row.push_back(run.recipe.name);
    for (const RecipeKey* key : shown) row.push_back(plain_value(*key, run));
    row.push_back(cat(step));
    const auto epochs = [&](std::int64_t steps) {
      return number_text(std::round(10 * epoch_of(run, steps)) / 10);
    };
    row.push_back(cat(epochs(step), step < total ? cat(" of ", epochs(total)) : ""));
    const TestPoint best = best_test(run);
    row.push_back(at_step(run, percent(last.accuracy), last.step));
    row.push_back(at_step(run, percent(best.accuracy), best.step));
    row.push_back(at_step(run, fixed(last.loss, 4), last.step));
    row.push_back(fixed(median_speed(run), 0));
    row.push_back(run.hashes.empty()
                      ? "-"
                      : at_step(run, run.hashes.rbegin()->second, run.hashes.rbegin()->first));
    table.add(row);
  }
  std::cout << table.text();
  if (many) std::cout << "their recipes differ in " << keys.size() << " keys; --json names them\n";
}

nlohmann::ordered_json to_json(const std::vector<RunHistory>& runs,
                               const std::vector<const RecipeKey*>& keys) {
  auto all = nlohmann::ordered_json::array();
  for (const RunHistory& run : runs) {
    const TestPoint last = last_test(run), best = best_test(run);
    const auto step_or_null = [](std::int64_t step) {
      return step == 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(step);
    };
    // NaN is written as null. Accuracies and hashes have steps of their own: a run that was stopped
    // between evaluations has no accuracy at its last step.
    nlohmann::ordered_json json = {{"run", run.folder.string()},
                                   {"recipe", run.recipe.name},
                                   {"differs", nlohmann::ordered_json::object()},
                                   {"step", run.last_step()},
                                   {"total_steps", total_steps(run.recipe)},
                                   {"epoch", epoch_of(run, run.last_step())},
                                   {"test_step", step_or_null(last.step)},
                                   {"test_accuracy", last.accuracy},
                                   {"test_loss", last.loss},
                                   {"best_test_step", step_or_null(best.step)},
                                   {"best_test_accuracy", best.accuracy},
                                   {"images_per_second", median_speed(run)},
                                   {"parameter_hash_step", nullptr},
                                   {"parameter_hash", nullptr},
                                   {"tests", nlohmann::ordered_json::array()}};
    for (const RecipeKey* key : keys) json["differs"][key->path()] = value_text(*key, run.recipe);
    if (!run.hashes.empty()) {
      json["parameter_hash_step"] = run.hashes.rbegin()->first;
      json["parameter_hash"] = run.hashes.rbegin()->second;
    }
    for (const TestPoint& point : run.course.tests)
      json["tests"].push_back(
          {{"step", point.step}, {"accuracy", point.accuracy}, {"loss", point.loss}});
    all.push_back(json);
  }
  return all;
}

ExitCode compare(const CompareArguments& arguments) {
  if (!arguments.plot.empty()) require_writable(arguments.plot, "--plot", arguments.force);
  std::vector<RunHistory> runs;
  for (const std::string& folder : arguments.runs) {
    // `compare runs/*` meets plots, notes and the folder of a band: what exists and is no run.
    std::error_code ignored;
    if (std::filesystem::exists(folder, ignored) && !holds_run(folder))
      say(cat(folder, ": skipped, since it is not a run's folder: it has no recipe.toml",
              std::filesystem::exists(std::filesystem::path(folder) / "band.json", ignored)
                  ? cat(" (the runs of this band are ", folder, "/seed-*)")
                  : ""));
    else
      runs.push_back(read_history(folder));
  }
  PODIUM_REQUIRE(!runs.empty(), ExitCode::kData,
                 "none of these is a run's folder; `podium train RECIPE --out DIR` makes one");
  const std::vector<const RecipeKey*> keys = differing_keys(runs);
  if (arguments.json)
    std::cout << json_text(to_json(runs, keys)) << "\n";
  else
    print(runs, keys);
  if (!arguments.plot.empty()) write_plot(arguments, runs, keys);
  return ExitCode::kDone;
}

}  // namespace

void add_compare_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command =
      add_command(app, line, "compare", "Compares runs: recipes, accuracy, speed, curves",
                  {"podium compare runs/a runs/b",
                   "podium compare runs/* --plot curves.svg --measure test-accuracy"},
                  [arguments] { return compare(*arguments); });
  std::vector<std::string> measures;
  for (const Measure& measure : kMeasures) measures.emplace_back(measure.name);
  command
      ->add_option("RUN", arguments->runs,
                   "Folders of runs, finished or not; other files and folders are skipped")
      ->required();
  command->add_option("--plot", arguments->plot, "SVG file for their curves");
  command->add_option("--measure", arguments->measure, "Quantity that the curves show")
      ->check(CLI::IsMember(measures))
      ->capture_default_str();
  command->add_option("--title", arguments->title,
                      "Title of the plot; default: the recipe and the quantity");
  add_force_flag(*command, arguments->force);
  command->add_flag("--json", arguments->json, "Write one JSON array, with every test");
}

}  // namespace podium
