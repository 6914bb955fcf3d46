// Reverse-mode differentiation as a graph transform: it appends the nodes that compute gradients,
// by the rules in ops/.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace podium {

// Appends to `graph` the gradients of `output` (weighted by `seed`, of its type) with respect to
// each of `with_respect_to`, and returns them in that order. Only nodes on a path between the two
// are differentiated. UserError if an operation on a path has no gradient; a value that `output`
// does not depend on gives an InternalError.
//
// A value that is read several times gets the sum of its gradients in this order, which is part of
// the numerical contract: readers from the last node to the first, within a node its operands from
// the first to the last; ((g0 + g1) + g2) + ...
std::vector<Value> gradients(Graph& graph, Value output, Value seed,
                             std::span<const Value> with_respect_to);

}  // namespace podium
