// The number of the numerical contract (docs/numerics.md). It rises with every change of an order
// of arithmetic, which is to say whenever a line of tests/law/golden_hashes.txt changes: a run that
// began under one contract has other bits under another, so no checkpoint is gone on with across.
// Runs of either precision have a number of their own, so that a change of one leaves the other's
// runs alone.
#pragma once

#include "base/numerics/precision.h"

namespace podium {

constexpr int numerical_contract(const Precision& precision) { return precision.bf16 ? 6 : 3; }

}  // namespace podium
