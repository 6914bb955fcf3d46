// The cross-entropy of classes whose logits are a product, without the logits in memory, and the
// gradients to both operands of the product. compile/linear_loss.h puts them in the place of the
// operations that they are.
//   C1 x is [N, D], w [K, D]
//   C2 labels are i32 [N], each in [0, K)
//   C3 0 <= label smoothing < 1
// Of BF16, the products are matmul_bf16.
#include <algorithm>
#include <array>
#include <vector>

#include "ops/bf16.h"
#include "ops/ops.h"

namespace podium {
namespace {

// The loss of each row, whose type is that of what softmax_cross_entropy returns.
TensorType check(const InferContext& context) {
  const TensorType &x = context.inputs[0], &w = context.inputs[1], &labels = context.inputs[2];
  context.require(x.shape.rank() == 2 && w.shape.rank() == 2 && x.shape[1] == w.shape[1],
                  "needs x [N, D] and w [K, D], got ", to_string(x), " and ", to_string(w));
  const TensorType loss{DType::kF32, Shape{x.shape[0]}};
  context.require(labels == TensorType{DType::kI32, loss.shape}, "needs one i32 label for each of ",
                  x.shape[0], " rows, got ", to_string(labels));
  const float a = context.as<SoftmaxCrossEntropyAttributes>().label_smoothing;
  context.require(a >= 0 && a < 1, "the label smoothing ", a, " is outside [0, 1)");
  return loss;
}

// What an operation with one output returns.
Tensor result_of(const OpDef& op, const Attributes& attributes, std::vector<const Tensor*> inputs) {
  std::vector<TensorType> types;
  for (const Tensor* input : inputs) types.push_back(input->type());
  Tensor result(op.infer({op.name, attributes, types})[0]);
  Tensor* const output = &result;
  op.reference(attributes, inputs, {&output, 1});
  return result;
}

void copy(const Tensor& from, Tensor& to) { std::ranges::copy(from.f32(), to.f32().begin()); }

Tensor product(const OpDef& op, MatmulAttributes attributes, const Attributes& of_loss,
               const Tensor& a, const Tensor& b) {
  attributes.order = of_loss.as<SoftmaxCrossEntropyAttributes>().order;
  return result_of(op, attributes, {&a, &b});
}

double products(std::span<const TensorType> in) {
  return 2.0 * static_cast<double>(in[0].shape.elements()) * static_cast<double>(in[1].shape[0]);
}
double once(std::span<const TensorType> types) {
  double bytes = 0;
  for (const TensorType& type : types) bytes += static_cast<double>(type.bytes());
  return bytes;
}

// The last have more rows than a backend takes at once.
std::vector<OpSample> make_samples(bool with_gradient, bool bf16 = false) {
  using Sizes = std::array<std::int64_t, 3>;
  std::vector<OpSample> list;
  for (const auto& [rows, classes, depth] :
       {Sizes{32, 40, 8}, {17, 3, 5}, bf16 ? Sizes{1030, 9, 2} : Sizes{513, 70, 3}})
    for (const float smoothing : {0.0f, 0.2f}) {
      if (bf16 && smoothing == 0) continue;  // four orders are enough
      list.push_back(
          {SoftmaxCrossEntropyAttributes{smoothing},
           {{DType::kF32, {rows, depth}}, {DType::kF32, {classes, depth}}, {DType::kI32, {rows}}}});
      if (with_gradient) list.back().inputs.push_back({DType::kF32, {rows}});
    }
  return list;
}

// --- (x, w, labels) -> loss [N] ---

std::vector<TensorType> infer(const InferContext& context) { return {check(context)}; }

template <const OpDef& kProduct>
void reference(const Attributes& attributes, ConstTensors in, Tensors out) {
  const Tensor logits = product(kProduct, {.transpose_b = true}, attributes, *in[0], *in[1]);
  copy(result_of(softmax_cross_entropy_op, attributes, {&logits, in[2]}), *out[0]);
}

Cost cost(const Attributes&, std::span<const TensorType> in, std::span<const TensorType> out) {
  return {products(in), once(in) + once(out)};
}

std::vector<OpSample> samples() { return make_samples(false); }
std::vector<OpSample> samples_bf16() {
  return in_every_bf16_order(linear_cross_entropy_bf16_op, make_samples(false, true));
}

// --- (x, w, labels, dloss [N]) -> loss [N], dx, dw ---

std::vector<TensorType> infer_grad(const InferContext& context) {
  const TensorType loss = check(context);
  context.require(context.inputs[3] == loss, "needs dloss [N]");
  return {loss, context.inputs[0], context.inputs[1]};
}

template <const OpDef& kProduct>
void reference_grad(const Attributes& attributes, ConstTensors in, Tensors out) {
  const Tensor logits = product(kProduct, {.transpose_b = true}, attributes, *in[0], *in[1]);
  copy(result_of(softmax_cross_entropy_op, attributes, {&logits, in[2]}), *out[0]);
  const Tensor dlogits =
      result_of(softmax_cross_entropy_grad_op, attributes, {&logits, in[2], in[3]});
  copy(product(kProduct, {}, attributes, dlogits, *in[1]), *out[1]);
  copy(product(kProduct, {.transpose_a = true}, attributes, dlogits, *in[0]), *out[2]);
}

Cost cost_grad(const Attributes&, std::span<const TensorType> in, std::span<const TensorType> out) {
  return {3 * products(in), once(in) + once(out)};
}

std::vector<OpSample> samples_grad() { return make_samples(true); }
std::vector<OpSample> samples_bf16_grad() {
  return in_every_bf16_order(linear_cross_entropy_bf16_grad_op, make_samples(true, true));
}

}  // namespace

const OpDef linear_cross_entropy_op = {OpKind::kLinearCrossEntropy,
                                       "linear_cross_entropy",
                                       infer,
                                       nullptr,
                                       reference<matmul_op>,
                                       cost,
                                       samples};
const OpDef linear_cross_entropy_grad_op = {OpKind::kLinearCrossEntropyGrad,
                                            "linear_cross_entropy_grad",
                                            infer_grad,
                                            nullptr,
                                            reference_grad<matmul_op>,
                                            cost_grad,
                                            samples_grad};
const OpDef linear_cross_entropy_bf16_op = {OpKind::kLinearCrossEntropyBf16,
                                            "linear_cross_entropy_bf16",
                                            infer,
                                            nullptr,
                                            reference<matmul_bf16_op>,
                                            cost,
                                            samples_bf16};
const OpDef linear_cross_entropy_bf16_grad_op = {OpKind::kLinearCrossEntropyBf16Grad,
                                                 "linear_cross_entropy_bf16_grad",
                                                 infer_grad,
                                                 nullptr,
                                                 reference_grad<matmul_bf16_op>,
                                                 cost_grad,
                                                 samples_bf16_grad};

}  // namespace podium
