#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "base/numerics/functions.h"
#include "ops/ops.h"

namespace podium {
namespace {

bool is_adam(const OptimizerOptions& options) {
  PODIUM_REQUIRE(options.name == "adam" || options.name == "adamw" || options.name == "sgd" ||
                     options.name == "muon" || options.name == "lars",
                 ExitCode::kUsage, "optimizer.name = \"", options.name,
                 "\": no such optimizer; known are sgd, lars, adam, adamw and muon");
  return options.name == "adam" || options.name == "adamw";
}

// X with all its singular values near 1: three steps of a Newton-Schulz iteration whose
// coefficients were chosen for speed of convergence, not for its limit.
Value orthogonalised(Graph& graph, Value x, const std::string& name) {
  constexpr int kSteps = 3;
  constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f, kEpsilon = 1e-7f;
  const Shape shape = graph.shape(x);
  const bool tall = shape[0] > shape[1];  // the smaller of the two Gram matrices
  x = rescale(graph, x, 1.0f, kEpsilon, name);
  for (int i = 0; i < kSteps; ++i) {
    const Value gram =
        matmul(graph, x, x, {.transpose_a = tall, .transpose_b = !tall}, name + " gram");
    const Value square = matmul(graph, gram, gram, {}, name + " square");
    const Value polynomial = combine(graph, kB, gram, kC, square, name);
    const Value product = tall ? matmul(graph, x, polynomial, {}, name + " product")
                               : matmul(graph, polynomial, x, {}, name + " product");
    x = combine(graph, kA, x, 1.0f, product, name);
  }
  return x;
}

std::vector<Value> append_muon(Graph& graph, const OptimizerOptions& options, Value parameter,
                               Value gradient, Value velocity, Value rate,
                               const std::string& name) {
  const Shape shape = graph.shape(parameter);
  PODIUM_CHECK(shape.rank() == 2, name, " is ", to_string(shape));
  const Value next = combine(graph, options.momentum, velocity, 1.0f, gradient, name);
  const Value direction =
      options.nesterov ? combine(graph, options.momentum, next, 1.0f, gradient, name) : next;
  // The weight's size is given, its direction is learned.
  const float norm = std::sqrt(static_cast<float>(shape[0]));
  const Value weight = rescale(graph, parameter, norm, 0.0f, name);
  return {descend(graph, weight, orthogonalised(graph, direction, name), rate, name), next};
}

std::vector<Value> append_lars(Graph& graph, const OptimizerOptions& options, float weight_decay,
                               Value parameter, Value gradient, Value velocity, Value rate,
                               const std::string& name) {
  if (options.trust != 0) {
    const std::int64_t runs = (graph.shape(parameter).elements() + kSquareRun - 1) / kSquareRun;
    const auto norm = [&](Value x) {
      return global_norm(graph, square_sums(graph, x, name), {0, runs}, name);
    };
    rate = lars_rate(graph, norm(parameter), norm(gradient), rate,
                     {.trust = options.trust, .weight_decay = weight_decay}, name);
  }
  if (weight_decay != 0) gradient = combine(graph, weight_decay, parameter, 1.0f, gradient, name);
  const Value next = combine(graph, options.momentum, velocity, 1.0f,
                             multiply_by(graph, gradient, rate, name), name);
  return {sub(graph, parameter, next, name), next};
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
                        const StepInRun& at) {
  const double base = optimizer.learning_rate;
  const auto per_epoch = static_cast<double>(at.steps_per_epoch);
  auto step = static_cast<double>(at.step);
  if (optimizer.epochs != 0) {
    const double last = optimizer.epochs * per_epoch;
    if (step >= last) return 0;
    step *= static_cast<double>(at.total_steps) / last;
  }
  const double x = schedule.unit == "epoch" ? step / per_epoch : step;
  const double warmup = schedule.unit == "epoch" ? schedule.warmup * per_epoch : schedule.warmup;
  const double rate = [&] {
    if (schedule.name == "constant") return base;
    if (schedule.name == "exponential")
      return schedule.floor + base * exp_f64(-x / schedule.time_constant);
    if (schedule.name == "linear") return base * line_through(schedule, x);
    if (schedule.name == "cosine") {
      const double length = static_cast<double>(at.total_steps) - warmup;
      const double t = step <= warmup ? 0.0 : std::min(1.0, (step - warmup) / length);
      return schedule.floor + (base - schedule.floor) * ((1 + cos_2pi(0.5 * t)) / 2);
    }
    if (schedule.name == "polynomial") {
      const double length = static_cast<double>(at.total_steps) - warmup;
      const double t = step <= warmup ? 0.0 : std::min(1.0, (step - warmup) / length);
      return schedule.floor + (base - schedule.floor) * power(1 - t, schedule.power);
    }
    PODIUM_CHECK(schedule.name == "piecewise", schedule.name);
    const auto passed = static_cast<std::size_t>(
        std::ranges::count_if(schedule.boundaries, [&](double b) { return b <= x; }));
    return base * schedule.factors[passed];
  }();
  return step + 1 < warmup ? rate * ((step + 1) / warmup) : rate;
}

bool is_decoupled(const OptimizerOptions& options) { return options.name == "adamw"; }

bool needs_matrices(const OptimizerOptions& options) { return options.name == "muon"; }

bool needs_whole_parameters(const OptimizerOptions& options) {
  return needs_matrices(options) || options.name == "lars";
}

std::vector<std::string> optimizer_states(const OptimizerOptions& options) {
  return is_adam(options) ? std::vector<std::string>{"m", "v"}
                          : std::vector<std::string>{"velocity"};
}

std::vector<std::string> optimizer_scalars(const OptimizerOptions& options) {
  if (is_decoupled(options)) return {"step_size", "inv_sqrt_correction", "learning_rate"};
  return is_adam(options) ? std::vector<std::string>{"step_size", "inv_sqrt_correction"}
                          : std::vector<std::string>{"learning_rate"};
}

std::vector<float> optimizer_scalar_values(const OptimizerOptions& options, double learning_rate,
                                           std::int64_t step) {
  if (!is_adam(options)) return {static_cast<float>(learning_rate)};
  const double left1 = 1 - power(options.beta1, step + 1),
               left2 = 1 - power(options.beta2, step + 1);
  std::vector<float> values = {static_cast<float>(learning_rate / left1),
                               static_cast<float>(1 / std::sqrt(left2))};
  if (is_decoupled(options)) values.push_back(static_cast<float>(learning_rate));
  return values;
}

std::vector<Value> append_update(Graph& graph, const OptimizerOptions& options, float weight_decay,
                                 Value parameter, Value gradient, const std::vector<Value>& states,
                                 const std::vector<Value>& scalars, std::string name) {
  if (is_adam(options)) {
    const AdamAttributes attributes{.beta1 = options.beta1,
                                    .beta2 = options.beta2,
                                    .epsilon = options.epsilon,
                                    .weight_decay = weight_decay,
                                    .decoupled = is_decoupled(options)};
    const auto out = adam_update(graph, parameter, gradient, states[0], states[1], scalars,
                                 attributes, std::move(name));
    return {out.begin(), out.end()};
  }
  if (needs_matrices(options))
    return append_muon(graph, options, parameter, gradient, states[0], scalars[0], name);
  if (options.name == "lars")
    return append_lars(graph, options, weight_decay, parameter, gradient, states[0], scalars[0],
                       name);
  const SgdAttributes attributes{
      .momentum = options.momentum, .weight_decay = weight_decay, .nesterov = options.nesterov};
  const auto out =
      sgd_update(graph, parameter, gradient, states[0], scalars[0], attributes, std::move(name));
  return {out.begin(), out.end()};
}

}  // namespace podium
