// The one list of operations. A backend expands it into its kernel table, so a missing kernel is a
// link error. X(Kind, name): OpKind::kKind, OpDef name_op, defined in ops/.
#pragma once

#include <cstdint>
#include <span>

#include "graph/op_def.h"

#define PODIUM_OP_LIST(X)                                       \
  X(Conv2d, conv2d)                                             \
  X(Conv2dGradInput, conv2d_grad_input)                         \
  X(Conv2dGradWeight, conv2d_grad_weight)                       \
  X(Conv2dWinograd, conv2d_winograd)                            \
  X(Conv2dWinogradGradInput, conv2d_winograd_grad_input)        \
  X(Conv2dWinogradGradWeight, conv2d_winograd_grad_weight)      \
  X(Conv2dBf16, conv2d_bf16)                                    \
  X(Conv2dBf16GradInput, conv2d_bf16_grad_input)                \
  X(Conv2dBf16GradWeight, conv2d_bf16_grad_weight)              \
  X(Matmul, matmul)                                             \
  X(MatmulBf16, matmul_bf16)                                    \
  X(RoundBf16, round_bf16)                                      \
  X(BiasAdd, bias_add)                                          \
  X(ChannelSum, channel_sum)                                    \
  X(BatchNorm, batch_norm)                                      \
  X(BatchNormGrad, batch_norm_grad)                             \
  X(BatchNormInference, batch_norm_inference)                   \
  X(BatchNormRunning, batch_norm_running)                       \
  X(Activate, activate)                                         \
  X(ActivateGrad, activate_grad)                                \
  X(MaxPool, max_pool)                                          \
  X(MaxPoolGrad, max_pool_grad)                                 \
  X(AvgPool, avg_pool)                                          \
  X(AvgPoolGrad, avg_pool_grad)                                 \
  X(DropoutMask, dropout_mask)                                  \
  X(SoftmaxCrossEntropy, softmax_cross_entropy)                 \
  X(SoftmaxCrossEntropyGrad, softmax_cross_entropy_grad)        \
  X(LinearCrossEntropy, linear_cross_entropy)                   \
  X(LinearCrossEntropyGrad, linear_cross_entropy_grad)          \
  X(LinearCrossEntropyBf16, linear_cross_entropy_bf16)          \
  X(LinearCrossEntropyBf16Grad, linear_cross_entropy_bf16_grad) \
  X(BatchMean, batch_mean)                                      \
  X(Correct, correct)                                           \
  X(Fill, fill)                                                 \
  X(Reshape, reshape)                                           \
  X(Permute, permute)                                           \
  X(PadChannels, pad_channels)                                  \
  X(SliceChannels, slice_channels)                              \
  X(Add, add)                                                   \
  X(Sub, sub)                                                   \
  X(Mul, mul)                                                   \
  X(Scale, scale)                                               \
  X(SgdUpdate, sgd_update)                                      \
  X(Rescale, rescale)                                           \
  X(Combine, combine)                                           \
  X(Descend, descend)                                           \
  X(AdamUpdate, adam_update)                                    \
  X(Divide, divide)                                             \
  X(MultiplyBy, multiply_by)                                    \
  X(SquareSums, square_sums)                                    \
  X(GlobalNorm, global_norm)                                    \
  X(ClipFactor, clip_factor)                                    \
  X(LarsRate, lars_rate)                                        \
  X(HashSum, hash_sum)                                          \
  X(Argmax, argmax)                                             \
  X(View, view)                                                 \
  X(Embedding, embedding)                                       \
  X(EmbeddingGrad, embedding_grad)                              \
  X(LayerNorm, layer_norm)                                      \
  X(LayerNormGrad, layer_norm_grad)                             \
  X(Attention, attention)                                       \
  X(AttentionGrad, attention_grad)                              \
  X(AttentionBf16, attention_bf16)                              \
  X(AttentionBf16Grad, attention_bf16_grad)                     \
  X(Rotary, rotary)                                             \
  X(CacheRow, cache_row)                                        \
  X(Lstm, lstm)                                                 \
  X(LstmGrad, lstm_grad)                                        \
  X(Gru, gru)                                                   \
  X(GruGrad, gru_grad)                                          \
  X(Weigh, weigh)                                               \
  X(WeightedCount, weighted_count)

namespace podium {

// The operations, in the order of the list.
enum class OpKind : std::uint16_t {
#define PODIUM_OP_ENUM(Kind, name) k##Kind,
  PODIUM_OP_LIST(PODIUM_OP_ENUM)
#undef PODIUM_OP_ENUM
};

#define PODIUM_OP_DECLARE(Kind, name) extern const OpDef name##_op;
PODIUM_OP_LIST(PODIUM_OP_DECLARE)
#undef PODIUM_OP_DECLARE

// All definitions, in the order of the list.
std::span<const OpDef* const> all_ops();

}  // namespace podium
