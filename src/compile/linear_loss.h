// A part of the fusion pass (fuse.h) that saves memory: logits of many rows and many classes, of
// which a program needs the cross-entropy alone, are not kept.
//
//   x -> matmul by w^T -> softmax_cross_entropy       linear_cross_entropy
//   the same, its gradient to the logits, and the     linear_cross_entropy_grad, which makes the
//     two matmuls that lead that on to x and w          loss as well
//
// Of matmul_bf16, linear_cross_entropy_bf16. It applies where nothing else reads the logits and
// their gradient, and where they are more than kMostLogits. What reads the loss comes after the
// gradients then.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace podium {

// Logits that are few enough to be kept: 64 MiB of them.
inline constexpr std::int64_t kMostLogits = std::int64_t{1} << 24;

// `most`: kMostLogits, or fewer in tests.
Graph with_linear_losses(const Graph& graph, std::int64_t most = kMostLogits);

}  // namespace podium
