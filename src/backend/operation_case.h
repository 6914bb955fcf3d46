// One operation on operands that are drawn, run by a backend: what the conformance test and
// train/plugin/check_operation.h share. Also any graph on host tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/bound_executable.h"
#include "graph/op_def.h"

namespace podium {

// A program and a value for each of its inputs.
struct OperationCase {
  Graph graph;
  std::vector<Tensor> inputs;
};

// Floats in [-2, 2], or with `positive` in [0.1, 2.1]; signed integers in [0, classes), as labels
// are; unsigned ones below 1000. `stream` tells draws apart.
Tensor random_operand(const TensorType& type, std::uint32_t stream, std::int64_t classes,
                      bool positive = false);
// The classes of a sample whose first operand is logits [N, classes], or whose second is a table
// [classes, D] before labels; 10 otherwise.
std::int64_t classes_of(const OpSample& sample);

// A compiled graph with memory of the device for all that it reads and writes.
class LoadedProgram {
 public:
  // `inputs` in the order of the graph's; each is uploaded. Donated outputs take their memory.
  LoadedProgram(Device& device, const Graph& graph, std::span<const Tensor> inputs,
                const CompileOptions& options = {});

  void upload(std::size_t input, const Tensor& values);
  void run() { program_.run(); }
  // In the order of the graph's; waits.
  std::vector<Tensor> results() const;
  BoundExecutable& program() { return program_; }

 private:
  Device& device_;
  BoundExecutable program_;
  std::vector<std::unique_ptr<Buffer>> inputs_, outputs_;  // none of a donated output
};

// The outputs, in the order of the graph's.
std::vector<Tensor> run_case(Device& device, const OperationCase& operation,
                             const CompileOptions& options);

// The first element of which the bits differ, for people; empty: none. Any NaN equals any other,
// since IEEE leaves its payload open.
std::string first_difference(const Tensor& actual, const Tensor& expected);

// The first element that is further from the expected one than the device's traits allow, for
// people; empty: none.
std::string first_beyond(const Traits& traits, const Tensor& actual, const Tensor& expected);

}  // namespace podium
