// Attribute structs of the operations, and the functions that append the operations to a graph. The
// rules of each operation (shape, gradient, reference, cost, samples) are in its file beside this
// header.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/numerics/activation.h"
#include "base/numerics/precision.h"
#include "graph/graph.h"
#include "ops/op_list.h"
#include "ops/reference_sums.h"

namespace podium {

// [N, C, H, W] or [N, F] as planes. Any other shape is an error, which names rule C0.
Planes planes_of(const Shape& shape);

// --- convolution (ops/images/conv2d.cc)

// Attributes of conv2d and its gradients.
struct Conv2dAttributes {
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  // For the gradients, a size from the forward pass: that of the images for the input gradient,
  // that of the kernel for the weight gradient. Zero in the forward pass.
  std::int64_t extent_h = 0, extent_w = 0;
  // Set by the fusion pass, only for conv2d_winograd and its gradients. `pools`: max pooling over
  // windows of 2x2 follows, and dy is the gradient of the pooled output. `places`: like max_pool,
  // the convolution has a second result, the position of each maximum in its window. It is the
  // third operand of the gradients if they pool.
  bool pools = false, places = false;
  // Set by the fusion pass for conv2d_winograd and its weight gradient: the operand is the input x
  // of a batch norm, and the convolution computes the images activation(x * scale + shift) itself.
  // The last operand holds scale and shift, [2, C].
  bool normalises = false;
  Activation activation = {};
  // Of conv2d_bf16 and its gradients: how the products are added.
  Bf16Order order = Bf16Order::kAmx;

  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("stride_h", stride_h), v("stride_w", stride_w), v("pad_top", pad_top),
        v("pad_bottom", pad_bottom);
    v("pad_left", pad_left), v("pad_right", pad_right), v("extent_h", extent_h),
        v("extent_w", extent_w);
    v("pools", pools), v("places", places);
    v("normalises", normalises), v("activation", activation.kind), v("slope", activation.slope);
    if (order != Bf16Order::kAmx) v("order", name_of(order));
  }
};

// Padding so that the output has ceil(extent / stride) rows and columns; an odd remainder goes
// below and to the right.
Conv2dAttributes same_padding(const Shape& images, std::int64_t kernel_h, std::int64_t kernel_w,
                              std::int64_t stride);

// images [N, C, H, W], weights [K, C, R, S] -> [N, K, P, Q].
Value conv2d(Graph& graph, Value images, Value weights, const Conv2dAttributes& attributes,
             std::string name = "");

// Whether the weight gradient of conv2d, [out, in, R, S], is summed over columns in runs of 256
// instead of over images.
constexpr bool conv2d_is_wide(std::int64_t in_channels, std::int64_t out_channels) {
  return in_channels >= 16 && out_channels % 16 == 0;
}
// Whether the layer with images x is wide: its weight gradient then has another order of sums, and
// may normalise the images.
bool winograd_is_wide(const Conv2dAttributes& attributes, const Shape& x,
                      std::int64_t out_channels);
// Whether conv2d_winograd of images x may pool its output y: all of its tiles must be whole.
bool winograd_pools(const Conv2dAttributes& attributes, const Shape& x, const Shape& y);
// The shape of the convolution's output before pooling, from the shape of its result or of the
// result's gradient: twice as high and wide if it is pooled.
Shape winograd_output(const Conv2dAttributes& attributes, const Shape& result);

// --- dense layers and sums (ops/matmul.cc, ops/bias.cc)

// Attributes of matmul.
struct MatmulAttributes {
  bool transpose_a = false, transpose_b = false;
  Bf16Order order = Bf16Order::kAmx;  // of matmul_bf16: how the products are added
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("transpose_a", transpose_a), v("transpose_b", transpose_b);
    if (order != Bf16Order::kAmx) v("order", name_of(order));
  }
};
// [M, K] x [K, N] -> [M, N]; a transposed operand is stored [K, M] or [N, K].
Value matmul(Graph& graph, Value a, Value b, const MatmulAttributes& attributes,
             std::string name = "");
// [N, C, ...] + [C].
Value bias_add(Graph& graph, Value x, Value bias, std::string name = "");

// --- batch normalisation (ops/images/batch_norm.cc)

