// The fusion pass. It changes no bit: each pattern's fused operation is, by its contract, the
// operations it replaces.
//
//   batch_norm -> activate                     batch_norm [activation]
//   batch_norm_inference -> activate           batch_norm_inference [activation]
//   activate_grad of that -> batch_norm_grad   batch_norm_grad [activation]
//   any of these -> add                        the same [adds], the other operand its last input
//
// A pattern applies only where nothing else reads the value in between: the normalised value is
// read by one activation, and by the gradient of that one on its way to this batch_norm's; the
// value that is added to, by the sum; and the other operand of the sum is there before.
#pragma once

#include "graph/graph.h"

namespace podium {

Graph fuse(const Graph& graph);

}  // namespace podium
