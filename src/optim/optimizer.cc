#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "base/functions.h"
#include "ops/ops.h"

namespace podium {
namespace {

bool is_adam(const OptimizerOptions& options) {
  PODIUM_REQUIRE(options.name == "adam" || options.name == "sgd", ExitCode::kUsage,
                 "optimizer.name = \"", options.name,
                 "\": no such optimizer; known are sgd and adam");
  return options.name == "adam";
}

double line_through(const ScheduleOptions& schedule, double x) {
  const auto& points = schedule.boundaries;
  const auto& factors = schedule.factors;
  if (x <= points.front()) return factors.front();
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (x <= points[i]) {
      const double share = (x - points[i - 1]) / (points[i] - points[i - 1]);
      return factors[i - 1] + (factors[i] - factors[i - 1]) * share;
    }
  }
  return factors.back();
}

}  // namespace

double learning_rate_at(const OptimizerOptions& optimizer, const ScheduleOptions& schedule,
                        std::int64_t step, std::int64_t steps_per_epoch) {
  const double base = optimizer.learning_rate;
  const double x = schedule.unit == "epoch"
                       ? static_cast<double>(step) / static_cast<double>(steps_per_epoch)
                       : static_cast<double>(step);
  if (schedule.name == "constant") return base;
  if (schedule.name == "exponential")
    return schedule.floor + base * exp_f64(-x / schedule.time_constant);
  if (schedule.name == "linear") return base * line_through(schedule, x);
  PODIUM_CHECK(schedule.name == "piecewise", schedule.name);
  const auto passed = static_cast<std::size_t>(
      std::ranges::count_if(schedule.boundaries, [&](double b) { return b <= x; }));
  return base * schedule.factors[passed];
}

std::vector<std::string> optimizer_states(const OptimizerOptions& options) {
  return is_adam(options) ? std::vector<std::string>{"m", "v"}
                          : std::vector<std::string>{"velocity"};
}

std::vector<std::string> optimizer_scalars(const OptimizerOptions& options) {
  return is_adam(options) ? std::vector<std::string>{"step_size", "inv_sqrt_correction"}
                          : std::vector<std::string>{"learning_rate"};
}

std::vector<float> optimizer_scalar_values(const OptimizerOptions& options, double learning_rate,
                                           std::int64_t step) {
  if (!is_adam(options)) return {static_cast<float>(learning_rate)};
  const double left1 = 1 - power(options.beta1, step + 1),
               left2 = 1 - power(options.beta2, step + 1);
  return {static_cast<float>(learning_rate / left1), static_cast<float>(1 / std::sqrt(left2))};
}

std::vector<Value> append_update(Graph& graph, const OptimizerOptions& options, float weight_decay,
                                 Value parameter, Value gradient, const std::vector<Value>& states,
                                 const std::vector<Value>& scalars, std::string name) {
  if (is_adam(options)) {
    const AdamAttributes attributes{.beta1 = options.beta1,
                                    .beta2 = options.beta2,
                                    .epsilon = options.epsilon,
                                    .weight_decay = weight_decay};
    const auto out = adam_update(graph, parameter, gradient, states[0], states[1], scalars[0],
                                 scalars[1], attributes, std::move(name));
    return {out.begin(), out.end()};
  }
  const SgdAttributes attributes{
      .momentum = options.momentum, .weight_decay = weight_decay, .nesterov = options.nesterov};
  const auto out =
      sgd_update(graph, parameter, gradient, states[0], scalars[0], attributes, std::move(name));
  return {out.begin(), out.end()};
}

}  // namespace podium