// Attributes of batch_norm, its gradient and batch_norm_inference.
struct BatchNormAttributes {
  float epsilon = 1e-3f;
  // Set by the fusion pass: the activation that follows; whether max pooling over windows of 2x2
  // follows it; whether another operand, shaped like x, is added to the result (gradient: to dx);
  // whether the activation is that of the sum instead (not of a gradient).
  Activation activation = {};
  bool pools = false;
  bool adds = false;
  bool activates_sum = false;
  // Set by the fusion pass for batch_norm: the operations that read the result compute it from x
  // themselves. The result is then scale and shift, [2, C].
  bool defers = false;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("epsilon", epsilon), v("activation", activation.kind), v("slope", activation.slope),
        v("pools", pools), v("adds", adds), v("activates_sum", activates_sum), v("defers", defers);
  }
};
// The results of batch_norm.
struct BatchNormOutputs {
  Value y, mean, variance, inv_std;  // the last three are [C], of this replica's batch
};
// x [N, C, ...], gamma and beta [C]. y = (x - mean) * inv_std * gamma + beta, with the mean and the
// variance of each channel in this batch; inv_std = 1 / sqrt(variance + epsilon).
BatchNormOutputs batch_norm(Graph& graph, Value x, Value gamma, Value beta, float epsilon,
                            std::string name = "");
// The same with a given mean and variance, [C].
Value batch_norm_inference(Graph& graph, Value x, Value gamma, Value beta, Value mean,
                           Value variance, float epsilon, std::string name = "");

// Attributes of batch_norm_running.
struct BatchNormRunningAttributes {
  float momentum = 0.9f;   // the share of the old value that is kept
  std::int64_t count = 0;  // values per channel, N*H*W
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("momentum", momentum), v("count", count);
  }
};
// Running mean and variance, [C].
struct RunningStatistics {
  Value mean, variance;
};
// momentum * old + (1 - momentum) * new. The new variance is first made unbiased: multiplied by
// count / (count - 1).
RunningStatistics batch_norm_running(Graph& graph, RunningStatistics old, Value mean,
                                     Value variance, const BatchNormRunningAttributes& attributes,
                                     std::string name = "");

// --- pooling (ops/images/pool.cc)

// Attributes of max_pool, avg_pool and their gradients.
struct PoolAttributes {
  std::int64_t window_h = 2, window_w = 2;
  // The size of the images, for the gradient of avg_pool and that of max_pool from places; else 0.
  std::int64_t height = 0, width = 0;
  // Set by the fusion pass. Of max_pool: a second result holds the position of each maximum in its
  // window, counted row by row from 0, as a float. Of its gradient: the second operand is that
  // result, in the place of x.
  bool places = false;
  // For max_pool and its gradient: the distance between windows in pixels (0: the size of a window,
  // so that windows tile the image), and the padding around the image. Pixels of the padding are
  // never the maximum.
  std::int64_t stride_h = 0, stride_w = 0;
  std::int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;

  bool tiles() const {
    return (stride_h == 0 || stride_h == window_h) && (stride_w == 0 || stride_w == window_w) &&
           pad_top == 0 && pad_bottom == 0 && pad_left == 0 && pad_right == 0;
  }
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("window_h", window_h), v("window_w", window_w), v("height", height), v("width", width);
    v("places", places);
    v("stride_h", stride_h), v("stride_w", stride_w), v("pad_top", pad_top),
        v("pad_bottom", pad_bottom), v("pad_left", pad_left), v("pad_right", pad_right);
  }
};
// [N, C, H, W] -> [N, C, P, Q], only whole windows of the padded image: P = H / window_h if they
// tile it.
Shape pooled(const Shape& x, const PoolAttributes& attributes = {});
// 1 / (number of pixels in a window), rounded once.
float pool_share(const PoolAttributes& attributes);
// A window as large as the image is global pooling.
Value max_pool(Graph& graph, Value x, std::int64_t window_h, std::int64_t window_w,
               std::string name = "");
Value max_pool(Graph& graph, Value x, const PoolAttributes& attributes, std::string name = "");
Value avg_pool(Graph& graph, Value x, std::int64_t window_h, std::int64_t window_w,
               std::string name = "");

