// Optimizers and schedules. An optimizer emits a graph that updates a flat range of parameters; it
// stores no values itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace podium {

// How weight decay acts on the gradient of the mean loss: once, or added to the gradient of each of
// R replicas and summed, which is R times as strong (older estimators did this, and published
// hyperparameters depend on it).
enum class Decay { kOnce, kPerReplica };

// An optimizer with its hyperparameters.
struct OptimizerOptions {
  // sgd (momentum, nesterov); adam (beta1, beta2, epsilon): Kingma, Ba, ICLR 2015; adamw, the same
  // with decoupled weight decay: Loshchilov, Hutter, ICLR 2019; muon (momentum,
  // nesterov), for matrices only: K. Jordan, Muon: an optimizer for hidden layers, 2024; lars
  // (momentum, trust): You, Gitman, Ginsburg, Large batch training of convolutional networks, 2017
  std::string name = "sgd";
  double learning_rate = 0.1;
  float momentum = 0;
  bool nesterov = false;
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  float weight_decay =
      0;  // on parameters that the model marks for decay: weights, not biases or batch norm
  bool decay_all = false;  // on every parameter
  // For lars: the learning rate of a parameter that decays is
  // learning_rate * trust * |p| / (|g| + weight_decay * |p|). 0: the learning rate itself, as for
  // parameters that do not decay.
  float trust = 0.001f;
  Decay decay = Decay::kOnce;
  // Epochs that the schedule spans, from the start of the run; the learning rate is 0 afterwards.
  // 0: all epochs.
  double epochs = 0;
  bool operator==(const OptimizerOptions&) const = default;
};

// How the learning rate changes over a run.
struct ScheduleOptions {
  // constant: learning_rate
  // piecewise: learning_rate * factors[number of boundaries <= step]
  // linear: learning_rate * the line through (boundaries[i], factors[i]), constant outside
  // exponential: floor + learning_rate * exp(-step / time_constant)
  // cosine: floor + (learning_rate - floor) * (1 + cos(pi t)) / 2, t from 0 after the warm-up to 1
  //   at the end of the run
  // polynomial: floor + (learning_rate - floor) * (1 - t)^power, t as in cosine
  std::string name = "constant";
  std::vector<double> boundaries;  // of piecewise and linear
  std::vector<double> factors;
  std::string unit = "step";  // of boundaries, time_constant and warmup: step or epoch
  double time_constant = 0, floor = 0;
  std::int64_t power = 2;
  // The learning rate of each step s < warmup, in steps, is multiplied by (s + 1) / warmup.
  double warmup = 0;
  bool operator==(const ScheduleOptions&) const = default;
};

// A step of a run, counted from 0.
struct StepInRun {
  std::int64_t step = 0, steps_per_epoch = 1, total_steps = 0;
};
// The learning rate of the step, computed in double with the same bits on every machine.
double learning_rate_at(const OptimizerOptions& optimizer, const ScheduleOptions& schedule,
                        const StepInRun& at);

// Whether weight decay multiplies the parameters instead of being added to the gradient (adamw).
bool is_decoupled(const OptimizerOptions& options);

// Whether the optimizer needs each parameter as one matrix [rows, the other axes], not as a flat
// range that may contain several parameters or a part of one.
bool needs_matrices(const OptimizerOptions& options);
// Whether it updates each parameter as a whole and by itself: for matrices, and if it uses norms.
bool needs_whole_parameters(const OptimizerOptions& options);

// The names of an optimizer's state tensors, each as large as the parameters: {"m", "v"} for Adam.
// Throws UserError for an unknown optimizer.
std::vector<std::string> optimizer_states(const OptimizerOptions& options);
// The names of the scalars that change from step to step, and their values at a step.
std::vector<std::string> optimizer_scalars(const OptimizerOptions& options);
std::vector<float> optimizer_scalar_values(const OptimizerOptions& options, double learning_rate,
                                           std::int64_t step);

// Appends the update of one flat range, of one parameter or of one matrix, to `graph`. `states` and
// `scalars` are in the order of the names above. Returns the new parameter, then the new states.
std::vector<Value> append_update(Graph& graph, const OptimizerOptions& options, float weight_decay,
                                 Value parameter, Value gradient, const std::vector<Value>& states,
                                 const std::vector<Value>& scalars, std::string name);

}  // namespace podium
