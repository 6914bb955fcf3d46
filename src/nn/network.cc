#include "nn/network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/numerics/functions.h"
#include "base/numerics/philox.h"
#include "ops/ops.h"

namespace podium {

namespace {

void require_extents(const std::string& name, const Shape& shape) {
  for (const std::int64_t extent : shape.extents())
    PODIUM_REQUIRE(extent >= 1, ExitCode::kUsage, "[\"", name, "\"] has shape ", to_string(shape),
                   "; each extent must be at least 1");
}

// Gives it the fans that its shape says, and refuses an initialiser that cannot draw it.
void settle_initialiser(Parameter& p) {
  const bool matrix = p.shape.rank() >= 2;
  if (matrix && p.fan_in == 0) p.fan_in = p.shape.elements_from(1);
  if (matrix && p.fan_out == 0) p.fan_out = p.shape[0] * p.shape.elements_from(2);
  const auto require = [&](bool condition, const char* needs) {
    PODIUM_REQUIRE(condition, ExitCode::kUsage, "[\"", p.name, "\"] of shape ", to_string(p.shape),
                   ": its initialiser needs ", needs);
  };
  switch (p.initialiser) {
    case Initialiser::kGlorotUniform:
      require(p.fan_in > 0 && p.fan_out > 0,
              "fan_in and fan_out, which only a shape [out, in, ...] gives by itself");
      break;
    case Initialiser::kFanInUniform:
    case Initialiser::kFanInUnit:
      require(p.fan_in > 0, "fan_in, which only a shape [out, in, ...] gives by itself");
      break;
    case Initialiser::kUnitDeviation:
      require(p.fan_in > 0, "fan_in, which only a shape [out, in, ...] gives by itself");
      require(p.shape.elements() > 1, "more than one element");
      break;
    case Initialiser::kFanOutNormal:
      require(p.fan_out > 0, "fan_out, which only a shape [out, in, ...] gives by itself");
      break;
    case Initialiser::kIdentity:
    case Initialiser::kWhitening:
      require(p.shape.rank() == 4, "filters [out, in, height, width]");
      break;
    case Initialiser::kNormal: require(p.deviation > 0, "a deviation above 0"); break;
    case Initialiser::kUniform: require(p.bound > 0, "a bound above 0"); break;
    case Initialiser::kZeros:
    case Initialiser::kOnes: break;
  }
}

}  // namespace

void Network::require_free_name(const std::string& name) const {
  PODIUM_REQUIRE(!name.empty(), ExitCode::kUsage,
                 "a parameter or statistic of the model has no name; checkpoints need one");
  PODIUM_REQUIRE(!name.starts_with(kCarriedPrefix), ExitCode::kUsage, "[\"", name,
                 "\"] names that begin with \"", kCarriedPrefix,
                 "\" are those of carried values; take another");
  const auto named = [&](const auto& other) { return other.name == name; };
  PODIUM_REQUIRE(
      std::ranges::none_of(parameters_, named), ExitCode::kUsage, "[\"", name,
      "\"] the model has two parameters of this name; give each layer a name of its own");
  PODIUM_REQUIRE(std::ranges::none_of(statistics_, named), ExitCode::kUsage, "[\"", name,
                 "\"] the model has a statistic of this name; give each layer a name of its own");
  PODIUM_REQUIRE(std::ranges::none_of(graph_.inputs(), named), ExitCode::kUsage, "[\"", name,
                 "\"] is the name of an input of the program; take another");
}

Value Network::parameter(Parameter parameter) {
  require_free_name(parameter.name);
  require_extents(parameter.name, parameter.shape);
  settle_initialiser(parameter);
  if (is_frozen(parameter.name)) parameter.trained = false;
  parameter.value =
      graph_.input(parameter.name, {DType::kF32, parameter.shape}, InputRole::kParameter);
  parameters_.push_back(parameter);
  return parameter.value;
}

Value Network::statistic(const std::string& name, const Shape& shape, float initial) {
  require_free_name(name);
  require_extents(name, shape);
  const Value old_value = graph_.input(name, {DType::kF32, shape}, InputRole::kState);
  statistics_.push_back({.name = name, .shape = shape, .initial = initial, .old_value = old_value});
  return old_value;
}

void Network::keep(Value statistic) {
  std::ranges::find(statistics_, statistic, &Statistic::old_value)->frozen = true;
}

void Network::update(Value statistic, Value next) {
  if (mode_ == Mode::kEvaluate) return;
  const auto found = std::ranges::find(statistics_, statistic, &Statistic::old_value);
  PODIUM_REQUIRE(found != statistics_.end(), ExitCode::kUsage,
                 "update() of a value that statistic() "
                 "did not return");
  PODIUM_REQUIRE(graph_.type(next) == graph_.type(statistic), ExitCode::kUsage, "[\"", found->name,
                 "\"] its next value is ", to_string(graph_.type(next)), ", but it is ",
                 to_string(graph_.type(statistic)));
  PODIUM_REQUIRE(!found->new_value, ExitCode::kUsage, "[\"", found->name,
                 "\"] update() gave it a next value before");
  found->new_value = next;
}

Value Network::carried(const std::string& name, const Shape& row, DType dtype) {
  PODIUM_REQUIRE(!name.empty(), ExitCode::kUsage,
                 "a carried value of the model has no name; checkpoints need one");
  PODIUM_REQUIRE(rows_ > 0, ExitCode::kUsage, "[\"", name,
                 "\"] only what a model's forward builds can carry values, not its score");
  const std::string full = cat(kCarriedPrefix, name);
  PODIUM_REQUIRE(std::ranges::count(carried_, full, &Carried::name) == 0, ExitCode::kUsage, "[\"",
                 name,
                 "\"] the model has two carried values of this name; give each one of its own");
  require_extents(name, row);
  PODIUM_REQUIRE(dtype == DType::kF32 || dtype == DType::kI32, ExitCode::kUsage, "[\"", name,
                 "\"] carried values are f32 or i32");
  std::vector<std::int64_t> extents = {rows_};
  extents.insert(extents.end(), row.extents().begin(), row.extents().end());
  const TensorType type{dtype, Shape(std::move(extents))};
  carried_.push_back({full, type, graph_.input(full, type, InputRole::kBatch), {}});
  return carried_.back().old_value;
}

void Network::carry(Value carried, Value next) {
  const auto found = std::ranges::find(carried_, carried, &Carried::old_value);
  PODIUM_REQUIRE(found != carried_.end(), ExitCode::kUsage,
                 "carry() of a value that carried() did not return");
  const std::string name = found->name.substr(kCarriedPrefix.size());
  PODIUM_REQUIRE(graph_.type(next) == found->type, ExitCode::kUsage, "[\"", name,
                 "\"] its next value is ", to_string(graph_.type(next)), ", but it is ",
                 to_string(found->type),
                 "; give carried() the shape of one row, and carry() a value of all rows");
  PODIUM_REQUIRE(!found->new_value, ExitCode::kUsage, "[\"", name,
                 "\"] carry() gave it a next value before");
  found->new_value = next;
}

Value Network::conv2d(const std::string& name, Value x, const ConvOptions& options) {
  const Shape images = graph_.shape(x);
  PODIUM_REQUIRE(images.rank() == 4, ExitCode::kUsage, "[conv2d \"", name,
                 "\"] needs images [N, C, H, W], got ", to_string(images));
  PODIUM_REQUIRE(options.channels > 0 && options.kernel > 0 && options.stride > 0, ExitCode::kUsage,
                 "[conv2d \"", name, "\"] channels, kernel and stride must be at least 1");
  const std::int64_t window = options.kernel * options.kernel;
  const Value weight =
      parameter({.name = name + ".weight",
                 .shape = {options.channels, images[1], options.kernel, options.kernel},
                 .initialiser = options.initialiser,
                 .fan_in = images[1] * window,
                 .fan_out = options.channels * window,
                 .decays = true});
  Conv2dAttributes attributes =
      options.padded && options.padding < 0
          ? same_padding(images, options.kernel, options.kernel, options.stride)
          : Conv2dAttributes{.stride_h = options.stride, .stride_w = options.stride};
  if (options.padding >= 0) {
    attributes.pad_top = attributes.pad_bottom = attributes.pad_left = attributes.pad_right =
        options.padding;
  }
  Value y = podium::conv2d(graph_, x, weight, attributes, name);
  if (options.bias) {
    y = bias_add(graph_, y, parameter({.name = name + ".bias", .shape = {options.channels}}), name);
  }
  return y;
}

Value Network::whitening(const std::string& name, Value x, const WhiteningOptions& options) {
  const Shape images = graph_.shape(x);
  PODIUM_REQUIRE(images.rank() == 4, ExitCode::kUsage, "[whitening \"", name,
                 "\"] needs images [N, C, H, W], got ", to_string(images));
  const std::int64_t values = images[1] * options.kernel * options.kernel;
  const Value weight = parameter({.name = name + ".weight",
                                  .shape = {2 * values, images[1], options.kernel, options.kernel},
                                  .initialiser = Initialiser::kWhitening,
                                  .fan_in = values,
                                  .trained = false,
                                  .epsilon = options.epsilon});
  const Value bias = parameter({.name = name + ".bias", .shape = {2 * values}});
  return bias_add(graph_, podium::conv2d(graph_, x, weight, {}, name), bias, name);
}

Value Network::dense(const std::string& name, Value x, const DenseOptions& options) {
  const Shape shape = graph_.shape(x);
  PODIUM_REQUIRE(shape.rank() == 2, ExitCode::kUsage, "[dense \"", name, "\"] needs [N, F], got ",
                 to_string(shape), "; flatten it first");
  PODIUM_REQUIRE(options.units > 0, ExitCode::kUsage, "[dense \"", name,
                 "\"] units must be at least 1");
  const Value weight = parameter({.name = name + ".weight",
                                  .shape = {options.units, shape[1]},
                                  .initialiser = options.initialiser,
                                  .fan_in = shape[1],
                                  .fan_out = options.units,
                                  .decays = true});
  Value y = matmul(graph_, x, weight, {.transpose_b = true}, name);
  if (options.bias)
    y = bias_add(graph_, y, parameter({.name = name + ".bias", .shape = {options.units}}), name);
  return y;
}

Value Network::batch_norm(const std::string& name, Value x, const BatchNormOptions& options) {
  const Shape shape = graph_.shape(x);
  PODIUM_REQUIRE(shape.rank() == 4 || shape.rank() == 2, ExitCode::kUsage, "[batch_norm \"", name,
                 "\"] needs [N, C, H, W] or [N, C], got ", to_string(shape));
  const Shape vector{shape[1]};
  const Value gamma =
      options.scale
          ? parameter(
                {.name = name + ".weight", .shape = vector, .initialiser = options.scale_start})
          : fill(graph_, vector, 1.0f);
  const Value beta = parameter({.name = name + ".bias", .shape = vector});
  const Value mean = statistic(name + ".running_mean", vector, 0),
              variance = statistic(name + ".running_var", vector, 1);
  const bool frozen = is_frozen(name + ".bias") && (!options.scale || is_frozen(name + ".weight"));
  if (frozen) keep(mean), keep(variance);
  if (mode_ == Mode::kEvaluate || frozen)
    return batch_norm_inference(graph_, x, gamma, beta, mean, variance, options.epsilon, name);
  const BatchNormOutputs out = podium::batch_norm(graph_, x, gamma, beta, options.epsilon, name);
  const BatchNormRunningAttributes attributes{.momentum = options.momentum,
                                              .count = shape.elements() / shape[1]};
  const RunningStatistics next =
      batch_norm_running(graph_, {mean, variance}, out.mean, out.variance, attributes, name);
  update(mean, next.mean);
  update(variance, next.variance);
  return out.y;
}

Value Network::relu(Value x) { return activate(x, {ActivationKind::kRelu}); }
Value Network::activate(Value x, const Activation& activation) {
  return podium::activate(graph_, x, activation, graph_.node(x).name);
}
Value Network::max_pool(Value x, std::int64_t window) {
  return podium::max_pool(graph_, x, window, window, graph_.node(x).name);
}
Value Network::max_pool(Value x, std::int64_t window, std::int64_t stride, std::int64_t padding) {
  const PoolAttributes attributes{.window_h = window,
                                  .window_w = window,
                                  .stride_h = stride,
                                  .stride_w = stride,
                                  .pad_top = padding,
                                  .pad_bottom = padding,
                                  .pad_left = padding,
                                  .pad_right = padding};
  return podium::max_pool(graph_, x, attributes, graph_.node(x).name);
}
Value Network::avg_pool(Value x, std::int64_t window) {
  return podium::avg_pool(graph_, x, window, window, graph_.node(x).name);
}
Value Network::global_max_pool(Value x) {
  const Shape shape = graph_.shape(x);
  return flatten(podium::max_pool(graph_, x, shape[2], shape[3], graph_.node(x).name));
}
Value Network::global_avg_pool(Value x) {
  const Shape shape = graph_.shape(x);
  return flatten(podium::avg_pool(graph_, x, shape[2], shape[3], graph_.node(x).name));
}
Value Network::pad_channels(Value x, std::int64_t before, std::int64_t after) {
  return podium::pad_channels(graph_, x, before, after, graph_.node(x).name);
}
Value Network::scale(Value x, float factor) {
  return podium::scale(graph_, x, factor, graph_.node(x).name);
}

Value Network::dropout(const std::string& name, Value x, float rate) {
  if (mode_ == Mode::kEvaluate || rate == 0) return x;
  const DropoutMaskAttributes attributes{.rate = rate,
                                         .seed = seed_,
                                         .layer = static_cast<std::uint32_t>(dropouts_.size()),
                                         .shape = graph_.shape(x)};
  const Value mask = dropout_mask(graph_, step_, replica_, attributes, name);
  dropouts_.push_back({name, mask});
  return mul(graph_, x, mask, name);
}

Value Network::flatten(Value x) { return podium::flatten(graph_, x); }
Value Network::add(Value a, Value b) { return podium::add(graph_, a, b, graph_.node(a).name); }

}  // namespace podium
