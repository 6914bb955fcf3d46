// Convolution, its gradients and the matrix product of BF16 operands with FP32 sums, and the
// rounding of values (docs/numerics.md, BF16). compile/choose puts the products in place of the
// FP32 operations where the recipe says `precision = "bf16"`, and the rounding behind them. The
// rules of the products are those of conv2d and matmul.
#include "ops/bf16.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/numerics/bf16_sum.h"
#include "ops/ops.h"

namespace podium {
namespace {

std::vector<float> rounded(const Tensor& tensor) {
  std::vector<float> values(tensor.f32().begin(), tensor.f32().end());
  for (float& x : values) x = bf16_rounded(x);
  return values;
}

// [N, C, H, W] images, +0 outside of them, or [K, C, R, S] weights.
struct Operand {
  std::vector<float> values;
  Shape shape;

  explicit Operand(const Tensor& tensor) : values(rounded(tensor)), shape(tensor.shape()) {}
  float at(std::int64_t n, std::int64_t c, std::int64_t y, std::int64_t x) const {
    if (n >= shape[0] || c >= shape[1] || y < 0 || y >= shape[2] || x < 0 || x >= shape[3])
      return 0;
    return values[static_cast<std::size_t>(((n * shape[1] + c) * shape[2] + y) * shape[3] + x)];
  }
};

// A term of a convolution's sum: a channel that is summed over, and a tap of the kernel.
struct ConvTerm {
  std::int64_t channel, r, s;
};

// The order (c / 32, tap, c mod 32); of a tensor core (tap, c), channels filled up to octets.
std::vector<ConvTerm> terms_of(Bf16Order order, std::int64_t channels,
                               const std::vector<std::pair<std::int64_t, std::int64_t>>& taps) {
  std::vector<ConvTerm> terms;
  if (is_tensor_core(order)) {
    for (const auto& [r, s] : taps)
      for (std::int64_t c = 0; c < octets_of(channels) * kBf16Octet; ++c)
        terms.push_back({c, r, s});
    return terms;
  }
  for (std::int64_t block = 0; block < channels; block += kBf16Run)
    for (const auto& [r, s] : taps)
      for (std::int64_t c = block; c < std::min<std::int64_t>(block + kBf16Run, channels); ++c)
        terms.push_back({c, r, s});
  return terms;
}

void set_each(Tensor& tensor, const auto& value) {
  const Shape& shape = tensor.shape();
  std::size_t index = 0;
  for (std::int64_t a = 0; a < shape[0]; ++a)
    for (std::int64_t b = 0; b < shape[1]; ++b)
      for (std::int64_t c = 0; c < shape[2]; ++c)
        for (std::int64_t d = 0; d < shape[3]; ++d) tensor.f32()[index++] = value(a, b, c, d);
}

void reference(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto& a = attributes.as<Conv2dAttributes>();
  const Operand x(*inputs[0]), w(*inputs[1]);
  std::vector<std::pair<std::int64_t, std::int64_t>> taps;
  for (std::int64_t r = 0; r < w.shape[2]; ++r)
    for (std::int64_t s = 0; s < w.shape[3]; ++s) taps.emplace_back(r, s);
  const std::vector<ConvTerm> terms = terms_of(a.order, x.shape[1], taps);
  set_each(*outputs[0], [&](std::int64_t n, std::int64_t k, std::int64_t p, std::int64_t q) {
    return bf16_sum(a.order, std::ssize(terms), [&](std::int64_t i, float& image, float& weight) {
      const auto& [c, r, s] = terms[static_cast<std::size_t>(i)];
      image = x.at(n, c, p * a.stride_h + r - a.pad_top, q * a.stride_w + s - a.pad_left);
      weight = w.at(k, c, r, s);
    });
  });
}

void reference_grad_input(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto& a = attributes.as<Conv2dAttributes>();
  const Operand dy(*inputs[0]), w(*inputs[1]);
  // By phase of the pixel: the taps that meet pixels of the output, inside it or not.
  std::vector<std::vector<ConvTerm>> terms;
  for (std::int64_t y = 0; y < a.stride_h; ++y)
    for (std::int64_t x = 0; x < a.stride_w; ++x) {
      std::vector<std::pair<std::int64_t, std::int64_t>> taps;
      for (std::int64_t r = 0; r < w.shape[2]; ++r)
        for (std::int64_t s = 0; s < w.shape[3]; ++s)
          if ((y + a.pad_top - r) % a.stride_h == 0 && (x + a.pad_left - s) % a.stride_w == 0)
            taps.emplace_back(r, s);
      terms.push_back(terms_of(a.order, dy.shape[1], taps));
    }
  set_each(*outputs[0], [&](std::int64_t n, std::int64_t c, std::int64_t y, std::int64_t x) {
    const auto& own = terms[static_cast<std::size_t>(y % a.stride_h * a.stride_w + x % a.stride_w)];
    return bf16_sum(a.order, std::ssize(own), [&](std::int64_t i, float& gradient, float& weight) {
      const auto& [k, r, s] = own[static_cast<std::size_t>(i)];
      gradient = dy.at(n, k, (y + a.pad_top - r) / a.stride_h, (x + a.pad_left - s) / a.stride_w);
      if (y + a.pad_top < r || x + a.pad_left < s) gradient = 0;
      weight = w.at(k, c, r, s);
    });
  });
}

// Of a tensor core: pixels of the output, of each all images, filled up to octets; cut into parts,
// whose sums are added in order.
void reference_grad_weight_in_parts(const Conv2dAttributes& a, const Operand& x, const Operand& dy,
                                    Tensor& dw) {
  const std::int64_t images = octets_of(dy.shape[0]) * kBf16Octet,
                     terms = dy.shape[2] * dy.shape[3] * images,
                     runs = (terms + kBf16Run - 1) / kBf16Run;
  const Shape& w = dw.shape();
  const std::int64_t part = bf16_part_runs(w[0], w[1] * w[2] * w[3], runs) * kBf16Run;
  set_each(dw, [&](std::int64_t k, std::int64_t c, std::int64_t r, std::int64_t s) {
    float total = 0;
    for (std::int64_t first = 0; first < terms; first += part) {
      const float sum = bf16_sum(
          a.order, std::min(part, terms - first),
          [&](std::int64_t i, float& gradient, float& image) {
            const std::int64_t pixel = (first + i) / images, n = (first + i) % images,
                               p = pixel / dy.shape[3], q = pixel % dy.shape[3];
            gradient = dy.at(n, k, p, q);
            image = x.at(n, c, p * a.stride_h + r - a.pad_top, q * a.stride_w + s - a.pad_left);
          });
      total = first == 0 ? sum : total + sum;
    }
    return total;
  });
}

// A run is two neighbouring pixels of a row of the output, of sixteen images each.
void reference_grad_weight(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto& a = attributes.as<Conv2dAttributes>();
  const Operand x(*inputs[0]), dy(*inputs[1]);
  if (is_tensor_core(a.order)) return reference_grad_weight_in_parts(a, x, dy, *outputs[0]);
  constexpr std::int64_t kImages = kBf16Run / 2;
  const std::int64_t rows = dy.shape[2], pairs = (dy.shape[3] + 1) / 2,
                     blocks = (dy.shape[0] + kImages - 1) / kImages;
  set_each(*outputs[0], [&](std::int64_t k, std::int64_t c, std::int64_t r, std::int64_t s) {
    return bf16_sum(
        a.order, blocks * rows * pairs * kBf16Run,
        [&](std::int64_t i, float& gradient, float& image) {
          const std::int64_t run = i / kBf16Run, q = run % pairs * 2 + i / kImages % 2,
                             p = run / pairs % rows, n = run / pairs / rows * kImages + i % kImages;
          gradient = dy.at(n, k, p, q);  // 0 beyond the row
          image = x.at(n, c, p * a.stride_h + r - a.pad_top, q * a.stride_w + s - a.pad_left);
        });
  });
}

void reference_matmul(const Attributes& attributes, ConstTensors inputs, Tensors outputs) {
  const auto& t = attributes.as<MatmulAttributes>();
  const std::vector<float> a = rounded(*inputs[0]), b = rounded(*inputs[1]);
  const Shape& y = outputs[0]->shape();
  const std::int64_t rows = y[0], columns = y[1], depth = inputs[0]->shape()[t.transpose_a ? 0 : 1];
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      outputs[0]->f32()[static_cast<std::size_t>(i * columns + j)] =
          bf16_sum(t.order, depth, [&](std::int64_t k, float& left, float& right) {
            left = a[static_cast<std::size_t>(t.transpose_a ? k * rows + i : i * depth + k)];
            right = b[static_cast<std::size_t>(t.transpose_b ? j * depth + k : k * columns + j)];
          });
}

void reference_round(const Attributes&, ConstTensors inputs, Tensors outputs) {
  std::ranges::copy(rounded(*inputs[0]), outputs[0]->f32().begin());
}
std::vector<TensorType> infer_round(const InferContext& context) { return {context.inputs[0]}; }
// The operation before it writes what it makes so.
Cost cost_round(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) {
  return {};
}
std::vector<OpSample> samples_round() {
  return {{{}, {{DType::kF32, {5, 3, 4, 4}}}}, {{}, {{DType::kF32, {33, 10}}}}};
}

// The rules of the operation that one of these stands for.
std::vector<TensorType> infer(const InferContext& context) { return conv2d_op.infer(context); }
std::vector<TensorType> infer_grad_input(const InferContext& context) {
  return conv2d_grad_input_op.infer(context);
}
std::vector<TensorType> infer_grad_weight(const InferContext& context) {
  return conv2d_grad_weight_op.infer(context);
}
std::vector<TensorType> infer_matmul(const InferContext& context) {
  return matmul_op.infer(context);
}
Cost cost(const Attributes& attributes, std::span<const TensorType> in,
          std::span<const TensorType> out) {
  return conv2d_op.cost(attributes, in, out);
}
Cost cost_grad_input(const Attributes& attributes, std::span<const TensorType> in,
                     std::span<const TensorType> out) {
  return conv2d_grad_input_op.cost(attributes, in, out);
}
Cost cost_grad_weight(const Attributes& attributes, std::span<const TensorType> in,
                      std::span<const TensorType> out) {
  return conv2d_grad_weight_op.cost(attributes, in, out);
}
Cost cost_matmul(const Attributes& attributes, std::span<const TensorType> in,
                 std::span<const TensorType> out) {
  return matmul_op.cost(attributes, in, out);
}
// And a layer whose runs are whole taps, with more than one tile of channels.
std::vector<OpSample> samples() {
  std::vector<OpSample> list = conv2d_op.samples();
  list.push_back({Conv2dAttributes{.pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1},
                  {{DType::kF32, {18, 64, 3, 5}}, {DType::kF32, {40, 64, 3, 3}}}});
  return in_every_bf16_order(conv2d_bf16_op, list);
}
std::vector<OpSample> samples_grad_input() {
  std::vector<OpSample> list = conv2d_grad_input_op.samples();
  list.push_back({Conv2dAttributes{.stride_h = 2,
                                   .stride_w = 2,
                                   .pad_top = 1,
                                   .pad_bottom = 1,
                                   .pad_left = 1,
                                   .pad_right = 1,
                                   .extent_h = 5,
                                   .extent_w = 6},
                  {{DType::kF32, {18, 64, 3, 3}}, {DType::kF32, {64, 40, 3, 3}}}});
  return in_every_bf16_order(conv2d_bf16_grad_input_op, list);
}
std::vector<OpSample> samples_grad_weight() {
  std::vector<OpSample> list = conv2d_grad_weight_op.samples();
  list.push_back({Conv2dAttributes{.pad_top = 1,
                                   .pad_bottom = 1,
                                   .pad_left = 1,
                                   .pad_right = 1,
                                   .extent_h = 3,
                                   .extent_w = 3},
                  {{DType::kF32, {18, 40, 3, 5}}, {DType::kF32, {18, 64, 3, 5}}}});
  return in_every_bf16_order(conv2d_bf16_grad_weight_op, list);
}
std::vector<OpSample> samples_matmul() {
  return in_every_bf16_order(matmul_bf16_op, matmul_op.samples());
}

}  // namespace

namespace {
// Calls f with the attributes of an operation of BF16 operands.
template <typename F>
auto with_attributes(const OpDef& op, const Attributes& attributes, const F& f) {
  switch (op.kind) {
    case OpKind::kMatmulBf16: return f(attributes.as<MatmulAttributes>());
    case OpKind::kLinearCrossEntropyBf16:
    case OpKind::kLinearCrossEntropyBf16Grad:
      return f(attributes.as<SoftmaxCrossEntropyAttributes>());
    case OpKind::kAttentionBf16:
    case OpKind::kAttentionBf16Grad: return f(attributes.as<AttentionAttributes>());
    default: return f(attributes.as<Conv2dAttributes>());
  }
}
}  // namespace

bool is_bf16(const OpDef& op) { return rounds(op, 0); }

bool rounds(const OpDef& op, std::size_t operand) {
  switch (op.kind) {
    case OpKind::kConv2dBf16:
    case OpKind::kConv2dBf16GradInput: return operand == 0;
    case OpKind::kConv2dBf16GradWeight:
    case OpKind::kMatmulBf16:
    case OpKind::kLinearCrossEntropyBf16:
    case OpKind::kLinearCrossEntropyBf16Grad: return operand < 2;
    case OpKind::kAttentionBf16: return operand < 3;
    case OpKind::kAttentionBf16Grad: return operand < 4;
    default: return false;
  }
}

Bf16Order bf16_order_of(const Node& node) {
  return with_attributes(*node.op, node.attributes, [](const auto& own) { return own.order; });
}
Attributes with_bf16_order(const OpDef& op, const Attributes& attributes, Bf16Order order) {
  return with_attributes(op, attributes, [&](auto own) {
    own.order = order;
    return Attributes(own);
  });
}
std::vector<OpSample> in_every_bf16_order(const OpDef& op, const std::vector<OpSample>& samples) {
  std::vector<OpSample> all;
  for (const Bf16Order order : kBf16Orders)
    for (const OpSample& sample : samples)
      all.push_back({with_bf16_order(op, sample.attributes, order), sample.inputs});
  return all;
}

const OpDef conv2d_bf16_op = {OpKind::kConv2dBf16, "conv2d_bf16", infer,  nullptr,
                              reference,           cost,          samples};
const OpDef conv2d_bf16_grad_input_op = {
    OpKind::kConv2dBf16GradInput, "conv2d_bf16_grad_input", infer_grad_input,  nullptr,
    reference_grad_input,         cost_grad_input,          samples_grad_input};
const OpDef conv2d_bf16_grad_weight_op = {
    OpKind::kConv2dBf16GradWeight, "conv2d_bf16_grad_weight", infer_grad_weight,  nullptr,
    reference_grad_weight,         cost_grad_weight,          samples_grad_weight};
const OpDef matmul_bf16_op = {OpKind::kMatmulBf16, "matmul_bf16", infer_matmul,  nullptr,
                              reference_matmul,    cost_matmul,   samples_matmul};
const OpDef round_bf16_op = {OpKind::kRoundBf16, "round_bf16", infer_round,  nullptr,
                             reference_round,    cost_round,   samples_round};

}  // namespace podium