// --- activations, dropout (ops/activation.cc, ops/dropout.cc)

// Attributes of activate and its gradient.
struct ActivationAttributes {
  Activation activation;
  // Set by the fusion pass, of the gradient: dy is the sum of the first operand and a third.
  bool adds = false;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("activation", activation.kind), v("slope", activation.slope), v("adds", adds);
  }
};
// Applies the activation to each element.
Value activate(Graph& graph, Value x, const Activation& activation, std::string name = "");
Value relu(Graph& graph, Value x, std::string name = "");

// Attributes of dropout_mask.
struct DropoutMaskAttributes {
  float rate = 0.5f;
  std::uint64_t seed = 0;
  std::uint32_t layer = 0;  // gives each dropout layer its own random stream
  Shape shape;              // [B/R, ...]
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("rate", rate), v("seed", seed), v("layer", layer), v("shape", to_string(shape));
  }
};
// The factors, 0 or 1 / (1 - rate), for a step and a replica, which are u32 scalars.
Value dropout_mask(Graph& graph, Value step, Value replica, const DropoutMaskAttributes& attributes,
                   std::string name = "");

// --- loss (ops/loss.cc)

// Attributes of softmax_cross_entropy, linear_cross_entropy, which may be of BF16, and gradients.
struct SoftmaxCrossEntropyAttributes {
  float label_smoothing = 0;
  Bf16Order order = Bf16Order::kAmx;  // of linear_cross_entropy_bf16
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("label_smoothing", label_smoothing);
    if (order != Bf16Order::kAmx) v("order", name_of(order));
  }
};
// logits [N, K], labels i32 [N] -> loss of each example [N].
Value softmax_cross_entropy(Graph& graph, Value logits, Value labels, float label_smoothing,
                            std::string name = "");
// linear_cross_entropy (ops/sequences/linear_cross_entropy.cc), which compile/linear_loss.h makes:
// x [N, D], w [K, D], labels i32 [N] -> loss [N], the softmax_cross_entropy of the product x w^T.
// Its gradient, with that of each loss [N] as a fourth operand -> loss [N], dx, dw. Their products
// are those of matmul, or of matmul_bf16.

// [N] -> scalar: the image sum divided by N.
Value batch_mean(Graph& graph, Value x, std::string name = "");
// The number of examples whose largest logit is at the label: i32 scalar.
Value correct(Graph& graph, Value logits, Value labels, std::string name = "");
// [N, K] -> i32 [N]: the index of the largest value of each row, the first if several are equal; -1
// if a value of the row is NaN.
Value argmax(Graph& graph, Value x, std::string name = "");

// --- items that do not all count alike (ops/weights.cc)

// values [N], weights i32 [N] -> [N]: each value times its weight; 0 where the weight is 0,
// whatever the value.
Value weigh(Graph& graph, Value x, Value weights, std::string name = "");
// Three i32 [N] -> i32 scalar: the sum of the weights of the items where a equals b, so of all
// items if a and b are one value. -1 if a weight is negative, or the sum is beyond 31 bits.
Value weighted_count(Graph& graph, Value weights, Value a, Value b, std::string name = "");

// --- element-wise and shapes (ops/elementwise.cc, ops/shape_ops.cc)

// Attributes of fill.
struct FillAttributes {
  float value = 0;
  Shape shape;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("value", value), v("shape", to_string(shape));
  }
};
// A tensor whose elements all have one value.
Value fill(Graph& graph, const Shape& shape, float value, std::string name = "");

// Attributes of reshape.
struct ReshapeAttributes {
  Shape shape;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("shape", to_string(shape));
  }
};
// Keeps the row-major order. The first axis (the images of a batch) stays, or becomes a multiple or
// a divisor: sequences [B, T, ...] as tokens [B T, ...].
Value reshape(Graph& graph, Value x, const Shape& shape, std::string name = "");
// [N, ...] -> [N, F].
Value flatten(Graph& graph, Value x, std::string name = "");

