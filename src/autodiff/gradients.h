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
std::vector<Value> gradients(Graph& graph, Value output, Value seed,
                             std::span<const Value> with_respect_to);

}  // namespace podium
