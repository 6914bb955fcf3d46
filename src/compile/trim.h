// Pixels that nobody reads: a pass over the forward graph, before its gradients are made. It looks
// at shapes alone, so it is the same for every backend, machine and placement.
//
//   conv2d that only a pooling reads, whose windows leave out its last rows or columns
//     -> the same with less padding below or to the right, so that it does not make them
//
// Their gradient is 0, so nothing that is computed from the rest changes but the order of sums: a
// Winograd convolution has other tiles. Nodes keep their numbers.
#pragma once

#include "graph/graph.h"

namespace podium {

Graph without_unread_pixels(const Graph& graph);

}  // namespace podium
