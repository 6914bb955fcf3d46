// Operations of BF16 operands (docs/numerics.md, BF16). Each has the attributes of the FP32
// operation that it stands for, and an order of its sums.
#pragma once

#include <cstddef>
#include <vector>

#include "base/numerics/precision.h"
#include "graph/graph.h"
#include "graph/op_def.h"

namespace podium {

bool is_bf16(const OpDef& op);
// Whether an operation rounds this operand, which is of images or a matrix.
bool rounds(const OpDef& op, std::size_t operand);
Bf16Order bf16_order_of(const Node& node);
Attributes with_bf16_order(const OpDef& op, const Attributes& attributes, Bf16Order order);
// Each sample in every order.
std::vector<OpSample> in_every_bf16_order(const OpDef& op, const std::vector<OpSample>& samples);

}  // namespace podium
