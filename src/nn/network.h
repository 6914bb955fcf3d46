// Layers. A model is a function that calls them on a Network; the same function makes the training
// and the evaluation program, and lists the parameters as it goes.
//
//   Value my_model(Network& net, Value x) {
//     x = net.relu(net.batch_norm("bn1", net.conv2d("conv1", x, {.channels = 8, .kernel = 3})));
//     return net.dense("fc", net.flatten(x), {.units = 10});
//   }
//
// Parameters have the names and layouts that PyTorch users expect: conv1.weight [out, in, h, w],
// fc.weight [out, in], bn1.weight, bn1.bias, and the running statistics bn1.running_mean,
// bn1.running_var.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace podium {

enum class Initialiser {
  kGlorotUniform,  // U(-a, a), a = sqrt(6 / (fan in + fan out)) (Glorot, Bengio 2010)
  kFanInUniform,   // U(-a, a), a = 1 / sqrt(fan in)
  kZeros,
  kOnes,
};

struct Parameter {
  std::string name;
  Shape shape;
  Initialiser initialiser = Initialiser::kZeros;
  std::int64_t fan_in = 0, fan_out = 0;
  bool decays = false;  // weight decay acts on it
  Value value;          // in the graph of the network
};

// A running statistic of batch normalisation, and in training its new value.
struct Statistic {
  std::string name;
  Shape shape;
  float initial = 0;
  Value old_value, new_value;
};

struct Dropout {
  std::string name;
  Value mask;
};

enum class Mode { kTrain, kEvaluate };

struct ConvOptions {
  std::int64_t channels = 0;  // of the output
  std::int64_t kernel = 3, stride = 1;
  bool bias = false;
  Initialiser initialiser = Initialiser::kGlorotUniform;  // `same` padding throughout
};
struct DenseOptions {
  std::int64_t units = 0;
  bool bias = false;
  Initialiser initialiser = Initialiser::kGlorotUniform;
};
struct BatchNormOptions {
  float momentum = 0.9f;  // the share of the old running value that is kept
  float epsilon = 1e-5f;
};

class Network {
 public:
  // `step` and `replica` feed dropout and are read in training alone.
  Network(Graph& graph, Mode mode, std::uint64_t seed, Value step = {}, Value replica = {})
      : graph_(graph), mode_(mode), seed_(seed), step_(step), replica_(replica) {}

  Value conv2d(const std::string& name, Value x, const ConvOptions& options);
  Value dense(const std::string& name, Value x, const DenseOptions& options);
  Value batch_norm(const std::string& name, Value x, const BatchNormOptions& options = {});
  Value relu(Value x);
  Value dropout(const std::string& name, Value x, float rate);
  Value flatten(Value x);
  Value add(Value a, Value b);

  Graph& graph() { return graph_; }
  Mode mode() const { return mode_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Statistic>& statistics() const { return statistics_; }
  const std::vector<Dropout>& dropouts() const { return dropouts_; }

 private:
  Value parameter(Parameter parameter);

  Graph& graph_;
  Mode mode_;
  std::uint64_t seed_;
  Value step_, replica_;
  std::vector<Parameter> parameters_;
  std::vector<Statistic> statistics_;
  std::vector<Dropout> dropouts_;
};

// images [N, C, H, W] -> logits [N, classes].
using Model = std::function<Value(Network& net, Value images, std::int64_t classes)>;

// The values of a parameter at the start: a pure function of (seed, position in the model's list,
// element).
Tensor initial_value(const Parameter& parameter, std::uint64_t seed, std::uint32_t position);

}  // namespace podium
