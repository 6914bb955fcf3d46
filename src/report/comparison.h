// Compares runs. A comparison is fair if only the placement differs. All other differences are
// listed, and if the mathematics differs, the comparison is between different trainings
// (docs/comparing-devices.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/task_words.h"
#include "report/history.h"
#include "report/starts.h"

namespace podium {

// The median and the 10th and 90th percentile of n values. NaN if there are none.
struct Spread {
  std::size_t n = 0;
  double median = kNoValue, low = kNoValue, high = kNoValue;
};
Spread spread_of(std::vector<double> values);

enum class Method {
  kOwn,   // the time of the whole command; the first tenth of the steps is the warm-up
  kPods,  // as published for pods: the first epoch, start-up and evaluation are left out
};

struct CompareOptions {
  Method method = Method::kOwn;
  std::int64_t warm_up = -1;         // steps left out; below 0: as the method says
  std::vector<double> targets;       // as people read the metric; none: as targets_of() says
  std::optional<ChosenPrice> price;  // of all runs; nothing: what each recorded
  std::string bands;                 // folder of RECIPE.json; empty: as find_band() says
};

// One run. Unknown values are NaN, 0 or empty.
struct ComparedRun {
  RunHistory history;
  std::vector<RunStart> starts;
  TaskWords words;
  std::string placement, device, kind;
  std::optional<ChosenPrice> price;

  std::int64_t warm_up = 0;  // steps that the speeds leave out
  Spread steps_per_second, items_per_second;
  double input_wait_percent = kNoValue;  // mean of the same points
  double train_seconds = kNoValue;       // of steps alone
  double seconds = kNoValue;             // of the method: all, or of steps alone
  bool whole_time = false;               // `seconds` has start-up and evaluation in it
  std::int64_t peak_memory_bytes = 0;
  std::optional<double> joules;
  std::string joules_of;  // "processors (RAPL)"; empty: nothing is known
  double usd = kNoValue;
  // By target: seconds until an evaluation first reached it.
  std::vector<double> seconds_to, usd_to;
  bool finished = false;  // all steps of the recipe
  std::string failure;    // that the last start ended with; empty: none
  bool counted = true;    // by the method: with kPods, a run below the target is not
  // "not counted", "finished", "unfinished" or "failed".
  const char* state() const;

  // Of each point of training: seconds of training until then, steps/s.
  std::vector<std::pair<double, double>> speed_curve;
  // Of each test: seconds by the method, the metric as people read it.
  std::vector<std::pair<double, double>> metric_curve;
};

// A difference between runs other than the placement.
struct Difference {
  std::string what;                 // "optimizer.learning_rate", "build", "training data"
  std::vector<std::string> values;  // of each run
  bool mathematics = false;         // results cannot be expected to be equal
};

// The runs of one placement, with medians over them, for the summary sentence.
struct PlacementSummary {
  std::string placement, device;
  std::size_t runs = 0;
  double steps_per_second = kNoValue, items_per_second = kNoValue;
  double usd = kNoValue, seconds = kNoValue;
  std::size_t first = 0;  // a run of it
};

struct Comparison {
  std::vector<ComparedRun> runs;

  // Whether all runs count the same: then "tokens/s" stands in the head of a table, else "items/s",
  // and each run's own unit beside its number.
  bool same_item() const;
  std::string rate_unit() const;

  // What all runs are judged by, and the values of it whose time and cost are shown, as people read
  // them. Runs of several metrics have none.
  std::optional<TaskWords> words;
  std::vector<double> targets;
  std::vector<Difference> differences;
  std::vector<std::string> findings;  // faults: unequal bits, outside the band
  std::vector<std::string> notes;     // on one sample, without a band, ...
  bool different_trainings = false;
  bool pods = false;                   // the method
  std::string method;                  // what was measured, in words
  std::vector<std::string> sentences;  // one per placement after the first, or one
};

// Compares runs that were read. Takes their histories.
Comparison compare_runs(std::vector<RunHistory> histories, const CompareOptions& options);

// "99%" or "perplexity 20".
std::string target_text(const Comparison& all, double target);

// "1.97 times".
std::string times_text(double ratio);

}  // namespace podium
