// Softmax cross-entropy with label smoothing, the mean of losses, guesses, and how many are right.
//   C1 logits are [N, K]
//   C2 labels are i32 [N], each in [0, K) (the loader checks: data/source/loader.h)
//   C3 0 <= label smoothing < 1
#include <cmath>
#include <vector>

#include "base/numerics/functions.h"
#include "ops/ops.h"

namespace podium {
namespace {

void check(const InferContext& context) {
  const TensorType &logits = context.inputs[0], &labels = context.inputs[1];
  context.require(logits.shape.rank() == 2, "needs logits [N, K], got ", to_string(logits));
  context.require(labels == TensorType{DType::kI32, Shape{logits.shape[0]}},
                  "needs one i32 label for each of ", logits.shape[0], " examples, got ",
                  to_string(labels));
}

// What loss and gradient share for one example: d = z - max z, e = exp(d), sum e.
struct Softmax {
  std::vector<float> d, e;
  float sum;
  Softmax(std::span<const float> logits) : d(logits.size()), e(logits.size()) {
    float largest = logits[0];
    for (const float z : logits) largest = z > largest ? z : largest;
    for (std::size_t k = 0; k < logits.size(); ++k) {
      d[k] = logits[k] - largest;
      e[k] = exp_f32(d[k]);
    }
    sum = lane_sum(static_cast<std::int64_t>(e.size()),
                   [&](std::int64_t k) { return e[static_cast<std::size_t>(k)]; });
  }
};

std::span<const float> row(const Tensor& matrix, std::int64_t n) {
  const auto k = static_cast<std::size_t>(matrix.shape()[1]);
  return matrix.f32().subspan(static_cast<std::size_t>(n) * k, k);
}

std::vector<TensorType> infer(const InferContext& context) {
  check(context);
  const float a = context.as<SoftmaxCrossEntropyAttributes>().label_smoothing;
  context.require(a >= 0 && a < 1, "the label smoothing ", a, " is outside [0, 1)");
  return {{DType::kF32, Shape{context.inputs[0].shape[0]}}};
}

std::vector<Value> gradient(const GradientContext& context) {
  const Node self = context.self();
  return {
      context.graph.add1(softmax_cross_entropy_grad_op, self.attributes,
                         {self.inputs[0], self.inputs[1], context.output_gradients[0]}, self.name),
      Value{}};
}

void reference(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const float a = attributes.as<SoftmaxCrossEntropyAttributes>().label_smoothing;
  for (std::int64_t n = 0; n < inputs[0]->shape()[0]; ++n) {
    const Softmax softmax(row(*inputs[0], n));
    const float d = softmax.d[static_cast<std::size_t>(inputs[1]->i32()[n])];
    const float lse = log_f32(softmax.sum);
    if (a == 0) {
      outputs[0]->f32()[n] = lse - d;
    } else {
      const auto classes = static_cast<std::int64_t>(softmax.d.size());
      const float sum =
          lane_sum(classes, [&](std::int64_t k) { return softmax.d[static_cast<std::size_t>(k)]; });
      outputs[0]->f32()[n] = lse - std::fma(1.0f - a, d, (a / static_cast<float>(classes)) * sum);
    }
  }
}

Cost cost(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return {20.0 * static_cast<double>(in[0].shape.elements()),
          2.0 * static_cast<double>(in[0].bytes())};
}

std::vector<OpSample> make_samples(bool with_gradient) {
  std::vector<OpSample> list;
  for (const auto& [images, classes] :
       {std::pair<std::int64_t, std::int64_t>{32, 10}, {17, 3}, {5, 40}})
    for (const float smoothing : {0.0f, 0.2f}) {
      list.push_back({SoftmaxCrossEntropyAttributes{smoothing},
                      {{DType::kF32, {images, classes}}, {DType::kI32, {images}}}});
      if (with_gradient) list.back().inputs.push_back({DType::kF32, {images}});
    }
  return list;
}

std::vector<OpSample> samples() { return make_samples(false); }

// --- gradient: (logits, labels, dloss [N]) -> dlogits ---

std::vector<TensorType> infer_grad(const InferContext& context) {
  check(context);
  context.require(context.inputs[2] == TensorType{DType::kF32, Shape{context.inputs[0].shape[0]}},
                  "needs dloss [N]");
  return {context.inputs[0]};
}

void reference_grad(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const float a = attributes.as<SoftmaxCrossEntropyAttributes>().label_smoothing;
  const std::int64_t classes = inputs[0]->shape()[1];
  const float other = a / static_cast<float>(classes);
  const float own = (1.0f - a) + other;
  for (std::int64_t n = 0; n < inputs[0]->shape()[0]; ++n) {
    const Softmax softmax(row(*inputs[0], n));
    for (std::int64_t k = 0; k < classes; ++k) {
      const float target = k == inputs[1]->i32()[n] ? own : other;
      outputs[0]->f32()[n * classes + k] =
          (softmax.e[static_cast<std::size_t>(k)] / softmax.sum - target) * inputs[2]->f32()[n];
    }
  }
}

std::vector<OpSample> samples_grad() { return make_samples(true); }

// --- mean over the images of a replica ---

std::vector<TensorType> infer_mean(const InferContext& context) {
  context.require(context.inputs[0].shape.rank() == 1, "needs [N], got ",
                  to_string(context.inputs[0]));
  return {{DType::kF32, Shape{}}};
}

void reference_mean(const Attributes&, ConstTensors inputs, Tensors outputs) {
  const std::int64_t n = inputs[0]->elements();
  outputs[0]->f32()[0] =
      lane_sum(n, [&](std::int64_t i) { return inputs[0]->f32()[i]; }) / static_cast<float>(n);
}

Cost cost_mean(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return {static_cast<double>(in[0].shape.elements()), static_cast<double>(in[0].bytes())};
}

std::vector<OpSample> samples_mean() {
  return {{{}, {{DType::kF32, {32}}}}, {{}, {{DType::kF32, {37}}}}};
}

// --- guesses, and right answers ---

// The first largest value; -1 where a value is NaN.
std::int32_t first_largest(std::span<const float> values) {
  std::size_t best = 0;
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (std::isnan(values[k])) return -1;
    if (values[k] > values[best]) best = k;
  }
  return static_cast<std::int32_t>(best);
}

std::vector<TensorType> infer_argmax(const InferContext& context) {
  const TensorType& x = context.inputs[0];
  context.require(x.dtype == DType::kF32 && x.shape.rank() == 2, "needs f32 [N, K], got ",
                  to_string(x));
  return {{DType::kI32, Shape{x.shape[0]}}};
}

void reference_argmax(const Attributes&, ConstTensors inputs, Tensors outputs) {
  for (std::int64_t n = 0; n < inputs[0]->shape()[0]; ++n)
    outputs[0]->i32()[n] = first_largest(row(*inputs[0], n));
}

std::vector<OpSample> samples_argmax() {
  return {{{}, {{DType::kF32, {33, 10}}}},
          {{}, {{DType::kF32, {17, 3}}}},
          {{}, {{DType::kF32, {2, 40}}}},
          {{}, {{DType::kF32, {1, 1}}}}};
}

std::vector<TensorType> infer_correct(const InferContext& context) {
  check(context);
  return {{DType::kI32, Shape{}}};
}

void reference_correct(const Attributes&, ConstTensors inputs, Tensors outputs) {
  std::int32_t count = 0;
  for (std::int64_t n = 0; n < inputs[0]->shape()[0]; ++n)
    count += first_largest(row(*inputs[0], n)) == inputs[1]->i32()[n] ? 1 : 0;
  outputs[0]->i32()[0] = count;
}

Cost cost_correct(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  return {0, static_cast<double>(in[0].bytes())};
}

}  // namespace

