// Tries an operation that a program defines for itself: what training takes for granted about it.
//
//   for (const std::string& finding : podium::check_operation(my_op)) std::puts(finding.c_str());
//
// Samples (OpDef::samples) decide which shapes are tried: odd sizes, and batches of 1, 2, 17 and 33
// images find most mistakes. It does not say whether the operation computes what was meant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/op_def.h"

namespace podium {

// How an operation is tried.
struct OperationCheckOptions {
  // Changes the operands that were drawn: to keep them where the operation is defined, or away from
  // its corners. Empty: floats stay in [0.25, 2.25) with either sign.
  std::function<void(const OpSample& sample, std::vector<Tensor>& operands)> prepare = {};
  // Float inputs that have no gradient on purpose, such as a mask.
  std::vector<std::size_t> constant_inputs = {};
  std::size_t outputs = 1;  // how many have gradients, from the first on
  float step = 0x1p-6f;     // of the finite differences
  double tolerance = 1e-3;  // of the gradient, relative to its size
};

// What is wrong, a line each, which names the sample; empty: nothing was found. It tries that
//  - the definition is complete, and its samples fit its shape rule;
//  - the reference writes every element of its outputs and depends on its inputs alone;
//  - every backend of the build returns the bits of the reference, with one thread and with three,
//    between other operations too;
//  - each gradient has the type of its input and agrees with finite differences.
// It returns at the first sample that has findings.
std::vector<std::string> check_operation(const OpDef& op,
                                         const OperationCheckOptions& options = {});

// The last of these alone, for one sample; `stream` tells draws apart.
std::vector<std::string> check_gradient(const OpDef& op, const OpSample& sample,
                                        std::uint32_t stream,
                                        const OperationCheckOptions& options = {});

}  // namespace podium
