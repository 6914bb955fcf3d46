// The programs of a run, built from its model: what one replica computes in a step, what evaluation
// computes, how a shard of the parameters is updated; and how parameters, gradients and statistics
// lie in flat memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/network.h"
#include "optim/optimizer.h"

namespace podium {

// A tensor within a flat buffer of floats; offsets are multiples of kFlatAlign, the gaps between
// stay zero.
inline constexpr std::int64_t kFlatAlign = 16;
struct FlatEntry {
  std::string name;
  Shape shape;
  std::int64_t offset = 0;
  bool decays = false;
  std::int64_t elements() const { return shape.elements(); }
};

// [parameters | statistics | loss]: what a replica's program writes and the tree sums. Parameters
// and their gradients have the same offsets; statistics follow from `parameter_floats` on.
struct FlatLayout {
  std::vector<FlatEntry> parameters, statistics;
  std::int64_t parameter_floats = 0;
  std::int64_t loss_offset = 0;
  std::int64_t floats = 0;
};

struct ReplicaInputs {
  Shape image;  // [C, H, W]
  std::int64_t images = 0;
  std::int64_t classes = 0;
};

// Inputs: images, labels, step, replica, parameters, statistics. Outputs: gradients (of the mean
// loss over the global batch), new statistics, loss, correct; to inspect a step also logits and the
// dropout factors.
struct ReplicaProgram {
  Graph graph;
  FlatLayout layout;
  std::vector<std::string> dropouts;
  std::vector<Parameter> parameters;  // with their initialisers
  std::vector<float> statistic_starts;
};
ReplicaProgram build_replica_program(const Model& model, const ReplicaInputs& inputs,
                                     std::uint64_t seed, std::int64_t global_batch,
                                     float label_smoothing, bool inspect);

// Inputs: images, labels, parameters, statistics. Outputs: logits, losses (of each example).
Graph build_evaluation_program(const Model& model, const ReplicaInputs& inputs,
                               float label_smoothing);

// A run of floats of the parameters to which one weight decay applies.
struct UpdatePiece {
  std::int64_t begin = 0, end = 0;
  float weight_decay = 0;
};
// Inputs: scalars, then for each piece parameter, gradient, states. Outputs for each piece:
// parameter, states.
struct UpdateProgram {
  Graph graph;
  std::vector<UpdatePiece> pieces;
};
UpdateProgram build_update_program(const FlatLayout& layout, const OptimizerOptions& options,
                                   std::int64_t replicas, std::int64_t begin, std::int64_t end);

}  // namespace podium
