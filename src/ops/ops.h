// Attribute structs of the operations, and the functions that append them to a graph. Each
// operation's rules (shape, gradient, reference, cost, samples) stand together in its file beside
// this header.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/activation.h"
#include "graph/graph.h"
#include "ops/op_list.h"
#include "ops/reference_sums.h"

namespace podium {

// [N, C, H, W] or [N, F] as planes; the name of the rule broken otherwise is C0 in error texts.
Planes planes_of(const Shape& shape);

// --- convolution (ops/conv2d.cc)

// Of conv2d and its gradients.
struct Conv2dAttributes {
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  // The gradients need the size that the forward pass saw: of the images for the gradient to data,
  // of the kernel for the gradient to weights. Zero in the forward pass.
  std::int64_t extent_h = 0, extent_w = 0;
  // Set by the fusion pass, in conv2d_winograd and its gradients alone. `pools`: the output is
  // pooled, the largest of each window of 2x2 taken, and dy is the gradient to that. `places`: the
  // convolution has a second result, which pixel of each window was taken, as max_pool has; its
  // gradients have it for third operand where they pool.
  bool pools = false, places = false;
  // So, in conv2d_winograd and its gradient to the weights: the images are what a batch norm made
  // of its input x, activation(x * scale + shift); x stands in their place, and scale and shift are
  // the last operand, [2, C].
  bool normalises = false;
  Activation activation = {};

  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("stride_h", stride_h), v("stride_w", stride_w), v("pad_top", pad_top),
        v("pad_bottom", pad_bottom);
    v("pad_left", pad_left), v("pad_right", pad_right), v("extent_h", extent_h),
        v("extent_w", extent_w);
    v("pools", pools), v("places", places);
    v("normalises", normalises), v("activation", activation.kind), v("slope", activation.slope);
  }
};

// Padding so that the output has ceil(extent / stride) rows and columns; an odd remainder goes
// below and to the right.
Conv2dAttributes same_padding(const Shape& images, std::int64_t kernel_h, std::int64_t kernel_w,
                              std::int64_t stride);

// images [N, C, H, W], weights [K, C, R, S] -> [N, K, P, Q].
Value conv2d(Graph& graph, Value images, Value weights, const Conv2dAttributes& attributes,
             std::string name = "");

// Whether the gradient of conv2d to the weights [out, in, R, S] goes by columns, in runs of 256,
// and not by images.
constexpr bool conv2d_is_wide(std::int64_t in_channels, std::int64_t out_channels) {
  return in_channels >= 16 && out_channels % 16 == 0;
}
// Whether the layer, of images x, is wide: its gradient to the weights has an order of its own, and
// may normalise the images.
bool winograd_is_wide(const Conv2dAttributes& attributes, const Shape& x,
                      std::int64_t out_channels);
// Whether conv2d_winograd of images x may pool its output y: its tiles are all whole.
bool winograd_pools(const Conv2dAttributes& attributes, const Shape& x, const Shape& y);
// The output of a convolution, from its result, or from a gradient to that: twice as high and wide
// where it is pooled.
Shape winograd_output(const Conv2dAttributes& attributes, const Shape& result);

// --- dense layers and sums (ops/matmul.cc, ops/bias.cc)

// Of matmul.
struct MatmulAttributes {
  bool transpose_a = false, transpose_b = false;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("transpose_a", transpose_a), v("transpose_b", transpose_b);
  }
};
// [M, K] x [K, N] -> [M, N]; a transposed operand is stored [K, M] or [N, K].
Value matmul(Graph& graph, Value a, Value b, const MatmulAttributes& attributes,
             std::string name = "");
// [N, C, ...] + [C].
Value bias_add(Graph& graph, Value x, Value bias, std::string name = "");

// --- batch normalisation (ops/batch_norm.cc)

// Of batch_norm, its gradient and batch_norm_inference.
struct BatchNormAttributes {
  float epsilon = 1e-3f;
  // Set by the fusion pass: what follows; whether the largest of each window of 2x2 is taken of
  // that; whether one more operand, shaped as x, is added to the result (of the gradient: to dx).
  Activation activation = {};
  bool pools = false;
  bool adds = false;
  // So, of batch_norm alone: whether those that read the result make it from x themselves. The
  // result is then what they need, scale and shift, [2, C].
  bool defers = false;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("epsilon", epsilon), v("activation", activation.kind), v("slope", activation.slope),
        v("pools", pools), v("adds", adds), v("defers", defers);
  }
};
// What batch_norm gives.
struct BatchNormOutputs {
  Value y, mean, variance, inv_std;  // the last three are [C], of this replica's batch
};
// x [N, C, ...], gamma and beta [C]. y = (x - mean) * inv_std * gamma + beta, by the mean and the
// variance of each channel in this batch; inv_std = 1 / sqrt(variance + epsilon).
BatchNormOutputs batch_norm(Graph& graph, Value x, Value gamma, Value beta, float epsilon,
                            std::string name = "");
