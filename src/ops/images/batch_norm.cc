// Batch normalisation over the images and pixels of one replica (Ioffe, Szegedy: Batch
// Normalization, ICML 2015).
//   C1 x is [N, C, H, W] or [N, C]
//   C2 gamma, beta and statistics are [C]
//   C3 a channel has at least two values
//   C4 an operand that is added has the shape of x
//   C5 what is pooled is [N, C, H, W] of even height and width, and nothing is added to the pooled
//   C6 a result that is deferred is not pooled, and nothing is added to it
//   C7 an activation is that of a sum where there is a sum, and not in a gradient
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ops/images/reference_pool.h"
#include "ops/ops.h"

namespace podium {
namespace {

Shape result_shape(const BatchNormAttributes& a, const Shape& x) { return a.pools ? pooled(x) : x; }

// `operands`: without one that is added.
void check(const InferContext& context, const Shape& x, std::size_t first_vector,
           std::size_t operands) {
  context.require(x.rank() == 4 || x.rank() == 2, "needs [N, C, H, W] or [N, C], got ",
                  to_string(x));
  if (context.as<BatchNormAttributes>().adds) {
    context.require(context.inputs[operands].shape == x, "C4: x is ", to_string(x),
                    ", what is added is ", to_string(context.inputs[operands].shape));
  }
  context.require(!context.as<BatchNormAttributes>().activates_sum ||
                      (context.as<BatchNormAttributes>().adds && first_vector == 1),
                  "C7: no sum whose activation is meant");
  if (context.as<BatchNormAttributes>().pools) {
    context.require(x.rank() == 4 && x[2] % 2 == 0 && x[3] % 2 == 0,
                    "C5: windows of 2x2 do not tile ", to_string(x));
  }
  for (std::size_t i = first_vector; i < operands; ++i) {
    context.require(context.inputs[i].shape == Shape{x[1]}, "x has ", x[1],
                    " channels, a parameter or statistic is ", to_string(context.inputs[i].shape));
  }
}

void check_count(const InferContext& context, const Shape& x) {
  context.require(
      x.elements() / x[1] >= 2, "each channel of ", to_string(x),
      " has one value in a replica, and one value has no variance; give each replica more images "
      "(a larger batch or fewer replicas)");
}

TensorType infer_result(const InferContext& context) {
  const auto& a = context.as<BatchNormAttributes>();
  context.require(!(a.pools && a.adds), "C5: nothing is added to what is pooled");
  if (a.defers) {
    context.require(!a.pools && !a.adds, "C6: what is deferred is neither pooled nor added to");
    return {DType::kF32, Shape{2, context.inputs[0].shape[1]}};
  }
  return {DType::kF32, result_shape(a, context.inputs[0].shape)};
}

Cost pass_cost(const TensorType& x, double flops, double passes) {
  return {flops * static_cast<double>(x.shape.elements()), passes * static_cast<double>(x.bytes())};
}

// --- training: (x, gamma, beta) -> (y, mean, variance, inv_std) ---

std::vector<TensorType> infer(const InferContext& context) {
  const Shape& x = context.inputs[0].shape;
  check(context, x, 1, 3);
  check_count(context, x);
  const TensorType vector{DType::kF32, Shape{x[1]}};
  return {infer_result(context), vector, vector, vector};
}

std::vector<Value> gradient(const GradientContext& context) {
  for (std::size_t i = 1; i < 4; ++i) {
    PODIUM_CHECK(!context.output_gradients[i],
                 "no gradient flows through the statistics of batch_norm");
  }
  const Node self = context.self();
  auto attributes = self.attributes.as<BatchNormAttributes>();
  PODIUM_CHECK(!attributes.defers && !attributes.activates_sum,
               "graphs are differentiated before they are fused");
  const bool adds = std::exchange(attributes.adds, false);
  const Value x = self.inputs[0], gamma = self.inputs[1], beta = self.inputs[2];
  std::vector<Value> found = context.graph.add(
      batch_norm_grad_op, attributes,
      {context.output_gradients[0], x, gamma, beta, context.output(1), context.output(3)},
      self.name);
  if (adds) found.push_back(context.output_gradients[0]);
  return found;
}

// Activated, pooled where the unit does that.
void write_result(const BatchNormAttributes& a, const Shape& x, std::span<const float> activated,
                  std::span<float> y) {
  if (a.pools)
    pool_largest(x, PoolAttributes(), activated, y);
  else
    std::ranges::copy(activated, y.begin());
}

// What a unit that defers its result puts out for channel c.
void write_affine(std::int64_t c, float scale, float shift, Tensor& affine) {
  affine.f32()[c] = scale, affine.f32()[affine.shape()[1] + c] = shift;
}

// The value and, where there is one, the operand that is added to it.
float plus(const BatchNormAttributes& a, ConstTensors inputs, std::size_t operand, std::int64_t i,
           float value) {
  return a.adds ? value + inputs[operand]->f32()[static_cast<std::size_t>(i)] : value;
}
// What a unit that is not pooled makes of a normalised value.
float result_of(const BatchNormAttributes& a, ConstTensors inputs, std::size_t operand,
                std::int64_t i, float value) {
  if (a.activates_sum) return activate_f32(a.activation, plus(a, inputs, operand, i, value));
  return plus(a, inputs, operand, i, activate_f32(a.activation, value));
}

void reference(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto& a = attributes.as<BatchNormAttributes>();
  const auto x = inputs[0]->f32(), gamma = inputs[1]->f32(), beta = inputs[2]->f32();
  const auto means = outputs[1]->f32(), variances = outputs[2]->f32(), inv_stds = outputs[3]->f32();
  std::vector<float> y(x.size());
  const Planes planes = planes_of(inputs[0]->shape());
  const auto m = static_cast<float>(planes.images * planes.pixels());
  for (std::int64_t c = 0; c < planes.channels; ++c) {
    const float s1 =
        channel_total(planes, c, [&](float acc, std::int64_t i) { return acc + x[i]; });
    const float s2 = channel_total(
        planes, c, [&](float acc, std::int64_t i) { return std::fma(x[i], x[i], acc); });
    const float mean = s1 / m;
    const float raw = std::fma(-mean, mean, s2 / m);
    const float variance = raw < 0 ? 0.0f : raw;
    const float inv_std = 1.0f / std::sqrt(variance + a.epsilon);
    const float scale = gamma[c] * inv_std;
    const float shift = std::fma(-mean, scale, beta[c]);
    means[c] = mean, variances[c] = variance, inv_stds[c] = inv_std;
    if (a.defers) {
      write_affine(c, scale, shift, *outputs[0]);
      continue;
    }
    for (std::int64_t n = 0; n < planes.images; ++n)
      for (std::int64_t i = planes.offset(n, c); i < planes.offset(n, c) + planes.pixels(); ++i)
        y[i] = result_of(a, inputs, 3, i, std::fma(x[i], scale, shift));
  }
  if (!a.defers) write_result(a, inputs[0]->shape(), y, outputs[0]->f32());
}

Cost cost(const Attributes& attributes, std::span<const TensorType> in,
          std::span<const TensorType>) {
  const auto& a = attributes.as<BatchNormAttributes>();
  return a.defers ? pass_cost(in[0], 3, 1) : pass_cost(in[0], 5, a.pools ? 2.25 : 3);
}

const std::vector<Shape>& sample_shapes() {
  static const std::vector<Shape> shapes = {
      {2, 3, 5, 7}, {17, 4, 4, 4}, {32, 6, 9, 8}, {35, 3, 6, 10}, {33, 40}, {2, 5}, {16, 17}};
  return shapes;
}

template <typename A>
std::vector<OpSample> channel_samples(const A& attributes, int tensors, int vectors) {
  std::vector<OpSample> list;
  for (const Shape& shape : sample_shapes()) {
    OpSample sample{attributes, {}};
    for (int i = 0; i < tensors; ++i) sample.inputs.push_back({DType::kF32, shape});
    for (int i = 0; i < vectors; ++i) sample.inputs.push_back({DType::kF32, Shape{shape[1]}});
    list.push_back(std::move(sample));
  }
  return list;
}

std::vector<OpSample> with_each_activation(int tensors, int vectors) {
  std::vector<OpSample> list;
  for (const Activation& activation : kActivations) {
    for (OpSample& sample :
         channel_samples(BatchNormAttributes{.activation = activation}, tensors, vectors))
      list.push_back(std::move(sample));
  }
  const BatchNormAttributes sum{.adds = true};
  BatchNormAttributes relu_and_sum = sum, relu_of_sum = sum;
  relu_and_sum.activation = relu_of_sum.activation = {ActivationKind::kRelu};
  relu_of_sum.activates_sum = true;
  for (const BatchNormAttributes& attributes : {sum, relu_and_sum, relu_of_sum}) {
    if (attributes.activates_sum && tensors == 2) continue;  // no gradient
    for (OpSample& sample : channel_samples(attributes, tensors, vectors)) {
      sample.inputs.push_back(sample.inputs[0]);
      list.push_back(std::move(sample));
    }
  }
  for (const Activation& activation : {Activation{}, Activation{ActivationKind::kRelu}}) {
    const BatchNormAttributes attributes{.activation = activation, .pools = true};
    for (OpSample& sample : channel_samples(attributes, tensors, vectors)) {
      const Shape x = sample.inputs[0].shape;
      if (x.rank() != 4 || x[2] % 2 != 0 || x[3] % 2 != 0) continue;
      if (tensors == 2) sample.inputs[0].shape = result_shape(attributes, x);
      list.push_back(std::move(sample));
    }
  }
  return list;
}

// Those, and with a result that is deferred.
std::vector<OpSample> with_each_result(int tensors, int vectors) {
  std::vector<OpSample> list = with_each_activation(tensors, vectors);
  for (OpSample& sample : channel_samples(BatchNormAttributes{.defers = true}, tensors, vectors))
    list.push_back(std::move(sample));
  return list;
}

std::vector<OpSample> samples() { return with_each_result(1, 2); }

// --- gradient: (dy, x, gamma, beta, mean, inv_std) -> (dx, dgamma, dbeta) ---
// With an activation, dy is the gradient to the activation's output; where that is pooled, to the
// pooled.

std::vector<TensorType> infer_grad(const InferContext& context) {
  const Shape &dy = context.inputs[0].shape, &x = context.inputs[1].shape;
  check(context, x, 2, 6);
  context.require(dy == result_shape(context.as<BatchNormAttributes>(), x), "dy is ", to_string(dy),
                  ", x is ", to_string(x));
  const TensorType vector{DType::kF32, Shape{x[1]}};
  return {context.inputs[1], vector, vector};
}

// dy, led back through the pooling where there is one.
std::vector<float> gradient_to_activated(const BatchNormAttributes& a, ConstTensors inputs) {
  const auto dy = inputs[0]->f32(), x = inputs[1]->f32();
  if (!a.pools) return {dy.begin(), dy.end()};
  const Planes planes = planes_of(inputs[1]->shape());
  std::vector<float> activated(x.size()), dx(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c =
        i / static_cast<std::size_t>(planes.pixels()) % static_cast<std::size_t>(planes.channels);
    const float scale = inputs[2]->f32()[c] * inputs[5]->f32()[c];
    const float shift = std::fma(-inputs[4]->f32()[c], scale, inputs[3]->f32()[c]);
    activated[i] = activate_f32(a.activation, std::fma(x[i], scale, shift));
  }
  lead_to_largest(inputs[1]->shape(), PoolAttributes(), dy, activated, dx);
  return dx;
}

void reference_grad(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto& a = attributes.as<BatchNormAttributes>();
  const auto x = inputs[1]->f32(), gamma = inputs[2]->f32(), beta = inputs[3]->f32();
  const auto means = inputs[4]->f32(), inv_stds = inputs[5]->f32();
  const auto dx = outputs[0]->f32(), dgamma = outputs[1]->f32(), dbeta = outputs[2]->f32();
  const Planes planes = planes_of(inputs[1]->shape());
  const auto m = static_cast<float>(planes.images * planes.pixels());
  const std::vector<float> dys = gradient_to_activated(a, inputs);
  for (std::int64_t c = 0; c < planes.channels; ++c) {
    const float mean = means[c], inv_std = inv_stds[c];
    const float scale = gamma[c] * inv_std;
    const float shift = std::fma(-mean, scale, beta[c]);
    const auto dy = [&](std::int64_t i) {
      return activate_grad_f32(a.activation, dys[i], std::fma(x[i], scale, shift));
    };
    const float sum_dy =
        channel_total(planes, c, [&](float acc, std::int64_t i) { return acc + dy(i); });
    const float sum_dyx = channel_total(
        planes, c, [&](float acc, std::int64_t i) { return std::fma(dy(i), x[i] - mean, acc); });
    dbeta[c] = sum_dy;
    dgamma[c] = sum_dyx * inv_std;
    const float to_dy = scale;
    const float to_x = -(to_dy * inv_std) * (dgamma[c] / m);
    const float constant = std::fma(-to_x, mean, -(to_dy * (dbeta[c] / m)));
    for (std::int64_t n = 0; n < planes.images; ++n)
      for (std::int64_t i = planes.offset(n, c); i < planes.offset(n, c) + planes.pixels(); ++i)
        dx[i] = plus(a, inputs, 6, i, std::fma(to_dy, dy(i), std::fma(to_x, x[i], constant)));
  }
}

Cost cost_grad(const Attributes& attributes, std::span<const TensorType> in,
               std::span<const TensorType>) {
  return pass_cost(in[1], 8, attributes.as<BatchNormAttributes>().pools ? 3.5 : 5);
}

std::vector<OpSample> samples_grad() { return with_each_activation(2, 4); }

// --- inference: (x, gamma, beta, mean, variance) -> y ---
// Its gradient to x is dy * scale: the same operation on dy, of beta and mean 0.

std::vector<TensorType> infer_inference(const InferContext& context) {
  check(context, context.inputs[0].shape, 1, 5);
  return {infer_result(context)};
}

void reference_inference(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto& a = attributes.as<BatchNormAttributes>();
  const auto x = inputs[0]->f32();
  std::vector<float> y(x.size());
  const Planes planes = planes_of(inputs[0]->shape());
  for (std::int64_t c = 0; c < planes.channels; ++c) {
    const float inv_std = 1.0f / std::sqrt(inputs[4]->f32()[c] + a.epsilon);
    const float scale = inputs[1]->f32()[c] * inv_std;
    const float shift = std::fma(-inputs[3]->f32()[c], scale, inputs[2]->f32()[c]);
    if (a.defers) {
      write_affine(c, scale, shift, *outputs[0]);
      continue;
    }
    for (std::int64_t n = 0; n < planes.images; ++n)
      for (std::int64_t i = planes.offset(n, c); i < planes.offset(n, c) + planes.pixels(); ++i)
        y[i] = result_of(a, inputs, 5, i, std::fma(x[i], scale, shift));
  }
  if (!a.defers) write_result(a, inputs[0]->shape(), y, outputs[0]->f32());
}

std::vector<Value> gradient_of_inference(const GradientContext& context) {
  const Node self = context.self();
  PODIUM_CHECK(std::ranges::count(context.wanted.subspan(1), true) == 0, self.name,
               ": parameters of a batch norm that runs on its running statistics are not trained");
  const auto& attributes = self.attributes.as<BatchNormAttributes>();
  PODIUM_CHECK(!attributes.defers && !attributes.pools && !attributes.adds,
               "graphs are differentiated before they are fused");
  const Value zeros = fill(context.graph, context.graph.shape(self.inputs[1]), 0.0f);
  return {batch_norm_inference(context.graph, context.output_gradients[0], self.inputs[1], zeros,
                               zeros, self.inputs[4], attributes.epsilon, self.name)};
}

Cost cost_inference(const Attributes& attributes, std::span<const TensorType> in,
                    std::span<const TensorType>) {
  const auto& a = attributes.as<BatchNormAttributes>();
  return a.defers ? pass_cost(in[1], 5, 6) : pass_cost(in[0], 2, a.pools ? 1.25 : 2);
}

std::vector<OpSample> samples_inference() { return with_each_result(1, 4); }

// --- running statistics: (old mean, old variance, mean, variance) -> (new mean, new variance) ---

std::vector<TensorType> infer_running(const InferContext& context) {
  const auto& a = context.as<BatchNormRunningAttributes>();
  context.require(a.count >= 2, "one value has no variance; give each replica more images");
  context.require(a.momentum >= 0 && a.momentum <= 1, "the momentum ", a.momentum,
                  " is outside [0, 1]");
  for (const TensorType& type : context.inputs)
    context.require(type == context.inputs[0] && type.shape.rank() == 1,
                    "needs four vectors of one length");
  return {context.inputs[0], context.inputs[1]};
}

void reference_running(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto& a = attributes.as<BatchNormRunningAttributes>();
  const float fresh = 1.0f - a.momentum;
  const float unbiased = static_cast<float>(a.count) / (static_cast<float>(a.count) - 1.0f);
  for (std::int64_t c = 0; c < inputs[0]->elements(); ++c) {
    outputs[0]->f32()[c] = std::fma(a.momentum, inputs[0]->f32()[c], fresh * inputs[2]->f32()[c]);
    outputs[1]->f32()[c] =
        std::fma(a.momentum, inputs[1]->f32()[c], fresh * (inputs[3]->f32()[c] * unbiased));
  }
}

Cost cost_running(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return pass_cost(in[0], 7, 6);
}

std::vector<OpSample> samples_running() {
  return channel_samples(BatchNormRunningAttributes{.momentum = 0.99f, .count = 100}, 0, 4);
}

}  // namespace

Planes planes_of(const Shape& shape) {
  PODIUM_CHECK(shape.rank() >= 2, to_string(shape));
  return {shape[0], shape[1], shape.rank() > 2 ? shape[2] : 1, shape.rank() > 3 ? shape[3] : 1};
}

BatchNormOutputs batch_norm(Graph& graph, Value x, Value gamma, Value beta, float epsilon,
                            std::string name) {
  const auto out = graph.add(batch_norm_op, BatchNormAttributes{.epsilon = epsilon},
                             {x, gamma, beta}, std::move(name));
  return {out[0], out[1], out[2], out[3]};
}

Value batch_norm_inference(Graph& graph, Value x, Value gamma, Value beta, Value mean,
                           Value variance, float epsilon, std::string name) {
  return graph.add1(batch_norm_inference_op, BatchNormAttributes{.epsilon = epsilon},
                    {x, gamma, beta, mean, variance}, std::move(name));
}

RunningStatistics batch_norm_running(Graph& graph, RunningStatistics old, Value mean,
                                     Value variance, const BatchNormRunningAttributes& attributes,
                                     std::string name) {
  const auto out = graph.add(batch_norm_running_op, attributes,
                             {old.mean, old.variance, mean, variance}, std::move(name));
  return {out[0], out[1]};
}

const OpDef batch_norm_op = {OpKind::kBatchNorm, "batch_norm", infer,  gradient,
                             reference,          cost,         samples};
const OpDef batch_norm_grad_op = {OpKind::kBatchNormGrad, "batch_norm_grad", infer_grad,  nullptr,
                                  reference_grad,         cost_grad,         samples_grad};
const OpDef batch_norm_inference_op = {
    OpKind::kBatchNormInference, "batch_norm_inference", infer_inference,  gradient_of_inference,
    reference_inference,         cost_inference,         samples_inference};
const OpDef batch_norm_running_op = {
    OpKind::kBatchNormRunning, "batch_norm_running", infer_running,  nullptr,
    reference_running,         cost_running,         samples_running};

}  // namespace podium
