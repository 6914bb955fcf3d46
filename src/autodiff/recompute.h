// Less memory for more work: what a network computed within a block is not held until its gradient
// needs it, but computed again then, from the block's beginning. The operations are the same, so
// the bits are, too (Chen et al., Training deep nets with sublinear memory cost, 2016).
#pragma once

#include <cstdint>
#include <span>

#include "graph/graph.h"

namespace podium {

// `graph` holds a network and its gradients, whose nodes begin at number `backward`. `ends` are the
// values that end a block; they are held, and what stands behind the last one is, too. Inputs and
// outputs keep their names and order. Without `ends`, nothing changes.
Graph with_blocks_recomputed(const Graph& graph, std::int32_t backward,
                             std::span<const Value> ends);

}  // namespace podium