Value softmax_cross_entropy(Graph& graph, Value logits, Value labels, float label_smoothing,
                            std::string name) {
  return graph.add1(softmax_cross_entropy_op, SoftmaxCrossEntropyAttributes{label_smoothing},
                    {logits, labels}, std::move(name));
}
Value batch_mean(Graph& graph, Value x, std::string name) {
  return graph.add1(batch_mean_op, {}, {x}, std::move(name));
}
Value correct(Graph& graph, Value logits, Value labels, std::string name) {
  return graph.add1(correct_op, {}, {logits, labels}, std::move(name));
}
Value argmax(Graph& graph, Value x, std::string name) {
  return graph.add1(argmax_op, {}, {x}, std::move(name));
}

const OpDef softmax_cross_entropy_op = {OpKind::kSoftmaxCrossEntropy,
                                        "softmax_cross_entropy",
                                        infer,
                                        gradient,
                                        reference,
                                        cost,
                                        samples};
const OpDef softmax_cross_entropy_grad_op = {OpKind::kSoftmaxCrossEntropyGrad,
                                             "softmax_cross_entropy_grad",
                                             infer_grad,
                                             nullptr,
                                             reference_grad,
                                             cost,
                                             samples_grad};
const OpDef batch_mean_op = {OpKind::kBatchMean, "batch_mean", infer_mean,  nullptr,
                             reference_mean,     cost_mean,    samples_mean};
const OpDef correct_op = {OpKind::kCorrect,  "correct",    infer_correct, nullptr,
                          reference_correct, cost_correct, samples};
const OpDef argmax_op = {OpKind::kArgmax,  "argmax",     infer_argmax,  nullptr,
                         reference_argmax, cost_correct, samples_argmax};

}  // namespace podium
