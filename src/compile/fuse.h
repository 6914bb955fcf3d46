// The fusion pass. It changes no bit: each pattern's fused operation is, by its contract, the
// operations it replaces.
//
//   batch_norm -> activate                     batch_norm [activation]
//   batch_norm_inference -> activate           batch_norm_inference [activation]
//   activate_grad of that -> batch_norm_grad   batch_norm_grad [activation]
//   one of the former two -> max_pool          the same [pools]: windows of 2x2 that tile the
//                                              image; not after a costly activation
//   max_pool_grad of that -> batch_norm_grad   batch_norm_grad [pools]
//   any of these -> add                        the same [adds], the other operand its last input;
//                                              not after what pools
//   batch_norm [adds] -> activate              the same [activates_sum]; in training, only a ReLU,
//                                              whose gradient takes the result
//   add -> activate_grad                       activate_grad [adds]
//
//   max_pool, max_pool_grad of it             both [places]: the maxima are not sought again, and
//                                               what was pooled need not be kept for it
//   max_pool_grad -> gradients of a           max_pool [places], the gradients [pools]: what is
//     conv2d_winograd, no other reader          led back to the maxima is never written
//   conv2d_winograd of whole tiles, then      conv2d_winograd [pools], and [places] if gradients
//     such a max_pool                           read them
//
//   what a batch norm and its activation    batch_norm, batch_norm_inference [defers]; the
//     make, for conv2d_winograd and its        others [normalises]: they make it from the batch
//     gradient to the weights alone, of a      norm's input as they read that, so that it is not
//     wide layer                               written; not after a costly activation
//
//   a cross-entropy of many logits          linear_cross_entropy (compile/linear_loss.h)
//
//   activate_grad of a ReLU                 the same of the ReLU's result, which others read too;
//                                             if nothing else needs the operand
//
// Programs in BF16 are fused before their images are rounded (compile/choose.h), so there a new
// pattern changes bits, and the number of the contract.
//
// A pattern applies only where nothing else reads the value in between: the normalised value is
// read by one activation, and by the gradient of that one on its way to this batch_norm's; what is
// pooled, by one pooling, and by its gradient on the same way; the value that is added to, by the
// sum; and the other operand of the sum is there before.
#pragma once

#include "graph/graph.h"

namespace podium {

Graph fuse(const Graph& graph);

}  // namespace podium
