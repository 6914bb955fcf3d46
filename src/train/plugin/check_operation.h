// Tests an operation that a program defines: the properties that training relies on.
//
//   for (const std::string& finding : podium::check_operation(my_op)) std::puts(finding.c_str());
//
// OpDef::samples states the shapes that are tested: odd sizes, and batches of 1, 2, 17 and 33
// examples find most mistakes. The test cannot tell whether the operation computes what you
// intended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/op_def.h"

namespace podium {

// How an operation is tested.
struct OperationCheckOptions {
  // Changes the random operands, to keep them in the domain of the operation or away from its
  // corners. Empty: floats have a magnitude in [0.25, 2.25) and either sign.
  std::function<void(const OpSample& sample, std::vector<Tensor>& operands)> prepare = {};
  // Float inputs that intentionally have no gradient, such as a mask.
  std::vector<std::size_t> constant_inputs = {};
  std::size_t outputs = 1;  // number of outputs with gradients, from the first on
  float step = 0x1p-6f;     // of the finite differences
  double tolerance = 1e-3;  // of the gradient, relative to its size
};

// One line for each fault, which names the sample; empty: no fault was found. It tests that
//  - the definition is complete, and its samples fit its shape rule;
//  - the reference writes every element of its outputs and depends only on its inputs;
//  - every backend of the build returns the bits of the reference, with one thread and with three,
//    between other operations too;
//  - each gradient has the type of its input and agrees with finite differences.
// It returns after the first sample with a fault.
std::vector<std::string> check_operation(const OpDef& op,
                                         const OperationCheckOptions& options = {});

// Only the last of these tests, for one sample; `stream` selects the random operands.
std::vector<std::string> check_gradient(const OpDef& op, const OpSample& sample,
                                        std::uint32_t stream,
                                        const OperationCheckOptions& options = {});

}  // namespace podium
