// One operation on operands that are drawn, run by a backend: what the conformance test and
// train/check_operation.h share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"
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
// The classes of a sample whose first operand is logits [N, classes]; 10 otherwise.
std::int64_t classes_of(const OpSample& sample);

// The outputs, in the order of the graph's.
std::vector<Tensor> run_case(Backend& backend, const OperationCase& operation,
                             const CompileOptions& options);

// The first element of which the bits differ, for people; empty: none. Any NaN equals any other,
// since IEEE leaves its payload open.
std::string first_difference(const Tensor& actual, const Tensor& expected);

}  // namespace podium
