// The number of the numerical contract (docs/numerics.md). It rises with every change of an order
// of arithmetic, which is to say whenever a line of tests/law/golden_hashes.txt changes: a run that
// began under one contract has other bits under another, so no checkpoint is gone on with across.
#pragma once

namespace podium {

inline constexpr int kNumericalContract = 3;

}  // namespace podium
