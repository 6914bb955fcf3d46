#include "plan/run_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include "base/error.h"
#include "base/words.h"

namespace podium {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Parameters, gradients and the partial sums that are exchanged, all FP32 on every device; of the
// optimizer's state each has its shard; activations in the precision of the device.
MemoryParts memory_of(const PlanQuestion& q, std::int64_t devices) {
  if (q.measured_memory) return q.measured_memory(devices);
  const double values = 4 * q.work->parameter_values;
  const auto states = static_cast<double>(q.work->optimizer_states);
  return {{"parameters", values},
          {"gradients", values},
          {"exchange", values},
          {"optimizer", values * states / static_cast<double>(devices)},
          {"activations", q.activation_bytes * bytes_of(q.precision) / 4}};
}

PlanRow row_of(const PlanQuestion& q, std::int64_t devices) {
  const Recipe& recipe = *q.recipe;
  PlanRow row{.devices = devices};
  const std::int64_t rows = recipe.batch / recipe.replicas;
  row.same_recipe = devices <= recipe.replicas;
  row.replicas = row.same_recipe ? recipe.replicas : devices;
  row.batch = rows * row.replicas;
  // The slowest device has one replica more than others where they do not divide evenly.
  const std::int64_t most = (row.replicas + devices - 1) / devices;
  const auto turns = static_cast<double>(most);
  row.memory = memory_of(q, devices);
  for (const auto& [what, bytes] : row.memory) row.memory_bytes += bytes;
  row.fits = row.memory_bytes <= q.device->memory_bytes;
  // What does not fit cannot be measured.
  if (q.measured && row.fits) {
    row.step.compute = q.measured(devices);
  } else {
    row.step = step_time(*q.work, *q.device, q.precision, devices, turns, static_cast<double>(rows),
                         q.efficiency);
  }
  const double step = row.step.total();
  row.steps_per_second = 1 / step;
  const double examples_per_second = static_cast<double>(row.batch) / step;
  row.items_per_second = examples_per_second * q.items_per_example;

  const auto examples = static_cast<double>(training_examples(recipe));
  const double own_epochs =
      static_cast<double>(total_steps(recipe)) / static_cast<double>(steps_per_epoch(recipe));
  const double factor = row.same_recipe ? 1
                        : q.critical_batch > 0
                            ? epochs_factor(static_cast<double>(row.batch),
                                            static_cast<double>(recipe.batch), q.critical_batch)
                            : kUnknown;
  row.epochs = own_epochs * factor;
  const double steps = row.epochs * std::floor(examples / static_cast<double>(row.batch));
  // Forward alone is a third of the work.
  const double evaluations =
      recipe.evaluation.every_epochs == 0
          ? 1
          : std::ceil(row.epochs / static_cast<double>(recipe.evaluation.every_epochs));
  const double views = static_cast<double>(recipe.evaluation.views);
  const double evaluation =
      evaluations * static_cast<double>(q.test_examples) * views / (3 * examples_per_second);
  row.seconds = steps > 0 ? steps * step + evaluation : kUnknown;
  const double low = q.measured ? q.low : q.efficiency.low;
  const double high = q.measured ? q.high : q.efficiency.high;
  row.low = row.seconds * low, row.high = row.seconds * high;

  row.usd = row.usd_low = row.usd_high = kUnknown;
  if (q.price) {
    const std::int64_t count =
        q.measured ? devices : std::max<std::int64_t>(q.price->price.count, 1);
    row.machines = q.measured ? 1 : (devices + count - 1) / count;
    ChosenPrice price = *q.price;
    price.machines = row.machines;
    row.usd = price.usd(row.seconds);
    row.usd_low = price.usd(row.low), row.usd_high = price.usd(row.high);
  }

  if (q.examples_per_core > 0)
    row.input_cores = examples_per_second / static_cast<double>(devices) / q.examples_per_core;
  row.waits_for_input = q.device->host_cores > 0 && row.input_cores > q.device->host_cores;
  row.meets = row.fits && std::isfinite(row.seconds) && row.seconds <= q.deadline &&
              (!std::isfinite(q.budget) || row.usd <= q.budget);
  return row;
}

std::string bend_of(const std::vector<PlanRow>& rows, bool measured) {
  for (const PlanRow& row : rows) {
    if (row.efficiency >= 0.8 || measured) continue;
    return fmt::format(
        "scaling falls below 80% of the first row at {}: {} ({:.0f}% of a step in the "
        "exchange, {:.0f}% in short operations)",
        count_text(row.devices, "device"), row.step.limit(),
        100 * row.step.exchange / row.step.total(), 100 * row.step.kernels / row.step.total());
  }
  return "";
}

// The row that misses the limits by the smallest factor.
std::string nearest_of(const PlanQuestion& q, const std::vector<PlanRow>& rows) {
  const PlanRow* best = nullptr;
  double least = 0;
  for (const PlanRow& row : rows) {
    if (!row.fits || !std::isfinite(row.seconds)) continue;
    double miss = std::max(1.0, row.seconds / q.deadline);
    if (std::isfinite(q.budget)) miss *= std::max(1.0, row.usd / q.budget);
    if (best == nullptr || miss < least) best = &row, least = miss;
  }
  if (best == nullptr && std::ranges::none_of(rows, &PlanRow::fits))
    return "no number of devices fits in memory";
  if (best == nullptr)
    return "the time is not known: the recipe has fewer replicas, and how many epochs another one "
           "needs is not known (--critical-batch), or a batch is larger than the training set";
  const double seconds = best->seconds;
  const std::string time = seconds < 120    ? fmt::format("{:.3g} s", seconds)
                           : seconds < 7200 ? fmt::format("{:.1f} minutes", seconds / 60)
                                            : fmt::format("{:.1f} h", seconds / 3600);
  return cat("no number of devices meets that; the nearest is ",
             count_text(best->devices, "device"), " with ", time,
             std::isfinite(best->usd) ? " and " + usd_text(best->usd) : "");
}

}  // namespace

double epochs_factor(double batch, double recipe_batch, double critical_batch) {
  return (1 + batch / critical_batch) / (1 + recipe_batch / critical_batch);
}

RunPlan plan_run(const PlanQuestion& question) {
  RunPlan plan;
  for (const std::int64_t devices : question.devices)
    plan.rows.push_back(row_of(question, devices));
  const auto rate = [](const PlanRow& row) {
    return row.items_per_second / static_cast<double>(row.devices);
  };
  for (PlanRow& row : plan.rows) row.efficiency = rate(row) / rate(plan.rows.front());
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const PlanRow& row = plan.rows[i];
    if (!row.meets) continue;
    if (!plan.fastest || row.seconds < plan.rows[*plan.fastest].seconds) plan.fastest = i;
    if (std::isfinite(row.usd) && (!plan.cheapest || row.usd < plan.rows[*plan.cheapest].usd))
      plan.cheapest = i;
  }
  plan.bend = bend_of(plan.rows, static_cast<bool>(question.measured));
  if (!plan.fastest) plan.nearest = nearest_of(question, plan.rows);
  return plan;
}

double parse_duration(const std::string& text) {
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const std::string unit = text.substr(used);
  const double factor = unit.empty() || unit == "s" ? 1
                        : unit == "m"               ? 60
                        : unit == "h"               ? 3600
                        : unit == "d"               ? 86400
                                                    : 0;
  PODIUM_REQUIRE(used != 0 && factor != 0 && std::isfinite(value) && value > 0, ExitCode::kUsage,
                 "\"", text, "\" is not a time above zero; write seconds, 90m, 2h or 1d");
  return value * factor;
}

}  // namespace podium