// Attributes of permute: which axis of x each axis of the result is. N stays the first.
struct PermuteAttributes {
  std::int64_t channels = 1, rows = 2, columns = 3;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("channels", channels), v("rows", rows), v("columns", columns);
  }
};
// [N, C, H, W] -> the same values with its last three axes in another order (ops/shape_ops.cc).
Value permute(Graph& graph, Value x, const PermuteAttributes& axes, std::string name = "");
// Attributes of pad_channels.
struct PadChannelsAttributes {
  std::int64_t before = 0, after = 0;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("before", before), v("after", after);
  }
};
// [N, C, ...] -> [N, before + C + after, ...], the new channels +0 (ops/images/channels.cc).
Value pad_channels(Graph& graph, Value x, std::int64_t before, std::int64_t after,
                   std::string name = "");
// Attributes of slice_channels.
struct SliceChannelsAttributes {
  std::int64_t first = 0, count = 0;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("first", first), v("count", count);
  }
};
// [N, C, ...] -> [N, count, ...].
Value slice_channels(Graph& graph, Value x, std::int64_t first, std::int64_t count,
                     std::string name = "");

// Element by element; a and b have the same shape.
Value add(Graph& graph, Value a, Value b, std::string name = "");
Value sub(Graph& graph, Value a, Value b, std::string name = "");
Value mul(Graph& graph, Value a, Value b, std::string name = "");
// Attributes of scale.
struct ScaleAttributes {
  float factor = 1;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("factor", factor);
  }
};
// x * factor.
Value scale(Graph& graph, Value x, float factor, std::string name = "");
// x * factor, where the factor is a scalar input.
Value multiply_by(Graph& graph, Value x, Value factor, std::string name = "");
// Attributes of divide.
struct DivideAttributes {
  float divisor = 1;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("divisor", divisor);
  }
};
// x / divisor, as for the mean of a sum over `divisor` replicas.
Value divide(Graph& graph, Value x, float divisor, std::string name = "");

// Attributes of view.
struct ViewAttributes {
  std::int64_t views = 1;  // one of kViewCounts (base/numerics/view.h)
  std::int64_t index = 0;  // of the view, below that number
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("views", views), v("index", index);
  }
};
// View `index` of each image [N, C, H, W] (ops/images/view.cc). Evaluation averages the network's
// outputs over the views with fill, scale and add.
Value view(Graph& graph, Value images, std::int64_t views, std::int64_t index,
           std::string name = "");

// --- updates (ops/updates.cc) of flat ranges of parameters. Values that change from step to step
// are scalar inputs.

// Their common shape rule: the first `tensors` inputs have one type, the others are scalars.
void require_update_operands(const InferContext& context, std::size_t tensors);

// Attributes of sgd_update.
struct SgdAttributes {
  float momentum = 0, weight_decay = 0;
  bool nesterov = false;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("momentum", momentum), v("weight_decay", weight_decay), v("nesterov", nesterov);
  }
};
// (parameter, gradient, velocity [same shape], learning_rate []) -> (parameter, velocity).
std::array<Value, 2> sgd_update(Graph& graph, Value parameter, Value gradient, Value velocity,
                                Value learning_rate, const SgdAttributes& attributes,
                                std::string name = "");

// Attributes of adam_update.
struct AdamAttributes {
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, weight_decay = 0;
  // Weight decay multiplies the parameter by 1 - lr * weight_decay, and the gradient has none
  // (AdamW: Loshchilov, Hutter, ICLR 2019).
  bool decoupled = false;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("beta1", beta1), v("beta2", beta2), v("epsilon", epsilon), v("weight_decay", weight_decay),
        v("decoupled", decoupled);
  }
};
// (parameter, gradient, m, v, step_size [], inv_sqrt_correction []; decoupled: learning_rate [])
// -> (parameter, m, v); step_size = lr / (1 - beta1^t), inv_sqrt_correction = 1 / sqrt(1 -
// beta2^t). `scalars` are in this order.
std::array<Value, 3> adam_update(Graph& graph, Value parameter, Value gradient, Value m, Value v,
                                 std::span<const Value> scalars, const AdamAttributes& attributes,
                                 std::string name = "");

// --- parts of Muon (ops/rescale.cc)

