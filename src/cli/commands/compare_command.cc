// podium compare: runs side by side: what differs beside their placement, how accurate they are,
// how fast they were, what they cost; as a table, as JSON, as a page, and their curves in one plot.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "base/json_text.h"
#include "base/numerics/hash.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/output_file.h"
#include "cli/placement_flags.h"
#include "cli/placement_runs.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "files/byte_text.h"
#include "files/file_io.h"
#include "report/history.h"
#include "report/pages/comparison_page.h"
#include "report/pages/plot.h"
#include "train/machine/memory.h"
#include "train/recipe/recipe_keys.h"
#include "train/run/run_folder.h"

namespace podium {
namespace {

struct CompareArguments {
  std::vector<std::string> runs;
  std::string plot, measure, title, html;
  std::string placements, out, launcher = "mpirun", data_dir;
  std::int64_t steps = 0, warm_up = -1;
  std::vector<double> targets;
  std::string price, method = "own";
  bool json = false, force = false;
};

// What a curve can be of, by the word that asks for it.
struct Measure {
  std::string name;
  std::string title;  // of the axis; what stands before the comma, of the plot
  std::function<double(const TrainingPoint&)> training;  // none: it is one of tests
  std::function<double(const TestPoint&)> test = {};
};

std::string hyphenated(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

// Of a task; the first is the default.
std::vector<Measure> measures_of(const TaskWords& words) {
  std::vector<Measure> measures;
  const std::string name = hyphenated(words.metric), head = words.metric_head();
  if (!words.metric.empty())
    measures.push_back({"test-" + name, "test " + head, {}, [words](const TestPoint& p) {
                          return words.shown(p.metric);
                        }});
  measures.push_back({"test-loss", "test loss", {}, [](const TestPoint& p) { return p.loss; }});
  if (!words.metric.empty())
    measures.push_back({name,
                        cat(words.metric_name(), " of training batches",
                            words.unit.empty() ? "" : ", " + words.unit),
                        [words](const TrainingPoint& p) { return words.shown(p.metric); }});
  measures.push_back(
      {"loss", "loss of training batches", [](const TrainingPoint& p) { return p.loss; }});
  measures.push_back({hyphenated(words.rate_key()), words.item + "s per second",
                      [](const TrainingPoint& p) { return p.items_per_second; }});
  return measures;
}

// The measure that --plot draws. Throws UserError(kUsage), which names those that the runs have.
Measure measure_of(const Comparison& all, const std::string& name) {
  PODIUM_REQUIRE(all.words.has_value(), ExitCode::kUsage,
                 "these runs are judged by several metrics; plot the runs of one task at a "
                 "time");
  const std::vector<Measure> measures = measures_of(*all.words);
  if (name.empty()) return measures.front();
  std::vector<std::string> names;
  for (const Measure& measure : measures) {
    if (measure.name == name) return measure;
    names.push_back(measure.name);
  }
  throw UserError(cat("--measure ", name, ": these runs have ", join_words(names),
                      "; did you mean ", nearest_word(name, names), "?"));
}

std::vector<const RecipeKey*> differing_keys(const std::vector<ComparedRun>& runs) {
  std::vector<const RecipeKey*> keys;
  std::size_t groups = 0;
  for (const ComparedRun& run : runs)
    groups = std::max(groups, run.history.recipe.optimizer_groups.size());
  for (const RecipeKey& key : recipe_keys(groups)) {
    if (!key.decides_result) continue;
    const std::string first = value_text(key, runs.front().history.recipe);
    if (std::ranges::any_of(runs, [&](const ComparedRun& run) {
          return value_text(key, run.history.recipe) != first;
        }))
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

// Step 0 and NaN before the first.
constexpr TestPoint kNoTest = {.metric = std::numeric_limits<double>::quiet_NaN(),
                               .loss = std::numeric_limits<double>::quiet_NaN()};
TestPoint best_test(const ComparedRun& run) {
  TestPoint best = kNoTest;
  for (const TestPoint& point : run.history.course.tests)
    if (run.words.is_better(point.metric, best.metric)) best = point;
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
std::string distinction_of(const RunHistory& run, const std::vector<const RecipeKey*>& keys) {
  if (keys.size() > kMostKeys) return run.folder.string();
  std::string text;
  for (const RecipeKey* key : keys)
    text += cat(text.empty() ? "" : ", ", key->path(), " = ", plain_value(*key, run));
  return text.empty() ? run.folder.string() : text;
}

PlotLine curve_of(const RunHistory& run, const Measure& measure, const std::string& name) {
  PlotLine line{.name = name, .points = {}};
  if (measure.test) {
    for (const TestPoint& point : run.course.tests)
      line.points.emplace_back(epoch_of(run, point.step), measure.test(point));
  } else {
    for (const TrainingPoint& point : run.course.training)
      line.points.emplace_back(epoch_of(run, point.step), measure.training(point));
  }
  return line;
}

// "mnist, glyphs: test accuracy".
std::string title_of(const std::vector<ComparedRun>& runs, const Measure& measure) {
  std::vector<std::string> names;
  for (const ComparedRun& run : runs) {
    const std::string& name = run.history.recipe.name;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  const std::string_view axis = measure.title;
  return cat(join_words(names), ": ", axis.substr(0, axis.find(',')));
}

void write_plot(const CompareArguments& arguments, const Measure& measure,
                const std::vector<ComparedRun>& runs, const std::vector<const RecipeKey*>& keys) {
  Plot plot{.title = arguments.title.empty() ? title_of(runs, measure) : arguments.title,
            .x_title = "epoch",
            .y_title = measure.title,
            .lines = {},
            .unit = measure.title.ends_with('%') ? "%" : ""};
  for (const ComparedRun& run : runs)
    plot.lines.push_back(curve_of(run.history, measure, distinction_of(run.history, keys)));
  replace_text(arguments.plot, svg_of(plot));
}

// Red where a person reads it.
std::string alarming(const std::string& text) {
  return isatty(STDOUT_FILENO) == 1 ? "\x1b[31;1m" + text + "\x1b[0m" : text;
}

void print_differences(const Comparison& all) {
  for (const std::string& finding : all.findings)
    std::cout << alarming("FINDING: " + printable(finding)) << "\n";
  if (all.different_trainings)
    std::cout << alarming("different trainings: the mathematics of these runs differs") << "\n";
  for (const Difference& difference : all.differences) {
    std::cout << "differs: " << difference.what << ": ";
    // Each value once, with the number of runs that have it.
    std::vector<std::pair<std::string, int>> values;
    for (const std::string& value : difference.values) {
      const auto known = std::ranges::find(values, value, &std::pair<std::string, int>::first);
      if (known == values.end())
        values.emplace_back(value, 1);
      else
        ++known->second;
    }
    const char* between = "";
    for (std::size_t i = 0; i < values.size() && i < 8; ++i) {
      std::cout << between << printable(values[i].first)
                << (values[i].second == 1 ? "" : cat(" (", values[i].second, " runs)"));
      between = " | ";
    }
    if (values.size() > 8) std::cout << " | and " << values.size() - 8 << " more";
    std::cout << "\n";
  }
  if (!all.findings.empty() || !all.differences.empty()) std::cout << "\n";
}

void print_results(const Comparison& all, const std::vector<const RecipeKey*>& keys) {
  const std::vector<ComparedRun>& runs = all.runs;
  const bool many = keys.size() > kMostKeys;
  std::vector<const RecipeKey*> shown;
  if (!many) shown = keys;
  std::vector<std::string> head{"RUN"};
  if (many) head.emplace_back("RECIPE");
  for (const RecipeKey* key : shown) head.push_back(upper(key->path()));
  const bool same_items = all.same_item();
  const std::string metric = all.words ? all.words->metric_name() : "metric";
  for (const std::string& title :
       {std::string("STEP"), std::string("EPOCH"), upper("test " + metric), std::string("BEST"),
        std::string("TEST LOSS"), upper(all.rate_unit() + ", median"), std::string("PARAMETERS")})
    head.push_back(title);
  Table table(head);
  for (const ComparedRun& compared : runs) {
    const RunHistory& run = compared.history;
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
    const TestPoint best = best_test(compared);
    const auto metric_text = [&](double value) {
      return all.words || !std::isfinite(value)
                 ? compared.words.metric_text(value)
                 : cat(compared.words.metric_name(), " ", compared.words.metric_text(value));
    };
    row.push_back(at_step(run, metric_text(last.metric), last.step));
    row.push_back(at_step(run, metric_text(best.metric), best.step));
    row.push_back(at_step(run, fixed(last.loss, 4), last.step));
    row.push_back(cat(fixed(compared.items_per_second.median, 0),
                      same_items ? "" : " " + compared.words.rate_unit()));
    row.push_back(run.hashes.empty()
                      ? "-"
                      : at_step(run, hash_text(run.hashes.back().second), run.hashes.back().first));
    table.add(row);
  }
  std::cout << table.text();
  if (many) std::cout << "their recipes differ in " << keys.size() << " keys; --json names them\n";
}

std::string seconds_text(double seconds) {
  return std::isfinite(seconds) ? fixed(seconds, seconds < 100 ? 2 : 0) : "-";
}

void print_speeds(const Comparison& all) {
  std::vector<std::string> head = {"RUN",        "PLACEMENT", "STEPS/S",
                                   "10% TO 90%", "POINTS",    "TIME, S"};
  for (const double target : all.targets)
    head.push_back(upper("to " + target_text(all, target)) + ", S");
  bool priced = false, energy = false;
  for (const ComparedRun& run : all.runs) {
    priced = priced || run.price;
    energy = energy || run.joules;
  }
  if (priced) {
    head.emplace_back("COST, USD");
    for (const double target : all.targets)
      head.push_back(upper("to " + target_text(all, target)) + ", USD");
    head.emplace_back("PRICE OF");
  }
  head.insert(head.end(), {"INPUT WAIT, %", "MEMORY"});
  if (energy) head.emplace_back("ENERGY, J");
  head.emplace_back("");
  Table table(head);
  const auto usd = [](double value) {
    const std::string text = usd_text(value);
    return text.substr(0, text.find(' '));
  };
  for (const ComparedRun& run : all.runs) {
    const Spread& speed = run.steps_per_second;
    const auto digits = [](double v) { return v >= 100 ? 0 : v >= 10 ? 1 : 2; };
    std::vector<std::string> row = {
        run.history.folder.string(),
        run.placement,
        fixed(speed.median, digits(speed.median)),
        speed.n == 0 ? "-"
                     : cat(fixed(speed.low, digits(speed.low)), " to ",
                           fixed(speed.high, digits(speed.high))),
        cat(speed.n),
        cat(seconds_text(run.seconds), run.whole_time || all.pods ? "" : " (steps alone)")};
    for (const double seconds : run.seconds_to) row.push_back(seconds_text(seconds));
    if (priced) {
      row.push_back(usd(run.usd));
      for (const double cost : run.usd_to) row.push_back(usd(cost));
      row.push_back(run.price ? run.price->text() : "-");
    }
    row.push_back(fixed(run.input_wait_percent, 1));
    row.push_back(run.peak_memory_bytes == 0 ? "-" : format_bytes(run.peak_memory_bytes));
    if (energy) row.push_back(run.joules ? fixed(*run.joules, 0) : "-");
    row.push_back(run.counted && run.finished ? "" : run.state());
    table.add(row);
  }
  std::cout << "\n" << table.text() << "\n";
}

void print(const Comparison& all, const std::vector<const RecipeKey*>& keys) {
  print_differences(all);
  print_results(all, keys);
  print_speeds(all);
  for (const std::string& sentence : all.sentences) std::cout << printable(sentence) << "\n";
  std::cout << "(" << all.method << ")\n";
  for (const std::string& note : all.notes) std::cout << "note: " << printable(note) << "\n";
}

nlohmann::ordered_json to_json(const Spread& spread) {
  return {{"n", spread.n},
          {"median", spread.median},
          {"tenth", spread.low},
          {"nine_tenths", spread.high}};
}

nlohmann::ordered_json to_json(const Comparison& comparison,
                               const std::vector<const RecipeKey*>& keys) {
  auto all = nlohmann::ordered_json::array();
  for (const ComparedRun& compared : comparison.runs) {
    const RunHistory& run = compared.history;
    const TestPoint last = last_test(run), best = best_test(compared);
    const TaskWords& words = compared.words;
    const std::string metric = words.metric.empty() ? "metric" : words.metric;
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
                                   {"test_" + metric, last.metric},
                                   {"test_loss", last.loss},
                                   {"best_test_step", step_or_null(best.step)},
                                   {"best_test_" + metric, best.metric},
                                   {words.rate_key(), compared.items_per_second.median},
                                   {"placement", compared.placement},
                                   {"device", compared.device},
                                   {"kind", compared.kind},
                                   {"warm_up_steps", compared.warm_up},
                                   {"speeds",
                                    {{"steps_per_second", to_json(compared.steps_per_second)},
                                     {words.rate_key(), to_json(compared.items_per_second)}}},
                                   {"seconds", compared.seconds},
                                   {"train_seconds", compared.train_seconds},
                                   {"whole_time", compared.whole_time},
                                   {"input_wait_percent", compared.input_wait_percent},
                                   {"peak_memory_bytes", compared.peak_memory_bytes},
                                   {"joules", compared.joules.value_or(kNoValue)},
                                   {"usd", compared.usd},
                                   {"price", nullptr},
                                   {"price_date", nullptr},
                                   {"seconds_to_target", compared.seconds_to},
                                   {"usd_to_target", compared.usd_to},
                                   {"finished", compared.finished},
                                   {"failure", nullptr},
                                   {"counted", compared.counted},
                                   {"parameter_hash_step", nullptr},
                                   {"parameter_hash", nullptr},
                                   {"tests", nlohmann::ordered_json::array()}};
    for (const RecipeKey* key : keys) json["differs"][key->path()] = value_text(*key, run.recipe);
    if (!run.hashes.empty()) {
      json["parameter_hash_step"] = run.hashes.back().first;
      json["parameter_hash"] = hash_text(run.hashes.back().second);
    }
    for (const TestPoint& point : run.course.tests)
      json["tests"].push_back({{"step", point.step}, {metric, point.metric}, {"loss", point.loss}});
    if (!compared.failure.empty()) json["failure"] = compared.failure;
    if (compared.price) {
      json["price"] = compared.price->text();
      json["price_date"] = compared.price->price.date;
    }
    all.push_back(json);
  }
  auto differences = nlohmann::ordered_json::array();
  for (const Difference& difference : comparison.differences)
    differences.push_back({{"what", difference.what},
                           {"values", difference.values},
                           {"mathematics", difference.mathematics}});
  return {{"method", comparison.method},   {"different_trainings", comparison.different_trainings},
          {"differences", differences},    {"findings", comparison.findings},
          {"notes", comparison.notes},     {"summary", comparison.sentences},
          {"targets", comparison.targets}, {"runs", all}};
}

// With --placements: RECIPE [OVERRIDE ...] in place of folders.
MadeRuns make_runs(const CompareArguments& arguments) {
  PlacementRuns runs{.recipe = arguments.runs.front(),
                     .overrides = {arguments.runs.begin() + 1, arguments.runs.end()},
                     .placements = parse_placements(arguments.placements),
                     .train_flags = {},
                     .out = arguments.out,
                     .launcher = arguments.launcher};
  const Recipe recipe = read_named_recipe(runs.recipe, runs.overrides, arguments.data_dir);
  if (runs.out.empty()) runs.out = cat("runs/compare-", recipe.name, "-seed", recipe.seed);
  if (arguments.steps != 0)
    runs.train_flags.insert(runs.train_flags.end(), {"--steps", cat(arguments.steps)});
  if (!arguments.data_dir.empty())
    runs.train_flags.insert(runs.train_flags.end(), {"--data-dir", arguments.data_dir});
  if (!arguments.price.empty())
    runs.train_flags.insert(runs.train_flags.end(), {"--price", arguments.price});
  return run_placements(runs);
}

ExitCode compare(const CompareArguments& arguments) {
  if (!arguments.plot.empty()) require_writable(arguments.plot, "--plot", arguments.force);
  if (!arguments.html.empty()) require_writable(arguments.html, "--html", arguments.force);
  PODIUM_REQUIRE(!arguments.placements.empty() || (arguments.steps == 0 && arguments.out.empty()),
                 ExitCode::kUsage,
                 "--steps and --out apply only to runs that this command makes; add --placements "
                 "\"workers=1;workers=2\"");
  CompareOptions options{.method = arguments.method == "pods" ? Method::kPods : Method::kOwn,
                         .warm_up = arguments.warm_up,
                         .targets = arguments.targets};
  if (!arguments.price.empty()) options.price = choose_price(arguments.price, known_prices());
  const MadeRuns made =
      arguments.placements.empty() ? MadeRuns{.folders = arguments.runs} : make_runs(arguments);
  std::vector<RunHistory> runs;
  for (const std::string& folder : made.folders) {
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
  if (runs.empty() && !made.failure.empty()) throw UserError(made.failure, made.code);
  PODIUM_REQUIRE(!runs.empty(), ExitCode::kData,
                 "none of these is a run's folder; `podium train RECIPE --out DIR` makes one");
  const Comparison comparison = compare_runs(std::move(runs), options);
  const std::vector<const RecipeKey*> keys = differing_keys(comparison.runs);
  std::optional<Measure> measure;
  if (!arguments.plot.empty() || !arguments.measure.empty())
    measure = measure_of(comparison, arguments.measure);
  if (arguments.json)
    std::cout << json_text(to_json(comparison, keys)) << "\n";
  else
    print(comparison, keys);
  if (!arguments.plot.empty()) write_plot(arguments, *measure, comparison.runs, keys);
  if (!arguments.html.empty()) replace_text(arguments.html, comparison_page(comparison));
  if (!made.failure.empty()) throw UserError(made.failure, made.code);
  return ExitCode::kDone;
}

}  // namespace

void add_compare_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command =
      add_command(app, line, "compare", "Compares runs: recipes, results, speed, cost, curves",
                  {"podium compare runs/* --html comparison.html --plot curves.svg",
                   "podium compare mnist --placements \"workers=1;workers=2\" --steps 500"},
                  [arguments] { return compare(*arguments); });
  command
      ->add_option("RUN", arguments->runs,
                   "Folders of runs, finished or not; other files and folders are skipped. With "
                   "--placements: a recipe and its overrides")
      ->required();
  command->add_option("--placements", arguments->placements,
                      "First run the recipe with these placements, one after the other, as in "
                      "\"workers=1;workers=2,threads=2;ranks=2\"");
  command->add_option("--steps", arguments->steps, "With --placements: number of steps of each run")
      ->check(at_least(1), "POSITIVE");
  command->add_option("--out", arguments->out,
                      "With --placements: folder of the runs; default: runs/compare-RECIPE-seedN");
  command
      ->add_option(
          "--launcher", arguments->launcher,
          "With --placements: program that starts ranks, as LAUNCHER -n N podium train ...")
      ->capture_default_str();
  add_data_dir_flag(*command, arguments->data_dir);
  command->add_option("--price", arguments->price,
                      "Price of the machine for all runs (`podium prices`); default: what each run "
                      "recorded");
  command
      ->add_option("--target", arguments->targets,
                   "Value of the metric whose time and cost are shown, such as 99 for an accuracy "
                   "of 99%; may be repeated; default: round percentages that were reached")
      ->allow_extra_args(false);
  command
      ->add_option("--method", arguments->method,
                   "own: the time of the whole command; pods: without the first epoch, start-up "
                   "and evaluation, and without runs below --target")
      ->check(CLI::IsMember({"own", "pods"}))
      ->capture_default_str();
  command
      ->add_option("--warm-up", arguments->warm_up,
                   "Steps that are left out of speeds; default: a tenth of a run, or an epoch with "
                   "--method pods")
      ->check(at_least(0), "NONNEGATIVE");
  command->add_option("--html", arguments->html, "HTML file for the comparison, self-contained");
  command->add_option("--plot", arguments->plot, "SVG file for the curves");
  command->add_option("--measure", arguments->measure,
                      "Quantity that the curves show, by the runs' task: test-METRIC, test-loss, "
                      "METRIC, loss or ITEMS-per-second; default: test-METRIC, as test-accuracy");
  command->add_option("--title", arguments->title,
                      "Title of the plot; default: the recipe and the quantity");
  add_force_flag(*command, arguments->force);
  command->add_flag("--json", arguments->json,
                    "Write one JSON object, with every test of every run");
}

}  // namespace podium
