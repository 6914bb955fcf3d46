// Work as XLA counts it, which `podium show --compile-for` compares with what a compiler reports.
#pragma once

#include <span>

#include "graph/graph.h"

namespace podium {

// The floating-point operations of a node of the graph: of a convolution, the products with pixels
// of the image alone, not with the padding around it, and of a Winograd convolution those of the
// direct one. Other operations: as cost_of() counts them.
double unpadded_flops(const Graph& graph, const Node& node);
// Of all nodes.
double unpadded_flops(const Graph& graph);

}  // namespace podium