// Attributes of rescale.
struct RescaleAttributes {
  float norm = 1, epsilon = 0;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("norm", norm), v("epsilon", epsilon);
  }
};
// x * (norm / (|x| + epsilon)), where |x| is the root of the sum of squares of all elements.
Value rescale(Graph& graph, Value x, float norm, float epsilon, std::string name = "");
// The order of that sum: in each run of kSquareRun elements, lane l is the chain over the elements
// with i mod 16 = l; then the tree over the lanes, then the tree over the runs.
inline constexpr std::int64_t kSquareRun = 4096;
float sum_of_squares(std::span<const float> x);

// Attributes of combine.
struct CombineAttributes {
  float a = 1, b = 1;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("a", a), v("b", b);
  }
};
// a x + b y, computed as fma(a, x, b * y).
Value combine(Graph& graph, float a, Value x, float b, Value y, std::string name = "");
// parameter - rate * direction; the rate is a scalar.
Value descend(Graph& graph, Value parameter, Value direction, Value rate, std::string name = "");

// --- the norm of all gradients, and the factor that limits it (ops/gradient_norm.cc)

// [n] -> [ceil(n / kSquareRun)]: the sum of squares of each run of kSquareRun elements, as in
// sum_of_squares().
Value square_sums(Graph& graph, Value x, std::string name = "");
// Attributes of global_norm.
struct GlobalNormAttributes {
  // The index of the first run of each parameter, and at the end the total number of runs.
  std::vector<std::int64_t> first_runs;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("first_runs", first_runs);
  }
};
// The square_sums of all parameters, concatenated, [runs] -> scalar: the root of their sum.
Value global_norm(Graph& graph, Value sums, std::vector<std::int64_t> first_runs,
                  std::string name = "");
float global_norm(std::span<const float> sums, std::span<const std::int64_t> first_runs);
// Attributes of clip_factor.
struct ClipFactorAttributes {
  float limit = 1;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("limit", limit);
  }
};
// Scalar -> scalar: the factor that reduces a norm to the limit; 1 if it is not above, NaN for NaN.
Value clip_factor(Graph& graph, Value norm, float limit, std::string name = "");
float clip_factor(float norm, float limit);

// Attributes of lars_rate.
struct LarsRateAttributes {
  float trust = 0.001f, weight_decay = 0;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("trust", trust), v("weight_decay", weight_decay);
  }
};
// The learning rate of one parameter by LARS (You et al., Large batch training of convolutional
// networks, 2017), scalars: rate * trust * |p| / (|g| + weight_decay * |p|); the rate itself if a
// norm is not above 0.
Value lars_rate(Graph& graph, Value parameter_norm, Value gradient_norm, Value rate,
                const LarsRateAttributes& attributes, std::string name = "");
float lars_rate(float parameter_norm, float gradient_norm, float rate,
                const LarsRateAttributes& attributes);

// --- the hash by which runs are compared (ops/hash_sum.cc)

// Attributes of hash_sum.
struct HashSumAttributes {
  std::uint64_t first = 0;  // offset of x in the hashed tensor; even
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("first", first);
  }
};
// [n] -> u32 [2], the low and the high word of base/numerics/hash.h's hash_sum(). If n is odd, x
// must be the end of the tensor.
Value hash_sum(Graph& graph, Value x, std::uint64_t first, std::string name = "");

// --- sequences: rows are tokens (ops/sequences/embedding.cc, ops/sequences/layer_norm.cc,
// ops/sequences/attention.cc, ops/sequences/lstm.cc, ops/sequences/gru.cc, ops/sequences/rotary.cc)

// Attributes of embedding and its gradient.
struct EmbeddingAttributes {
  bool positions = false;  // the row is the token's position in its sequence, not the token
  std::int64_t rows = 0;   // of the table, for the gradient; zero otherwise
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("positions", positions), v("rows", rows);
  }
};
// Tokens i32 [N] or [B, T], a table [V, C] -> [tokens, C].
Value embedding(Graph& graph, Value tokens, Value table, std::string name = "");
// Tokens [B, T], a table [at least T, C] -> [B T, C]: row t of the table for token t of a sequence.
Value position_embedding(Graph& graph, Value tokens, Value table, std::string name = "");

