// The fusion pass. It changes no bit: each pattern's fused operation is, by its contract, the
// operations it replaces.
//
//   batch_norm -> relu                                  batch_norm [activation = relu]
//   batch_norm_inference -> relu                        batch_norm_inference [activation = relu]
//   relu_grad(dy, relu of batch_norm) -> batch_norm_grad   batch_norm_grad [activation = relu]
//
// A pattern applies only where nothing else reads the value in between.
#pragma once

#include "graph/graph.h"

namespace podium {

Graph fuse(const Graph& graph);

}  // namespace podium