// The same by a mean and a variance [C] that are given.
Value batch_norm_inference(Graph& graph, Value x, Value gamma, Value beta, Value mean,
                           Value variance, float epsilon, std::string name = "");

// Of batch_norm_running.
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
// momentum * old + (1 - momentum) * new, where the new variance is first made unbiased: times
// count / (count - 1).
RunningStatistics batch_norm_running(Graph& graph, RunningStatistics old, Value mean,
                                     Value variance, const BatchNormRunningAttributes& attributes,
                                     std::string name = "");

// --- pooling (ops/pool.cc)

// Of max_pool, avg_pool and their gradients.
struct PoolAttributes {
  std::int64_t window_h = 2, window_w = 2;
  // The gradient to an average needs the size of the images; zero otherwise.
  std::int64_t height = 0, width = 0;
  // Set by the fusion pass, in max_pool alone: a second result says where in its window each
  // maximum stands, row by row from 0, as a float.
  bool places = false;
  // Of max_pool and its gradient: pixels between windows (0: as many as a window has, so that they
  // tile the image), and pixels around the image that a window may cover and that are never its
  // largest.
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
// [N, C, H, W] -> [N, C, P, Q], whole windows of the padded image alone: P = H / window_h where
// they tile it.
Shape pooled(const Shape& x, const PoolAttributes& attributes = {});
// 1 over the pixels of a window, rounded once.
float pool_share(const PoolAttributes& attributes);
// A window of the image's own size pools globally.
Value max_pool(Graph& graph, Value x, std::int64_t window_h, std::int64_t window_w,
               std::string name = "");
Value max_pool(Graph& graph, Value x, const PoolAttributes& attributes, std::string name = "");
Value avg_pool(Graph& graph, Value x, std::int64_t window_h, std::int64_t window_w,
               std::string name = "");

// --- activations, dropout (ops/activation.cc, ops/dropout.cc)

// Of activate and its gradient.
struct ActivationAttributes {
  Activation activation;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("activation", activation.kind), v("slope", activation.slope);
  }
};
// Each element through the activation.
Value activate(Graph& graph, Value x, const Activation& activation, std::string name = "");
Value relu(Graph& graph, Value x, std::string name = "");

// Of dropout_mask.
struct DropoutMaskAttributes {
  float rate = 0.5f;
  std::uint64_t seed = 0;
  std::uint32_t layer = 0;  // tells the streams of several dropout layers apart
  Shape shape;              // [B/R, ...]
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("rate", rate), v("seed", seed), v("layer", layer), v("shape", to_string(shape));
  }
};
// The factors (0 or 1 / (1 - rate)) for this step and replica, both u32 scalars.
Value dropout_mask(Graph& graph, Value step, Value replica, const DropoutMaskAttributes& attributes,
                   std::string name = "");

// --- loss (ops/loss.cc)

// Of softmax_cross_entropy and its gradient.
struct SoftmaxCrossEntropyAttributes {
  float label_smoothing = 0;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("label_smoothing", label_smoothing);
  }
};
// logits [N, K], labels i32 [N] -> loss of each example [N].
Value softmax_cross_entropy(Graph& graph, Value logits, Value labels, float label_smoothing,
                            std::string name = "");
// [N] -> scalar: image sum / N.
Value batch_mean(Graph& graph, Value x, std::string name = "");
// How many logits have their largest value at the label: i32 scalar.
Value correct(Graph& graph, Value logits, Value labels, std::string name = "");
// [N, K] -> i32 [N]: where the largest value of each row stands, the first of equals; -1 where a
// value of the row is NaN.
Value argmax(Graph& graph, Value x, std::string name = "");

// --- element-wise and shapes (ops/elementwise.cc, ops/shape_ops.cc)

// Of fill.
struct FillAttributes {
  float value = 0;
  Shape shape;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("value", value), v("shape", to_string(shape));
  }
};
// A tensor of one value.
Value fill(Graph& graph, const Shape& shape, float value, std::string name = "");

// Of reshape.
struct ReshapeAttributes {
  Shape shape;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("shape", to_string(shape));
  }
};
// Row-major order is kept. The first axis (the images of a batch) stays.
Value reshape(Graph& graph, Value x, const Shape& shape, std::string name = "");
// [N, ...] -> [N, F].
Value flatten(Graph& graph, Value x, std::string name = "");

// Of pad_channels.
struct PadChannelsAttributes {
  std::int64_t before = 0, after = 0;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("before", before), v("after", after);
  }
};
// [N, C, ...] -> [N, before + C + after, ...], the new channels +0 (ops/channels.cc).
Value pad_channels(Graph& graph, Value x, std::int64_t before, std::int64_t after,
                   std::string name = "");
