// Layers. A model is a function that calls layers on a Network. The same function builds the
// training program and the evaluation program, and records the parameters.
//
//   Value my_model(Network& net, Value x, std::int64_t classes) {
//     x = net.relu(net.batch_norm("bn1", net.conv2d("conv1", x, {.channels = 8, .kernel = 3})));
//     return net.dense("fc", net.flatten(x), {.units = classes});
//   }
//
// Parameters have the names and layouts that PyTorch users expect: conv1.weight [out, in, h, w],
// fc.weight [out, in], bn1.weight, bn1.bias, and the running statistics bn1.running_mean,
// bn1.running_var.
//
// A custom layer is a function on a Network: it creates its parameters with parameter(), reads
// their values, and appends operations (those of ops/ops.h or custom ones) to graph():
//
//   Value gated_dense(Network& net, const std::string& name, Value x, std::int64_t units) {
//     const Value gate = net.parameter({.name = name + ".gate", .shape = {units}});
//     ...
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/numerics/activation.h"
#include "graph/graph.h"

namespace podium {

class ThreadPool;

// The initial values of a parameter. `fan in` counts the operands of one output, `fan out` the
// outputs of one operand.
enum class Initialiser {
  kGlorotUniform,  // U(-a, a), a = sqrt(6 / (fan in + fan out)) (Glorot, Bengio 2010)
  kFanInUniform,   // U(-a, a), a = 1 / sqrt(fan in)
  kFanInUnit,      // U(-a, a), a = sqrt(3 / fan in): outputs of unit variance from such inputs
  kFanOutNormal,   // N(0, 2 / fan out) (He et al. 2015)
  kIdentity,       // the first filters pass one input channel each; the others kFanInUniform
  kUnitDeviation,  // kFanInUniform, divided by the standard deviation of the drawn values
  kNormal,         // N(0, Parameter::deviation^2)
  kUniform,        // U(-a, a), a = Parameter::bound
  kWhitening,      // from the training set: whitening.h
  kZeros,
  kOnes,
};

// A parameter of the network, trained or constant.
struct Parameter {
  std::string name;
  Shape shape;
  Initialiser initialiser = Initialiser::kZeros;
  // For initialisers that use them; 0: computed from the shape, read as [out, in, ...].
  std::int64_t fan_in = 0, fan_out = 0;
  bool decays = false;  // weight decay acts on it
  bool trained = true;  // false: keeps its initial value and has no gradient
  float epsilon = 0;    // for kWhitening
  float deviation = 0;  // for kNormal
  float bound = 0;      // for kUniform
  Value value;          // in the graph of the network
};

// A value that training computes and evaluation reads, such as a running statistic of batch
// normalisation; in training also its new value. Each replica computes its own; the mean over
// replicas is kept.
struct Statistic {
  std::string name;
  Shape shape;
  float initial = 0;
  Value old_value, new_value;
  bool frozen = false;  // belongs to a frozen layer: keeps its value and has no new one
};

// A value that goes on from a step to the next one of the same replica, such as the state of a
// recurrent network: a row for each example of the replica's batch. Unlike a statistic, it is of
// one replica alone, and no mean is made of it.
struct Carried {
  std::string name;  // kCarriedPrefix and the name that the model gives
  TensorType type;   // [rows, ...]
  Value old_value, new_value;
};
// What the names of carried values begin with, in checkpoints and as inputs of programs.
inline constexpr std::string_view kCarriedPrefix = "carried.";

// A dropout layer and the factors by which it multiplies.
struct Dropout {
  std::string name;
  Value mask;
};

// Which program a Network builds.
enum class Mode { kTrain, kEvaluate };

// A convolution: square kernels, the same stride in both directions.
struct ConvOptions {
  std::int64_t channels = 0;  // of the output
  std::int64_t kernel = 3, stride = 1;
  bool bias = false;
  Initialiser initialiser = Initialiser::kGlorotUniform;
  bool padded = true;  // `same` padding; false: none
  // Padding on every side, like PyTorch's `padding`; it replaces `padded`. -1: use `padded`. With a
  // stride, `same` pads less above and to the left than below and to the right.
  std::int64_t padding = -1;
};
// A convolution without padding. Its filters whiten patches of the training set and are not
// trained; its bias is trained.
struct WhiteningOptions {
  std::int64_t kernel = 2;
  float epsilon = 5e-4f;  // added to the variances
};
// A dense layer.
struct DenseOptions {
  std::int64_t units = 0;
  bool bias = false;
  Initialiser initialiser = Initialiser::kGlorotUniform;
};
// Batch normalisation of each channel.
struct BatchNormOptions {
  float momentum = 0.9f;  // weight of the old running value
  float epsilon = 1e-5f;
  bool scale = true;                             // false: no weight, only a bias
  Initialiser scale_start = Initialiser::kOnes;  // initial weight
};

// Images are [N, C, H, W], rows of features [N, F]. A layer throws UserError(kUsage) that names the
// layer if its operands or options do not fit, or if another layer already has its name.
class Network {
 public:
  // `step` and `replica` are inputs of dropout; only training uses them. `rows`: examples of the
  // batch; only carried values need them.
  Network(Graph& graph, Mode mode, std::uint64_t seed, Value step = {}, Value replica = {},
          std::int64_t rows = 0)
      : graph_(graph), mode_(mode), seed_(seed), step_(step), replica_(replica), rows_(rows) {}

