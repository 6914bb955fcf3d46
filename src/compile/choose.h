// The choice of algorithms: a pass that looks at shapes alone, so it is the same for every backend,
// machine and placement. It comes before any backend sees the graph, since each algorithm has a
// contract of its own.
//
//   conv2d and its gradients -> conv2d_winograd...   kernel = 3 * stride in both directions, at
//   least kWinogradChannels
//                                                    channels to sum over (counted per phase), and
//                                                    outputs of 4x4 or more
#pragma once

#include "graph/graph.h"

namespace podium {

Graph choose_algorithms(const Graph& graph);

}  // namespace podium