// Of slice_channels.
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
// Of scale.
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
// Of divide.
struct DivideAttributes {
  float divisor = 1;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("divisor", divisor);
  }
};
// x / divisor: a mean, from the sum over `divisor` replicas.
Value divide(Graph& graph, Value x, float divisor, std::string name = "");

// Of view.
struct ViewAttributes {
  std::int64_t views = 1;  // one of kViewCounts (base/view.h)
  std::int64_t index = 0;  // of the view, below that number
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("views", views), v("index", index);
  }
};
// View `index` of each image [N, C, H, W] (ops/view.cc). Evaluation averages the network's outputs
// for the views by fill, scale and add.
Value view(Graph& graph, Value images, std::int64_t views, std::int64_t index,
           std::string name = "");

// --- updates (ops/updates.cc). Flat ranges of parameters; values that change from step to step are
// scalar inputs.

// The shape rule that they share: the first `tensors` inputs are of one type, the others scalars.
void require_update_operands(const InferContext& context, std::size_t tensors);

// Of sgd_update.
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

// Of adam_update.
struct AdamAttributes {
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, weight_decay = 0;
  // Weight decay shrinks the parameter by lr * weight_decay and is not added to the gradient
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
// beta2^t). `scalars` in this order.
std::array<Value, 3> adam_update(Graph& graph, Value parameter, Value gradient, Value m, Value v,
                                 std::span<const Value> scalars, const AdamAttributes& attributes,
                                 std::string name = "");

// --- pieces of Muon (ops/rescale.cc)

// Of rescale.
struct RescaleAttributes {
  float norm = 1, epsilon = 0;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("norm", norm), v("epsilon", epsilon);
  }
};
// x * (norm / (|x| + epsilon)), |x| the root of the sum of all squares.
Value rescale(Graph& graph, Value x, float norm, float epsilon, std::string name = "");
// That sum: runs of kSquareRun elements, in each lane l the chain over the elements i mod 16 = l,
// the tree over the lanes, the tree over the runs.
inline constexpr std::int64_t kSquareRun = 4096;
float sum_of_squares(std::span<const float> x);

// Of combine.
struct CombineAttributes {
  float a = 1, b = 1;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("a", a), v("b", b);
  }
};
// a x + b y, as fma(a, x, b * y).
Value combine(Graph& graph, float a, Value x, float b, Value y, std::string name = "");
// parameter - rate * direction; the rate is a scalar.
Value descend(Graph& graph, Value parameter, Value direction, Value rate, std::string name = "");

// --- the norm of all gradients, and the factor that limits it (ops/gradient_norm.cc)

// [n] -> [ceil(n / kSquareRun)]: the sum of squares of each run of kSquareRun elements, as in
// sum_of_squares().
Value square_sums(Graph& graph, Value x, std::string name = "");
// Of global_norm.
struct GlobalNormAttributes {
  // The number of the first run of each parameter, from 0; at the end the number of all runs.
  std::vector<std::int64_t> first_runs;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("first_runs", first_runs);
  }
};
// The square_sums of all parameters, one after the other, [runs] -> scalar: the root of their sum.
Value global_norm(Graph& graph, Value sums, std::vector<std::int64_t> first_runs,
                  std::string name = "");
float global_norm(std::span<const float> sums, std::span<const std::int64_t> first_runs);
// Of clip_factor.
struct ClipFactorAttributes {
  float limit = 1;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("limit", limit);
  }
};
// Scalar -> scalar: what brings a norm down to the limit; 1 where it is not above it, NaN for NaN.
Value clip_factor(Graph& graph, Value norm, float limit, std::string name = "");
float clip_factor(float norm, float limit);

// Of lars_rate.
struct LarsRateAttributes {
  float trust = 0.001f, weight_decay = 0;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("trust", trust), v("weight_decay", weight_decay);
  }
};
// The learning rate of one parameter by LARS (You et al., Large batch training of convolutional
// networks, 2017), scalars: rate * trust * |p| / (|g| + weight_decay * |p|); the rate itself where
// a norm is not above 0.
Value lars_rate(Graph& graph, Value parameter_norm, Value gradient_norm, Value rate,
                const LarsRateAttributes& attributes, std::string name = "");
float lars_rate(float parameter_norm, float gradient_norm, float rate,
                const LarsRateAttributes& attributes);

// --- the hash that runs are compared by (ops/hash_sum.cc)

// Of hash_sum.
struct HashSumAttributes {
  std::uint64_t first = 0;  // where x begins in the tensor that is hashed; even
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("first", first);
  }
};
// [n] -> u32 [2], the low and the high word of base/hash.h's hash_sum(). Where n is odd, x must be
// the end of the tensor.
Value hash_sum(Graph& graph, Value x, std::uint64_t first, std::string name = "");

}  // namespace podium