// Attributes of layer_norm and its gradient.
struct LayerNormAttributes {
  float epsilon = 1e-5f;
  bool centred = true;  // false: RMS norm, without mean and shift
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("epsilon", epsilon), v("centred", centred);
  }
};
// [N, C] -> [N, C]; scale and shift are [C].
Value layer_norm(Graph& graph, Value x, Value scale, Value shift, float epsilon = 1e-5f,
                 std::string name = "");
Value rms_norm(Graph& graph, Value x, Value scale, float epsilon = 1e-5f, std::string name = "");

// Attributes of attention and its gradient.
struct AttentionAttributes {
  std::int64_t heads = 1;             // of queries
  std::int64_t groups = 1;            // heads of keys and values
  std::int64_t tokens = 1;            // of a sequence of queries
  bool causal = true;                 // a query sees the keys up to its own place
  std::int64_t keys = 0;              // of a sequence of keys; 0: as many as queries
  Bf16Order order = Bf16Order::kAmx;  // of attention_bf16
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("heads", heads), v("groups", groups), v("tokens", tokens), v("causal", causal);
    v("keys", keys);
    if (order != Bf16Order::kAmx) v("order", name_of(order));
  }
};
// q [B T, H D], k and v [B S, G D] -> [B T, H D], scores divided by the root of D.
Value attention(Graph& graph, Value q, Value k, Value v, const AttentionAttributes& attributes,
                std::string name = "");
// The same, not causal, of which a query sees the first keys of its sequence alone, as many as
// `lengths` i32 [B] says: the others are padding. A length below 1 is 1, one above S is S.
Value attention(Graph& graph, Value q, Value k, Value v, Value lengths,
                const AttentionAttributes& attributes, std::string name = "");

// Attributes of lstm, gru and their gradients.
struct RecurrentAttributes {
  std::int64_t tokens = 1;  // of a sequence
  bool reverse = false;     // from the last token to the first
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("tokens", tokens), v("reverse", reverse);
  }
};
// What an LSTM gives: the state after each token, and after the last one that is read.
struct LstmResult {
  Value hidden;                   // [B T, H]
  Value last_hidden, last_cells;  // [B, H]
};
inline constexpr std::int32_t kLstmLastHidden = 1, kLstmLastCells = 2;  // among the results
// A layer of H units over whole sequences (Hochreiter, Schmidhuber 1997; with the forget gate of
// Gers et al. 2000). x [B T, 4 H] is what the tokens bring to the gates, biases included: input,
// forget, candidate, output, H columns each, as in PyTorch. w [4 H, H] multiplies the hidden state.
// hidden and cells [B, H] are the states before the first token that is read.
LstmResult lstm(Graph& graph, Value x, Value w, Value hidden, Value cells,
                const RecurrentAttributes& attributes, std::string name = "");

// What gated recurrent units give: the state after each token, and after the last one that is read.
struct GruResult {
  Value hidden;       // [B T, H]
  Value last_hidden;  // [B, H]
};
inline constexpr std::int32_t kGruLastHidden = 1;  // among the results
// A layer of H gated recurrent units (Cho et al. 2014, with the reset after the product, as in
// PyTorch). x [B T, 3 H] is what the tokens bring: reset, update, candidate. w [3 H, H] multiplies
// the hidden state, and b [3 H] is added to that product. hidden [B, H] as of an LSTM.
GruResult gru(Graph& graph, Value x, Value w, Value b, Value hidden,
              const RecurrentAttributes& attributes, std::string name = "");

// Attributes of rotary.
struct RotaryAttributes {
  std::int64_t tokens = 1;    // of a sequence
  std::int64_t features = 2;  // of a head, even
  float base = 10000;
  bool inverse = false;  // turns back: what the gradient does
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("tokens", tokens), v("features", features), v("base", base), v("inverse", inverse);
  }
};
// Rotary position embedding (Su et al., 2021): x [B T, H D] -> the same shape. Features i and
// i + D/2 of each head are turned by the angle t / base^(2i / D) at token t of a sequence.
Value rotary(Graph& graph, Value x, const RotaryAttributes& attributes, std::string name = "");
// [tokens, features]: of each token the cosines of its angles, then the sines.
std::vector<float> rotary_table(const RotaryAttributes& attributes);

}  // namespace podium
