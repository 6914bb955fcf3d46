// The choice of algorithms: a pass that looks at shapes alone, so it is the same for every backend,
// machine and placement. It comes before any backend sees the graph, since each algorithm has a
// contract of its own.
//
//   conv2d and its gradients -> conv2d_winograd...   where the kernel is three times the stride in
//                                                    both directions, channels to sum over (counted
//                                                    per phase) and to make are at least 12 each,
//                                                    and outputs 4x4 or more; 3x3 from 64 channels
//
// Where the precision is BF16, all of them stay direct, with the order of the precision:
//   conv2d -> conv2d_bf16, matmul -> matmul_bf16, and the gradients
// Such a program is then fused, and its activations are rounded: round_bf16 behind each operation
// that makes images or rows, forward or backward, for those who do not round what they read.
//
// How large the tiles of a Winograd convolution are is part of its contract
// (base/numerics/winograd_points.h).
#pragma once

#include "base/numerics/precision.h"
#include "graph/graph.h"

namespace podium {

Graph choose_algorithms(const Graph& graph, Precision precision = {});

}  // namespace podium
