// The programs of a run, built from its model: the step of one replica, evaluation, and the update
// of a shard of the parameters; and the layout of parameters, gradients and statistics in flat
// memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/numerics/precision.h"
#include "nn/model.h"
#include "optim/optimizer.h"
#include "train/recipe/recipe.h"

namespace podium {

// A tensor within flat memory. Offsets are bytes, multiples of kFlatAlign; the gaps between tensors
// stay zero.
inline constexpr std::int64_t kFlatAlign = 64;
struct FlatEntry {
  std::string name;
  TensorType type;
  std::int64_t offset = 0;
  bool decays = false;
  std::size_t optimizer = 0;  // index in Optimizers::options; unused if it is not trained
  bool trained = true;        // for a statistic: a step changes it
  const Shape& shape() const { return type.shape; }
  std::int64_t elements() const { return type.shape.elements(); }
  std::int64_t bytes() const { return type.bytes(); }
};

// [parameters | statistics | loss], in bytes: what a replica's program writes and the tree sums.
// Parameters and their gradients have the same offsets; statistics follow from `parameter_bytes`
// on.
struct FlatLayout {
  std::vector<FlatEntry> parameters, statistics;
  std::int64_t parameter_bytes = 0;
  std::int64_t loss_offset = 0;
  std::int64_t bytes = 0;
};

// The optimizers of a run, and their assignment to parameters.
struct Optimizers {
  std::vector<OptimizerOptions> options;  // [optimizer]'s; those of groups that are not frozen
  std::vector<OptimizerGroup> groups;     // the recipe's, in its order

  Optimizers(OptimizerOptions only) : options{std::move(only)} {}  // NOLINT: one is a set of one
  explicit Optimizers(const Recipe& recipe);
  // The first group with a pattern that matches a parameter's name; null: [optimizer]'s.
  const OptimizerGroup* group_of(std::string_view name) const;
  bool freezes(std::string_view name) const;
  std::size_t index_of(std::string_view name) const;  // in `options`
  const OptimizerOptions& of(const FlatEntry& entry) const { return options[entry.optimizer]; }
  // Throws UserError(kUsage) if a pattern of a group applies to nothing (it matches no parameter,
  // earlier groups have all that it matches, or the model trains none of these), if an optimizer
  // for matrices has a parameter that is not a matrix, or if everything is frozen.
  void require_parameters(const FlatLayout& layout, const std::string& model) const;
  // The weight decay of the parameter's optimizer; 0 if it does not act on the parameter.
  float weight_decay(const FlatEntry& entry) const;
  // The names and values of the scalars of all optimizers, in order.
  std::vector<std::string> scalars() const;
  std::vector<float> scalar_values(const ScheduleOptions& schedule, const StepInRun& at) const;
  // The largest number of state tensors of any of them.
  std::size_t states() const;
};

// What a program computes on: the fields of the data, and how many examples.
struct BatchInputs {
  std::vector<Field> fields;
  std::int64_t rows = 0;  // examples
  Precision precision = {};
  float label_smoothing = 0;
  // In training, what lies within the blocks of the network is computed again for the gradients
  // (autodiff/recompute.h). Only the memory and the time of a step depend on it.
  bool recompute = false;
};
// What the recipe says of a program on these fields.
BatchInputs batch_inputs(const Recipe& recipe, std::vector<Field> fields, std::int64_t rows);

// Inputs: the fields, step, replica, parameters, statistics, carried values. Outputs: gradients of
// the trained parameters (of the sum of the losses, each times its weight, over the number of items
// of the global batch), the new values of the statistics that a step changes, loss, the counts, the
// new carried values; to inspect a step, also what the network returns and the dropout factors.
struct ReplicaProgram {
  Graph graph;
  FlatLayout layout;
  std::int64_t items = 0;            // losses
  std::vector<std::string> counts;   // outputs: i32 scalars; of weighted items, kWeightCount last
  bool is_weighted() const;          // whether items have weights
  std::vector<std::string> outputs;  // of the network, if they are to be inspected
  std::vector<std::string> dropouts;
  std::vector<Parameter> parameters;  // with their initialisers
  std::vector<float> statistic_starts;
  std::vector<FlatEntry> carried;  // in memory of a replica's own
  std::int64_t carried_bytes = 0;
};
// The output of a program that is the next value of one of its inputs.
inline constexpr const char* kNewPrefix = "new/";
// Whether an output is the next value of a carried one.
bool is_next_carried(std::string_view output);
ReplicaProgram build_replica_program(const Model& model, const BatchInputs& inputs,
                                     std::uint64_t seed, std::int64_t global_batch, bool inspect,
                                     const Optimizers& optimizers = OptimizerOptions());

// Inputs: the fields that are read, parameters, statistics, carried values. Outputs: those of the
// network, or with `scored` what its score makes of them, as build_loss_program() names it; then
// the new carried values.
Graph build_evaluation_program(const Model& model, const BatchInputs& inputs, bool scored = false);
// Inputs: the outputs of `evaluation`, as output/NAME, and the fields that the score reads.
// Outputs: losses, each times its weight; weights and predictions where the score has them.
inline constexpr const char* kOutputPrefix = "output/";
Graph build_loss_program(const Model& model, const BatchInputs& inputs, const Graph& evaluation);

// A range of bytes of the parameters with one optimizer and one weight decay; for an optimizer that
// needs whole parameters, a single parameter.
struct UpdatePiece {
  std::int64_t begin = 0, end = 0;
  float weight_decay = 0;
  std::size_t optimizer = 0;  // in Optimizers::options
  bool decays = false;        // whether weight decay acts here, even if it is 0
};
// Inputs: scalars, then for each piece parameter, gradient, states. Outputs for each piece:
// parameter, states.
struct UpdateProgram {
  Graph graph;
  std::vector<UpdatePiece> pieces;
};
// A parameter that must be whole lies completely within [begin, end), or not at all.
UpdateProgram build_update_program(const FlatLayout& layout, const Optimizers& optimizers,
                                   std::int64_t replicas, std::int64_t begin, std::int64_t end);

}  // namespace podium