  // Parameters created from now on are not trained if `frozen` returns true for their name. A batch
  // norm whose parameters are all frozen uses its running statistics, which then do not change.
  void freeze(std::function<bool(const std::string&)> frozen) { frozen_ = std::move(frozen); }

  // [N, C, H, W] -> [N, channels, P, Q]; with `padded`, P = ceil(H / stride).
  Value conv2d(const std::string& name, Value x, const ConvOptions& options);
  Value dense(const std::string& name, Value x, const DenseOptions& options);  // -> [N, units]
  // -> 2 * kernel^2 * C channels: each direction, with both signs.
  Value whitening(const std::string& name, Value x, const WhiteningOptions& options = {});
  // Normalises images or rows per channel; in evaluation, with the running statistics.
  Value batch_norm(const std::string& name, Value x, const BatchNormOptions& options = {});
  Value relu(Value x);
  Value activate(Value x, const Activation& activation);
  // Windows tile the image; rows and columns that do not fill a window are ignored.
  Value max_pool(Value x, std::int64_t window);
  // Windows are `stride` apart and may cover `padding` pixels on every side.
  Value max_pool(Value x, std::int64_t window, std::int64_t stride, std::int64_t padding);
  Value avg_pool(Value x, std::int64_t window);
  Value global_max_pool(Value x);  // [N, C, H, W] -> [N, C]
  Value global_avg_pool(Value x);
  Value pad_channels(Value x, std::int64_t before, std::int64_t after);  // with zeros
  Value scale(Value x, float factor);
  // Drops features with probability `rate` and divides the others by 1 - rate; in evaluation, it
  // returns x unchanged.
  Value dropout(const std::string& name, Value x, float rate);
  Value flatten(Value x);  // [N, C, H, W] -> [N, C H W]
  Value add(Value a, Value b);

  // For custom layers. Creates a parameter and returns its value. Its name, which begins with that
  // of the layer, is also its name in checkpoints. `trained = false`: it keeps its initial value.
  // Throws UserError if the name is taken, an extent is below 1, or the initialiser does not fit
  // the shape.
  Value parameter(Parameter parameter);
  // A statistic's value before the step. A training program must set each one's next value with
  // update(); in evaluation, update() does nothing.
  Value statistic(const std::string& name, const Shape& shape, float initial = 0);
  void update(Value statistic, Value next);

  // What the step before left of a carried value, [rows, ...], each row of shape `row`: zeros where
  // the rows' streams begin. No gradient goes through it to the step before. carry() must set the
  // next value of each, in training and in evaluation. Throws UserError(kUsage) if the name is
  // empty or taken, or an extent is below 1.
  Value carried(const std::string& name, const Shape& row, DType dtype = DType::kF32);
  // Throws UserError(kUsage) if `carried` is not of carried(), has a next value already, or `next`
  // has another type.
  void carry(Value carried, Value next);

  // Says that x ends a block, and returns it. What the network computes before it, back to the
  // block before, need not be held for the gradients: with `run.recompute`, it is computed again.
  Value end_block(Value x) {
    block_ends_.push_back(x);
    return x;
  }

  Graph& graph() { return graph_; }
  Mode mode() const { return mode_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Statistic>& statistics() const { return statistics_; }
  const std::vector<Carried>& carried() const { return carried_; }
  const std::vector<Dropout>& dropouts() const { return dropouts_; }
  const std::vector<Value>& block_ends() const { return block_ends_; }

 private:
  void require_free_name(const std::string& name) const;
  bool is_frozen(const std::string& name) const { return frozen_ && frozen_(name); }
  void keep(Value statistic);

  Graph& graph_;
  Mode mode_;
  std::uint64_t seed_;
  Value step_, replica_;
  std::int64_t rows_;
  std::function<bool(const std::string&)> frozen_;
  std::vector<Parameter> parameters_;
  std::vector<Statistic> statistics_;
  std::vector<Carried> carried_;
  std::vector<Dropout> dropouts_;
  std::vector<Value> block_ends_;
};

// The initial values of a parameter: a pure function of (seed, position in the model's list,
// element). Not for kWhitening, which needs the training set. Large ones are drawn on all threads
// of `pool`, if there is one.
Tensor initial_value(const Parameter& parameter, std::uint64_t seed, std::uint32_t position,
                     ThreadPool* pool = nullptr);

}  // namespace podium
