#include "report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <system_error>

#include "base/words.h"
#include "report/band.h"
#include "train/recipe/recipe_keys.h"
#include "train/run/last_failure.h"

namespace podium {
namespace {

double median_of(std::vector<double> values) { return spread_of(std::move(values)).median; }

std::int64_t warm_up_of(const RunHistory& run, const CompareOptions& options) {
  if (options.warm_up >= 0) return options.warm_up;
  if (options.method == Method::kPods) return steps_per_epoch(run.recipe);
  return run.last_step() / 10;
}

// `seconds` of the lines begins anew with every start; this adds them up. A start that did not come
// to its end is as long as its last line says.
class WallClock {
 public:
  explicit WallClock(const std::vector<RunStart>& starts) : starts_(starts) {}

  double at(std::int64_t step, double seconds) {
    bool anew = seconds < last_;
    while (next_ < starts_.size() && starts_[next_].from_step < step) anew = ++next_ > 1 || anew;
    if (anew && any_) before_ += last_;
    any_ = true;
    last_ = seconds;
    return before_ + seconds;
  }

 private:
  const std::vector<RunStart>& starts_;
  std::size_t next_ = 0;
  bool any_ = false;
  double last_ = 0, before_ = 0;
};

// When the window of each training point began, by its step; returns when the run ended.
double read_wall_times(const ComparedRun& run, std::map<std::int64_t, double>& began) {
  WallClock clock(run.starts);
  std::int64_t before = 0;
  double wall = 0;
  for (const TrainingPoint& point : run.history.course.training) {
    wall = clock.at(point.step, point.seconds);
    const double speed = run.history.steps_per_second(point);
    const double window = speed > 0 ? static_cast<double>(point.step - before) / speed : 0;
    began[point.step] = std::max(0.0, wall - window);
    before = point.step;
  }
  double whole = 0;
  for (const RunStart& start : run.starts)
    whole += start.outcome ? start.outcome->seconds : kNoValue;
  return std::isfinite(whole) && whole >= wall ? whole : wall;
}

void read_course(ComparedRun& run, const CompareOptions& options) {
  const RunHistory& history = run.history;
  std::vector<double> items, steps, waits;
  double trained = 0;
  std::int64_t before = 0;
  std::map<std::int64_t, double> trained_at, began;
  for (const TrainingPoint& point : history.course.training) {
    const double speed = history.steps_per_second(point);
    if (speed > 0) trained += static_cast<double>(point.step - before) / speed;
    trained_at[point.step] = trained;
    // A point stands for the steps since the one before.
    if (before >= run.warm_up && speed > 0) {
      items.push_back(point.items_per_second);
      steps.push_back(speed);
      if (std::isfinite(point.input_wait_percent)) waits.push_back(point.input_wait_percent);
    }
    if (speed > 0) run.speed_curve.emplace_back(trained, speed);
    before = point.step;
  }
  run.items_per_second = spread_of(items);
  run.steps_per_second = spread_of(steps);
  if (!waits.empty()) {
    double sum = 0;
    for (const double wait : waits) sum += wait;
    run.input_wait_percent = sum / static_cast<double>(waits.size());
  }
  if (trained > 0) run.train_seconds = trained;

  const auto& training = history.course.training;
  run.whole_time = options.method == Method::kOwn && !training.empty() &&
                   std::ranges::all_of(training, [](const TrainingPoint& point) {
                     return std::isfinite(point.seconds);
                   });
  const double end = run.whole_time ? read_wall_times(run, began) : trained;
  const auto trained_until = [&](std::int64_t step) {
    const auto after = trained_at.upper_bound(step);
    return after == trained_at.begin() ? kNoValue : std::prev(after)->second;
  };
  for (const TestPoint& test : history.course.tests) {
    // Evaluated before the next window began.
    const auto next = began.upper_bound(test.step);
    run.metric_curve.emplace_back(!run.whole_time       ? trained_until(test.step)
                                  : next == began.end() ? end
                                                        : next->second,
                                  run.words.shown(test.metric));
  }
  run.seconds = run.whole_time ? end : run.train_seconds;
}

void read_starts_of(ComparedRun& run, const CompareOptions& options) {
  run.starts = read_starts(run.history.folder);
  run.price = options.price;
  if (run.starts.empty()) {
    run.placement = "unknown placement";
    return;
  }
  std::vector<std::string> placements, kinds;
  double joules = 0;
  bool all_joules = true;
  for (const RunStart& start : run.starts) {
    if (std::ranges::find(placements, start.placement()) == placements.end())
      placements.push_back(start.placement());
    if (std::ranges::find(kinds, start.kind) == kinds.end()) kinds.push_back(start.kind);
    if (start.outcome) {
      run.peak_memory_bytes = std::max(run.peak_memory_bytes, start.outcome->peak_memory_bytes);
      if (start.outcome->joules) {
        joules += *start.outcome->joules;
        run.joules_of = start.outcome->joules_of;
      }
    }
    all_joules = all_joules && start.outcome && start.outcome->joules;
  }
  const RunStart& last = run.starts.back();
  run.placement = join_words(placements, ", then ");
  run.device = last.cpu;
  run.kind = join_words(kinds, ", then ");
  if (all_joules)
    run.joules = joules;
  else
    run.joules_of.clear();
  if (!run.price) run.price = last.price;
}

// Of shares in percent, the last two round ones that were reached; of other metrics, which have no
// round values, none.
std::vector<double> targets_of(const Comparison& all) {
  if (!all.words || all.words->unit != "%" || !all.words->more_is_better) return {};
  constexpr double kRound[] = {0.1,  0.2,   0.3,   0.4,   0.5,   0.6,   0.7,   0.759, 0.8,
                               0.85, 0.9,   0.92,  0.94,  0.95,  0.96,  0.97,  0.98,  0.985,
                               0.99, 0.992, 0.993, 0.994, 0.995, 0.996, 0.997, 0.998, 0.999};
  double best = 0;
  for (const ComparedRun& run : all.runs)
    for (const TestPoint& test : run.history.course.tests) best = std::max(best, test.metric);
  std::vector<double> reached;
  for (const double target : kRound)
    if (target <= best) reached.push_back(100 * target);
  if (reached.size() > 2) reached.erase(reached.begin(), reached.end() - 2);
  return reached;
}

void find_targets(ComparedRun& run, const std::vector<double>& targets) {
  if (run.price) run.usd = run.price->usd(run.seconds);
  for (const double target : targets) {
    double seconds = kNoValue;
    for (const auto& [time, value] : run.metric_curve) {
      if (!run.words.reaches(value, target)) continue;
      seconds = time;
      break;
    }
    run.seconds_to.push_back(seconds);
    run.usd_to.push_back(run.price ? run.price->usd(seconds) : kNoValue);
  }
}

// --- fairness

using TextOf = std::function<std::string(const ComparedRun&)>;

void add_difference(Comparison& all, const std::string& what, bool mathematics,
                    const TextOf& text_of) {
  Difference difference{.what = what, .values = {}, .mathematics = mathematics};
  for (const ComparedRun& run : all.runs) difference.values.push_back(text_of(run));
  if (std::ranges::all_of(difference.values,
                          [&](const std::string& v) { return v == difference.values.front(); }))
    return;
  all.different_trainings = all.different_trainings || mathematics;
  all.differences.push_back(std::move(difference));
}

TextOf of_last_start(std::string RunStart::*field) {
  return [field](const ComparedRun& run) {
    const std::string text = run.starts.empty() ? "" : run.starts.back().*field;
    return text.empty() ? std::string("unknown") : text;
  };
}

// The recipe without what decides nothing, and the data: runs with equal ones compute the same but
// for the seed, so their speeds can be compared.
std::string mathematics_of(const ComparedRun& run) {
  std::string text;
  for (const RecipeKey& key : recipe_keys(run.history.recipe.optimizer_groups.size()))
    if (key.decides_result && !key.decides_kind && key.path() != "seed")
      text += cat(key.path(), "=", value_text(key, run.history.recipe), "\n");
  return text + (run.starts.empty() ? "" : run.starts.back().training_data);
}

// Runs with equal ones are one training: their bits can be compared.
std::string training_of(const ComparedRun& run) {
  return cat(mathematics_of(run), "\nseed=", run.history.recipe.seed);
}

// First by what is computed, then by where.
std::string group_key(const ComparedRun& run) {
  return mathematics_of(run) + "\n" + run.placement + "\n" + run.device + "\n" + run.kind;
}

// Whether every placement was run with the same seeds: these are then repetitions of one training.
bool seeds_are_repetitions(const Comparison& all) {
  std::map<std::string, std::multiset<std::uint64_t>> seeds;
  for (const ComparedRun& run : all.runs) seeds[group_key(run)].insert(run.history.recipe.seed);
  return std::ranges::all_of(
      seeds, [&](const auto& group) { return group.second == seeds.begin()->second; });
}

void find_differences(Comparison& all) {
  std::size_t groups = 0;
  for (const ComparedRun& run : all.runs)
    groups = std::max(groups, run.history.recipe.optimizer_groups.size());
  for (const RecipeKey& key : recipe_keys(groups)) {
    if (key.decides_result)
      add_difference(all, key.path(), key.path() != "seed" || !seeds_are_repetitions(all),
                     [&](const ComparedRun& run) {
                       const Recipe& recipe = run.history.recipe;
                       // The kind of data is told of data in files, too.
                       const bool told = key.path() == "data" || has_meaning(key, recipe);
                       return told ? value_text(key, recipe) : std::string("none");
                     });
  }
  add_difference(all, "training data", true, of_last_start(&RunStart::training_data));
  add_difference(all, "evaluation data", false, of_last_start(&RunStart::evaluation_data));
  add_difference(all, "kind of results", false, of_last_start(&RunStart::kind));
  add_difference(all, "build", false, [](const ComparedRun& run) {
    if (run.starts.empty()) return std::string("unknown");
    const RunStart& start = run.starts.back();
    return cat(start.podium_version, " ", start.git_commit, ", ", start.compiler);
  });
  add_difference(all, "device", false, of_last_start(&RunStart::cpu));
  add_difference(all, "host", false, of_last_start(&RunStart::hostname));
  add_difference(all, "vector target", false, of_last_start(&RunStart::vector_target));
  add_difference(all, "energy", false, [](const ComparedRun& run) {
    return run.joules_of.empty() ? std::string("not reported") : "of " + run.joules_of;
  });
  add_difference(all, "last step", false,
                 [](const ComparedRun& run) { return cat(run.history.last_step()); });
  add_difference(all, "price", false, [](const ComparedRun& run) {
    return run.price ? run.price->text() : std::string("none");
  });
}

std::string name_of(const ComparedRun& run) { return run.history.folder.string(); }

void check_bits(Comparison& all) {
  std::map<std::string, std::vector<const ComparedRun*>> trainings;
  for (const ComparedRun& run : all.runs)
    trainings[training_of(run) + "\n" + run.kind].push_back(&run);
  for (auto& [training, runs] : trainings) {
    // The longest first: a run that stopped early says nothing about the later steps of others.
    std::ranges::stable_sort(runs, std::ranges::greater(),
                             [](const ComparedRun* run) { return run->history.last_step(); });
    for (std::size_t i = 1; i < runs.size(); ++i) {
      const HashComparison hashes =
          compare_hashes(runs[0]->history.hashes, runs[i]->history.hashes);
      if (hashes.first_difference)
        all.findings.push_back(cat(name_of(*runs[0]), " and ", name_of(*runs[i]),
                                   ": parameters differ from step ", *hashes.first_difference,
                                   " on, but within one kind of device they must be equal; `podium "
                                   "diff` compares the runs"));
      else if (hashes.compared == 0)
        all.notes.push_back(cat(name_of(*runs[0]), " and ", name_of(*runs[i]),
                                " have no hash of the same step, so their bits were not compared"));
    }
  }
}

void check_bands(Comparison& all, const CompareOptions& options) {
  std::vector<std::string> kinds;
  for (const ComparedRun& run : all.runs)
    if (std::ranges::find(kinds, run.kind) == kinds.end()) kinds.push_back(run.kind);
  for (const ComparedRun& run : all.runs) {
    const auto& tests = run.history.course.tests;
    if (!run.finished || tests.empty()) continue;
    const std::string& recipe = run.history.recipe.name;
    const std::filesystem::path file =
        options.bands.empty() ? find_band(recipe)
                              : std::filesystem::path(options.bands) / (recipe + ".json");
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) {
      if (kinds.size() > 1)
        all.notes.push_back(cat(name_of(run), ": recipe ", run.history.recipe.name, " has no band",
                                options.bands.empty() ? "" : " in " + options.bands,
                                "; whether kinds of devices agree was not checked"));
      continue;
    }
    const Band band = read_band(file, 0);
    if (band.recipe != band_recipe(run.history.recipe)) continue;
    if (band.runs.size() < kLeastBandRuns) {
      if (kinds.size() > 1)
        all.notes.push_back(cat(name_of(run), ": the band ", file.string(), " has fewer than ",
                                kLeastBandRuns,
                                " runs; whether kinds of devices agree was not checked"));
      continue;
    }
    if (band.words.metric != run.words.metric) continue;
    const double metric = tests.back().metric;
    const TaskWords& words = band.words;
    if (metric < band.low() || metric > band.high())
      all.findings.push_back(cat(
          name_of(run), ": ", words.metric_name(), " ", words.metric_text(metric),
          " is outside the recipe's band, ", words.metric_text(band.low()), " to ",
          words.metric_text(band.high()), " (", band.runs.size(), " runs, ", file.string(), ")"));
  }
}

// --- what a person would say

std::vector<PlacementSummary> by_placement(const Comparison& all) {
  std::vector<PlacementSummary> groups;
  std::map<std::string, std::vector<const ComparedRun*>> runs_of;
  for (std::size_t i = 0; i < all.runs.size(); ++i) {
    const ComparedRun& run = all.runs[i];
    if (!run.counted) continue;
    auto& runs = runs_of[group_key(run)];
    if (runs.empty())
      groups.push_back({.placement = run.placement, .device = run.device, .first = i});
    runs.push_back(&run);
  }
  for (PlacementSummary& group : groups) {
    std::vector<double> steps, items, usd, seconds;
    const auto& runs = runs_of[group_key(all.runs[group.first])];
    for (const ComparedRun* run : runs) {
      steps.push_back(run->steps_per_second.median);
      items.push_back(run->items_per_second.median);
      usd.push_back(run->usd);
      seconds.push_back(run->seconds);
    }
    group.runs = runs.size();
    group.steps_per_second = median_of(steps), group.items_per_second = median_of(items);
    group.usd = median_of(usd), group.seconds = median_of(seconds);
  }
  return groups;
}

// Of two placements of one recipe: their runs of one seed are compared, pair by pair, at all steps
// whose hashes both recorded.
std::string result_words(const std::vector<const ComparedRun*>& as,
                         const std::vector<const ComparedRun*>& bs) {
  if (as.front()->kind != bs.front()->kind) return "another kind of results";
  std::set<const ComparedRun*> compared;
  bool same_length = true, to_the_end = true;
  for (const ComparedRun* a : as) {
    for (const ComparedRun* b : bs) {
      if (training_of(*a) != training_of(*b)) continue;
      const HashComparison hashes = compare_hashes(a->history.hashes, b->history.hashes);
      if (hashes.first_difference) return "ANOTHER RESULT";
      if (hashes.compared == 0) continue;
      compared.insert({a, b});
      const std::int64_t one = a->history.last_step(), other = b->history.last_step();
      same_length = same_length && one == other;
      to_the_end = to_the_end && hashes.last_equal == std::min(one, other);
    }
  }
  if (compared.empty()) return "result not compared";
  const std::size_t all = as.size() + bs.size();
  std::string text = !to_the_end   ? "same result to the bit over the steps with hashes of both"
                     : same_length ? "same result to the bit"
                                   : "same result to the bit over the steps of both";
  if (compared.size() < all)
    text +=
        cat(" of the ", compared.size(), " of ", all, " runs that have a partner of their seed");
  return text;
}

std::vector<const ComparedRun*> runs_of(const Comparison& all, const PlacementSummary& group) {
  std::vector<const ComparedRun*> runs;
  for (const ComparedRun& run : all.runs)
    if (run.counted && group_key(run) == group_key(all.runs[group.first])) runs.push_back(&run);
  return runs;
}

// The cost of runs of unequal length says nothing about their placements.
bool end_at_one_step(const std::vector<const ComparedRun*>& runs, std::int64_t step) {
  return std::ranges::all_of(
      runs, [&](const ComparedRun* run) { return run->history.last_step() == step; });
}

// Of placements that computed the same mathematics.
void say_placements(Comparison& all, const std::vector<PlacementSummary>& groups,
                    const std::string& prefix) {
  const PlacementSummary& base = groups.front();
  const auto alone = [](const PlacementSummary& group) {
    return fmt::format("{}: {:.4g} steps/s", group.placement, group.steps_per_second);
  };
  if (groups.size() == 1) {
    all.sentences.push_back(cat(prefix, alone(base), " (",
                                count_text(static_cast<std::int64_t>(base.runs), "run"), ")."));
    return;
  }
  for (std::size_t i = 1; i < groups.size(); ++i) {
    const PlacementSummary& group = groups[i];
    const bool other_device = group.device != base.device;
    const auto or_unknown = [](const std::string& word, const char* what) {
      return word.empty() ? cat("an unknown ", what) : word;
    };
    std::string text = prefix + group.placement;
    if (other_device) text += " on " + or_unknown(group.device, "device");
    if (all.runs[group.first].kind != all.runs[base.first].kind)
      text += cat(" (", or_unknown(all.runs[group.first].kind, "kind of results"), ")");
    text += cat(": ", times_text(group.items_per_second / base.items_per_second), " as fast as ",
                base.placement);
    const std::vector<const ComparedRun*> base_runs = runs_of(all, base);
    const std::vector<const ComparedRun*> group_runs = runs_of(all, group);
    text += ", " + result_words(base_runs, group_runs);
    const std::int64_t last_step = base_runs.front()->history.last_step();
    if (std::isfinite(group.usd) && std::isfinite(base.usd) && base.usd > 0 &&
        end_at_one_step(base_runs, last_step) && end_at_one_step(group_runs, last_step)) {
      const double change = 100 * (group.usd / base.usd - 1);
      text += std::abs(change) < 0.5 ? ", at the same cost"
              : change >= 100        ? cat(", ", times_text(group.usd / base.usd), " as expensive")
                                     : fmt::format(", {:.0f}% {}", std::abs(change),
                                            change < 0 ? "cheaper" : "more expensive");
    }
    text += fmt::format(" (n = {} and {} runs).", group.runs, base.runs);
    all.sentences.push_back(std::move(text));
  }
}

void say_it(Comparison& all) {
  const std::vector<PlacementSummary> groups = by_placement(all);
  if (groups.empty()) {
    all.sentences.emplace_back("No run qualifies for this method.");
    return;
  }
  std::vector<std::string> order;  // of the mathematics, as their first runs come
  std::map<std::string, std::vector<PlacementSummary>> trainings;
  for (const PlacementSummary& group : groups) {
    const std::string key = mathematics_of(all.runs[group.first]);
    if (!trainings.contains(key)) order.push_back(key);
    trainings[key].push_back(group);
  }
  if (order.size() > 1)
    all.sentences.push_back(cat("These are ", order.size(),
                                " different trainings; speeds and bits are compared only within "
                                "one."));
  for (const std::string& key : order) {
    const std::vector<PlacementSummary>& own = trainings[key];
    const ComparedRun& first = all.runs[own.front().first];
    say_placements(all, own,
                   order.size() == 1
                       ? ""
                       : cat(first.history.recipe.name, " (", name_of(first),
                             own.size() > 1 || own.front().runs > 1 ? " and others" : "", "), "));
  }
  if (std::ranges::any_of(groups, [](const PlacementSummary& g) { return g.runs == 1; }))
    all.notes.emplace_back(
        "one run of a placement does not show how much runs vary; the spread shown is that of the "
        "points within the run");
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto at = [&](double part) {
    const double place = part * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    const double share = place - static_cast<double>(below);
    return values[below] + share * (values[above] - values[below]);
  };
  return {.n = values.size(), .median = at(0.5), .low = at(0.1), .high = at(0.9)};
}

std::string target_text(const Comparison& all, double target) {
  const TaskWords words = all.words.value_or(TaskWords());
  return words.unit == "%" ? fmt::format("{:g}%", target)
                           : fmt::format("{} {:g}", words.metric_name(), target);
}

std::string times_text(double ratio) {
  if (!std::isfinite(ratio)) return "an unknown number of times";
  return fmt::format("{:.{}f} times", ratio, ratio >= 100 ? 0 : ratio >= 10 ? 1 : 2);
}

bool Comparison::same_item() const {
  return std::ranges::all_of(
      runs, [&](const ComparedRun& run) { return run.words.item == runs.front().words.item; });
}

std::string Comparison::rate_unit() const {
  return same_item() ? runs.front().words.rate_unit() : "items/s";
}

const char* ComparedRun::state() const {
  if (!counted) return "not counted";
  if (finished) return "finished";
  return failure.empty() ? "unfinished" : "failed";
}

Comparison compare_runs(std::vector<RunHistory> histories, const CompareOptions& options) {
  Comparison all;
  for (RunHistory& history : histories) {
    ComparedRun run;
    run.history = std::move(history);
    run.finished = run.history.last_step() >= total_steps(run.history.recipe);
    run.failure = last_failure(run.history.folder);
    if (!run.failure.empty())
      all.notes.push_back(cat(name_of(run), " ended with a failure: ", run.failure));
    run.warm_up = warm_up_of(run.history, options);
    read_starts_of(run, options);
    run.words = words_of(run.starts, run.history.course);
    read_course(run, options);
    all.runs.push_back(std::move(run));
  }
  all.pods = options.method == Method::kPods;
  const auto same_metric = [&](const ComparedRun& run) {
    const TaskWords &a = run.words, &b = all.runs.front().words;
    return a.metric == b.metric && a.unit == b.unit && a.more_is_better == b.more_is_better;
  };
  if (std::ranges::all_of(all.runs, same_metric))
    all.words = all.runs.front().words;
  else
    all.notes.emplace_back("these runs are judged by several metrics, which are not compared");
  PODIUM_REQUIRE(options.targets.empty() || all.words, ExitCode::kUsage,
                 "--target is a value of one metric, and these runs have several; compare the runs "
                 "of one task at a time");
  all.targets = options.targets.empty() ? targets_of(all) : options.targets;
  for (ComparedRun& run : all.runs) find_targets(run, all.targets);
  all.method =
      options.method == Method::kPods
          ? "method of pods: the first epoch, start-up and evaluation are left out, medians over "
            "the runs of a placement"
      : options.warm_up >= 0
          ? cat("speeds are without the first ", count_text(options.warm_up, "step"),
                ", as warm-up")
          : std::string("speeds are without the first tenth of the steps, as warm-up");
  if (options.method == Method::kPods) {
    if (options.targets.empty()) {
      all.notes.emplace_back("no --target: all runs count, whatever their metric");
    } else {
      const double target = all.words->more_is_better ? *std::ranges::max_element(options.targets)
                                                      : *std::ranges::min_element(options.targets);
      for (ComparedRun& run : all.runs) {
        run.counted = std::ranges::any_of(run.metric_curve, [&](const auto& point) {
          return run.words.reaches(point.second, target);
        });
        if (!run.counted)
          all.notes.push_back(
              cat(name_of(run), " is not counted: it did not reach ", target_text(all, target)));
      }
    }
  }
  if (std::ranges::any_of(all.runs,
                          [](const ComparedRun& run) { return run.items_per_second.n == 0; }))
    all.notes.emplace_back(
        "a run without speeds has no training point after its warm-up; make more steps, or use a "
        "smaller --warm-up");
  find_differences(all);
  check_bits(all);
  check_bands(all, options);
  say_it(all);
  return all;
}

}  // namespace podium
