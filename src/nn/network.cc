#include "nn/network.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "ops/ops.h"

namespace podium {

Value Network::parameter(Parameter parameter) {
  for (const Parameter& other : parameters_) {
    PODIUM_REQUIRE(
        other.name != parameter.name, ExitCode::kUsage, "[\"", parameter.name,
        "\"] the model has two parameters of this name; give each layer a name of its own");
  }
  parameter.value =
      graph_.input(parameter.name, {DType::kF32, parameter.shape}, InputRole::kParameter);
  parameters_.push_back(parameter);
  return parameter.value;
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
  Value y =
      podium::conv2d(graph_, x, weight,
                     same_padding(images, options.kernel, options.kernel, options.stride), name);
  if (options.bias) {
    y = bias_add(graph_, y, parameter({.name = name + ".bias", .shape = {options.channels}}), name);
  }
  return y;
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
      parameter({.name = name + ".weight", .shape = vector, .initialiser = Initialiser::kOnes});
  const Value beta = parameter({.name = name + ".bias", .shape = vector});
  const auto state = [&](const char* suffix) {
    return graph_.input(name + suffix, {DType::kF32, vector}, InputRole::kState);
  };
  Statistic mean{.name = name + ".running_mean",
                 .shape = vector,
                 .initial = 0,
                 .old_value = state(".running_mean"),
                 .new_value = {}};
  Statistic variance{.name = name + ".running_var",
                     .shape = vector,
                     .initial = 1,
                     .old_value = state(".running_var"),
                     .new_value = {}};
  Value y;
  if (mode_ == Mode::kTrain) {
    const BatchNormOutputs out = podium::batch_norm(graph_, x, gamma, beta, options.epsilon, name);
    const BatchNormRunningAttributes attributes{.momentum = options.momentum,
                                                .count = shape.elements() / shape[1]};
    const RunningStatistics next = batch_norm_running(graph_, {mean.old_value, variance.old_value},
                                                      out.mean, out.variance, attributes, name);
    mean.new_value = next.mean, variance.new_value = next.variance;
    y = out.y;
  } else {
    y = batch_norm_inference(graph_, x, gamma, beta, mean.old_value, variance.old_value,
                             options.epsilon, name);
  }
  statistics_.push_back(std::move(mean));
  statistics_.push_back(std::move(variance));
  return y;
}

Value Network::relu(Value x) { return podium::relu(graph_, x, graph_.node(x).name); }

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
Value Network::add(Value a, Value b) { return podium::add(graph_, a, b); }

Tensor initial_value(const Parameter& parameter, std::uint64_t seed, std::uint32_t position) {
  Tensor tensor(DType::kF32, parameter.shape);
  const auto values = tensor.f32();
  const auto fill_uniform = [&](double bound) {
    const PhiloxStream stream(seed, RandomPurpose::kInitialise, position);
    for (std::size_t i = 0; i < values.size(); i += 4) {
      const PhiloxBlock words = stream.block(static_cast<std::uint32_t>(i / 4));
      for (std::size_t j = i; j < std::min(i + 4, values.size()); ++j) {
        values[j] = static_cast<float>(bound * (2.0 * uniform01(words[j - i]) - 1.0));
      }
    }
  };
  switch (parameter.initialiser) {
    case Initialiser::kGlorotUniform:
      fill_uniform(std::sqrt(6.0 / static_cast<double>(parameter.fan_in + parameter.fan_out)));
      break;
    case Initialiser::kFanInUniform:
      fill_uniform(1.0 / std::sqrt(static_cast<double>(parameter.fan_in)));
      break;
    case Initialiser::kZeros: break;
    case Initialiser::kOnes: std::ranges::fill(values, 1.0f); break;
  }
  return tensor;
}

}  // namespace podium
