// The time of a step on devices that are not available: a roofline for each operation of the
// program, and the exchange between devices (docs/planning.md). Data sheets do not state what
// fraction of a peak programs reach; this is fitted to published results of many devices.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "nn/model.h"
#include "plan/device_spec.h"
#include "train/recipe/recipe.h"

namespace podium {

// One operation of a replica's program, as a linear function of its examples. Bytes are those of
// FP32.
struct OpWork {
  std::string name;
  bool product = false;         // convolutions and matrix products; else bound by memory
  double flops = 0, bytes = 0;  // for each item
  double fixed_flops = 0, fixed_bytes = 0;  // whatever the examples: weights
};

// Of all operations of a program by the convention of papers: convolutions as direct ones, 2 for a
// multiply-add, whatever algorithm was chosen for them.
double direct_flops(const Graph& graph);

struct ProgramWork {
  std::vector<OpWork> ops;  // without those that compilers join to their neighbours
  double parameter_values = 0;
  std::size_t optimizer_states = 0;  // values for each parameter
};

// Of a replica's program of a recipe with this model.
ProgramWork work_of(const Recipe& recipe, const Model& model, const std::vector<Field>& fields);

// The fractions of peaks that are reached, fitted to all published rows by bench/planner_check
// (docs/results/planner.md).
struct Efficiency {
  std::array<double, 2> products = {0.428, 0.769};  // of FLOP/s, by family: gpu, matrix
  double vector_products = 0.65;                    // of a GPU's FP32 FLOP/s, without matrix units
  std::array<double, 2> kernel_us = {4.28, 2.90};   // least time of one operation
  double memory = 0.825;                            // of the bandwidth
  double link = 0.325;                              // of the links
  double latency = 45;                              // times that of a message, a level of the tree
  // Measured over predicted step times on devices left out of the fit: the 10th and the 90th
  // percentile.
  double low = 0.89, high = 1.19;
};

struct StepTime {
  double compute = 0, memory = 0, kernels = 0;  // seconds in operations bound by each
  double exchange = 0;
  double total() const { return compute + memory + kernels + exchange; }
  // The largest cost beyond the work itself: "exchange", "batch too small".
  std::string limit() const;
};

// For `devices` devices that each run `replicas` replicas of `examples` examples in turn.
// `values_bytes`: size of a value in memory and on the links.
StepTime step_time(const ProgramWork& work, const DeviceSpec& device, const std::string& precision,
                   std::int64_t devices, double replicas, double examples, const Efficiency& how);

// Bytes of a value in this precision.
double bytes_of(const std::string& precision);

}  // namespace podium
