// What a run will need and cost on a number of devices, predicted before the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/step_model.h"
#include "train/machine/price.h"
#include "train/recipe/recipe.h"

namespace podium {

// Memory in bytes, by what it is for.
using MemoryParts = std::vector<std::pair<std::string, double>>;

// The input of a plan.
struct PlanQuestion {
  const Recipe* recipe = nullptr;
  const ProgramWork* work = nullptr;
  const DeviceSpec* device = nullptr;
  std::string precision;              // one that the device has
  std::vector<std::int64_t> devices;  // how many, rising
  double activation_bytes = 0;        // of one replica in FP32
  std::int64_t test_examples = 0;     // of an evaluation
  std::optional<ChosenPrice> price;
  double deadline = std::numeric_limits<double>::infinity();  // seconds
  double budget = std::numeric_limits<double>::infinity();    // USD
  // What people count of the data, and how many an example has: "token", 256.
  std::string item = "example";
  double items_per_example = 1;
  double examples_per_core = 0;  // decoded and augmented in a second; 0: unknown
  // Replaces the model of memory: that of a process with so many workers.
  std::function<MemoryParts(std::int64_t)> measured_memory;
  double critical_batch = 0;  // of epochs_factor(); 0: unknown
  Efficiency efficiency;
  // Replaces the model of step_model.h where the memory suffices: seconds of a step on a number of
  // workers.
  std::function<double(std::int64_t)> measured;
  double low = 0, high = 0;  // of `measured`: as those of Efficiency
};

// A batch beyond the critical one gains less from each example: epochs grow as 1 + batch / critical
// (McCandlish et al. 2018). Over those of the recipe's own batch.
double epochs_factor(double batch, double recipe_batch, double critical_batch);

struct PlanRow {
  std::int64_t devices = 0;
  // False: more devices than replicas. The row is then of another recipe, with as many replicas of
  // the same size, a batch that grows with them, and more epochs.
  bool same_recipe = true;
  std::int64_t batch = 0, replicas = 0;
  double epochs = 0;  // NaN if it is not known how they grow
  StepTime step;
  double steps_per_second = 0, items_per_second = 0;
  double seconds = 0, low = 0, high = 0;      // of the run, with evaluation; the 80% interval
  double usd = 0, usd_low = 0, usd_high = 0;  // NaN without a price
  std::int64_t machines = 0;
  MemoryParts memory;       // of one device
  double memory_bytes = 0;  // the sum
  bool fits = true;
  double efficiency = 1;   // items/s per device, relative to the first row
  double input_cores = 0;  // for each device; 0: unknown
  // They are more than the device's host has, so that the device will be slower than planned: by
  // how much depends on the host's cores, which nobody measured.
  bool waits_for_input = false;
  bool meets = true;  // fits, the deadline and the budget
};

struct RunPlan {
  std::vector<PlanRow> rows;
  std::optional<std::size_t> cheapest, fastest;  // of the rows that meet both limits
  std::string bend;                              // where scaling falls off, and why
  std::string nearest;                           // if no row meets the limits: the nearest
};

// Throws UserError if the device lacks the precision.
RunPlan plan_run(const PlanQuestion& question);

// Parses a deadline: seconds, "90m", "2h", "1d"; UserError otherwise.
double parse_duration(const std::string& text);

}  // namespace podium
