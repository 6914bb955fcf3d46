// Scaled dot-product attention of all heads (Vaswani et al., 2017), causal or not, and its
// gradient. Heads may share keys and values in groups (Ainslie et al., 2023).
//   C1 q is [B T, H D], k and v are [B S, G D]: sequences of T queries and S keys, one after the
//      other
//   C2 H is a multiple of G
//   C3 lengths, where there are any, are i32 [B]
//   C4 causal attention has as many keys as queries, and no lengths
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "base/numerics/functions.h"
#include "ops/geometry.h"
#include "ops/ops.h"
#include "ops/reference_sums.h"
#include "ops/sequences/attention_weights.h"

namespace podium {
namespace {

AttentionShape check(const InferContext& context, std::size_t first) {
  const auto& a = context.as<AttentionAttributes>();
  const TensorType &q = context.inputs[first], &k = context.inputs[first + 1],
                   &v = context.inputs[first + 2];
  context.require(q.dtype == DType::kF32 && q.shape.rank() == 2 && k.dtype == DType::kF32 &&
                      k.shape.rank() == 2 && k == v,
                  "C1: needs q [B T, H D] and k, v [B S, G D], got ", to_string(q), ", ",
                  to_string(k), " and ", to_string(v));
  context.require(a.heads >= 1 && a.groups >= 1 && a.heads % a.groups == 0, "C2: ", a.heads,
                  " heads do not share the keys of ", a.groups);
  context.require(q.shape[1] % a.heads == 0 && k.shape[1] * a.heads == q.shape[1] * a.groups,
                  "C1: q is ", to_string(q), " and k ", to_string(k), " with ", a.heads, " and ",
                  a.groups, " heads");
  context.require(a.tokens >= 1 && q.shape[0] % a.tokens == 0, "C1: ", q.shape[0],
                  " rows are no whole sequences of ", a.tokens, " tokens");
  const AttentionShape s = attention_shape(a, q.shape);
  context.require(s.keys >= 1 && k.shape[0] == s.sequences * s.keys, "C1: ", k.shape[0],
                  " rows of keys are not ", s.sequences, " sequences of ", s.keys);
  const bool has_lengths = context.inputs.size() == first + 4;
  if (has_lengths)
    context.require(context.inputs[first + 3] == TensorType{DType::kI32, Shape{s.sequences}},
                    "C3: needs lengths i32 [", s.sequences, "], got ",
                    to_string(context.inputs[first + 3]));
  context.require(!s.causal || (s.keys == s.tokens && !has_lengths), "C4: causal attention of ",
                  s.tokens, " queries over ", s.keys, " keys", has_lengths ? " with lengths" : "");
  return s;
}

std::vector<TensorType> infer(const InferContext& context) {
  check(context, 0);
  return {context.inputs[0]};
}

std::vector<Value> gradient(const GradientContext& context) {
  const Node self = context.self();
  std::vector<Value> operands = self.inputs;
  operands.insert(operands.begin(), context.output_gradients[0]);
  std::vector<Value> gradients =
      context.graph.add(attention_grad_op, self.attributes, std::move(operands), self.name);
  gradients.resize(self.inputs.size());  // none to lengths
  return gradients;
}

// One head of one sequence: row t of each operand begins t * its stride behind.
struct Head {
  const AttentionShape& s;
  std::int64_t seen;  // keys that a query sees that is not causal
  const float *q, *k, *v;

  Head(const AttentionShape& shape, const float* all_q, const float* all_k, const float* all_v,
       const Tensor* lengths, std::int64_t sequence, std::int64_t head)
      : s(shape),
        seen(lengths == nullptr
                 ? shape.keys
                 : shape.keys_within(lengths->i32()[static_cast<std::size_t>(sequence)])),
        q(all_q + shape.query(sequence, head)),
        k(all_k + shape.key(sequence, head / shape.heads_of_group())),
        v(all_v + shape.key(sequence, head / shape.heads_of_group())) {}

  std::int64_t keys_of(std::int64_t i) const { return s.causal ? i + 1 : seen; }

  // A chain over features.
  float dot(const float* a, const float* b) const {
    float sum = 0;
    for (std::int64_t d = 0; d < s.features; ++d) sum = std::fma(a[d], b[d], sum);
    return sum;
  }
  // The weights of the keys for query i.
  std::vector<float> weights(std::int64_t i) const { return weights(q + i * s.query_row(), i); }
  std::vector<float> weights(const float* query, std::int64_t i) const {
    std::vector<float> p(static_cast<std::size_t>(keys_of(i)));
    for (std::size_t j = 0; j < p.size(); ++j)
      p[j] = dot(query, k + static_cast<std::int64_t>(j) * s.key_row()) * s.scale;
    weights_of_scores(p);
    return p;
  }
  // [features]: the values of the keys with these weights.
  void sum_of_values(const std::vector<float>& p, float* y) const {
    for (std::int64_t d = 0; d < s.features; ++d) {
      float sum = 0;
      for (std::size_t j = 0; j < p.size(); ++j)
        sum = std::fma(p[j], v[static_cast<std::int64_t>(j) * s.key_row() + d], sum);
      y[d] = sum;
    }
  }
};

void reference(const Attributes& attributes, ConstTensors in, Tensors out) {
  const AttentionShape s = attention_shape(attributes.as<AttentionAttributes>(), in[0]->shape());
  for (std::int64_t b = 0; b < s.sequences; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const Head head(s, in[0]->f32().data(), in[1]->f32().data(), in[2]->f32().data(),
                      in.size() > 3 ? in[3] : nullptr, b, h);
      float* y = out[0]->f32().data() + s.query(b, h);
      for (std::int64_t i = 0; i < s.tokens; ++i)
        head.sum_of_values(head.weights(i), y + i * s.query_row());
    }
}

// `products`: how many products of queries and keys, or the like.
Cost products(const AttentionShape& s, double products, double tensors) {
  const auto pairs =
      static_cast<double>(s.sequences * s.heads) * static_cast<double>(s.tokens) *
      (s.causal ? static_cast<double>(s.tokens + 1) / 2 : static_cast<double>(s.keys));
  const auto floats =
      static_cast<double>(s.sequences * (s.tokens * s.query_row() + s.keys * s.key_row()));
  return {2 * products * pairs * static_cast<double>(s.features), 4 * tensors * floats};
}
Cost cost(const Attributes& attributes, std::span<const TensorType> in,
          std::span<const TensorType>) {
  return products(attention_shape(attributes.as<AttentionAttributes>(), in[0].shape), 2, 2);
}

std::vector<OpSample> make_samples(bool with_gradient) {
  struct Size {
    std::int64_t sequences;
    AttentionAttributes a;
    std::int64_t features;
    bool lengths = false;
  };
  std::vector<OpSample> list;
  const std::vector<Size> sizes = {
      {2, {.heads = 2, .groups = 2, .tokens = 5}, 4},
      {1, {.heads = 4, .groups = 2, .tokens = 19}, 16},
      {3, {.heads = 1, .groups = 1, .tokens = 17, .causal = false}, 7},
      {1, {.heads = 3, .groups = 1, .tokens = 9, .causal = false}, 20},
      {2, {.heads = 1, .groups = 1, .tokens = 1}, 3},
      {2, {.heads = 2, .groups = 1, .tokens = 6, .causal = false, .keys = 21}, 5},
      {4, {.heads = 2, .groups = 2, .tokens = 11, .causal = false}, 8, true},
      {3, {.heads = 4, .groups = 2, .tokens = 18, .causal = false, .keys = 35}, 16, true},
      // More queries, keys and features than a tile of any device has.
      {1, {.heads = 2, .groups = 1, .tokens = 131}, 70},
      {3, {.heads = 2, .groups = 1, .tokens = 66, .causal = false, .keys = 150}, 80, true},
  };
  for (const auto& [sequences, a, features, lengths] : sizes) {
    const TensorType q{DType::kF32, Shape{sequences * a.tokens, a.heads * features}},
        k{DType::kF32, Shape{sequences * (a.keys > 0 ? a.keys : a.tokens), a.groups * features}};
    list.push_back({a, {q, k, k}});
    if (lengths) list.back().inputs.push_back({DType::kI32, Shape{sequences}});
    if (with_gradient) list.back().inputs.insert(list.back().inputs.begin(), q);
  }
  return list;
}
std::vector<OpSample> samples() { return make_samples(false); }

// --- gradient: (dy, q, k, v) -> (dq, dk, dv) ---

std::vector<TensorType> infer_grad(const InferContext& context) {
  check(context, 1);
  context.require(context.inputs[0] == context.inputs[1], "dy is ", to_string(context.inputs[0]),
                  ", q ", to_string(context.inputs[1]));
  return {context.inputs[1], context.inputs[2], context.inputs[3]};
}

void reference_grad(const Attributes& attributes, ConstTensors in, Tensors out) {
  const AttentionShape s = attention_shape(attributes.as<AttentionAttributes>(), in[1]->shape());
  for (Tensor* gradient : out) std::ranges::fill(gradient->f32(), 0.0f);
  for (std::int64_t b = 0; b < s.sequences; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const Head head(s, in[1]->f32().data(), in[2]->f32().data(), in[3]->f32().data(),
                      in.size() > 4 ? in[4] : nullptr, b, h);
      const float* dy = in[0]->f32().data() + s.query(b, h);
      float *dq = out[0]->f32().data() + s.query(b, h),
            *dk = out[1]->f32().data() + s.key(b, h / s.heads_of_group()),
            *dv = out[2]->f32().data() + s.key(b, h / s.heads_of_group());
      // A chain over features, keys or queries is continued link by link.
      for (std::int64_t i = 0; i < s.tokens; ++i) {
        const std::vector<float> p = head.weights(i);
        std::vector<float> dp(p.size());
        std::array<float, kSumLanes> lanes{};
        for (std::size_t j = 0; j < p.size(); ++j) {
          dp[j] =
              head.dot(dy + i * s.query_row(), head.v + static_cast<std::int64_t>(j) * s.key_row());
          lanes[j % kSumLanes] = std::fma(p[j], dp[j], lanes[j % kSumLanes]);
        }
        const float mean = lane_tree(lanes);
        for (std::size_t j = 0; j < p.size(); ++j) {
          const float ds = (p[j] * (dp[j] - mean)) * s.scale;
          const std::int64_t key = static_cast<std::int64_t>(j) * s.key_row(),
                             query = i * s.query_row();
          for (std::int64_t d = 0; d < s.features; ++d) {
            dq[query + d] = std::fma(ds, head.k[key + d], dq[query + d]);
            dk[key + d] = std::fma(ds, head.q[query + d], dk[key + d]);
            dv[key + d] = std::fma(p[j], dy[query + d], dv[key + d]);
          }
        }
      }
    }
}

Cost cost_grad(const Attributes& attributes, std::span<const TensorType> in,
               std::span<const TensorType>) {
  return products(attention_shape(attributes.as<AttentionAttributes>(), in[1].shape), 5, 4);
}
std::vector<OpSample> samples_grad() { return make_samples(true); }

}  // namespace

void weights_of_scores(std::vector<float>& scores) {
  float most = -std::numeric_limits<float>::infinity();
  for (const float s : scores)
    if (s > most) most = s;
  for (float& x : scores) x = exp_f32(x - most);
  const float share = 1.0f / lane_sum(std::ssize(scores), [&](std::int64_t j) {
                        return scores[static_cast<std::size_t>(j)];
                      });
  for (float& x : scores) x = x * share;
}

AttentionShape attention_shape(const AttentionAttributes& a, const Shape& q) {
  const std::int64_t features = q[1] / a.heads;
  return {.sequences = q[0] / a.tokens,
          .tokens = a.tokens,
          .heads = a.heads,
          .groups = a.groups,
          .features = features,
          .scale = 1.0f / std::sqrt(static_cast<float>(features)),
          .causal = a.causal,
          .keys = a.keys > 0 ? a.keys : a.tokens};
}

Value attention(Graph& graph, Value q, Value k, Value v, const AttentionAttributes& attributes,
                std::string name) {
  return graph.add1(attention_op, attributes, {q, k, v}, std::move(name));
}

Value attention(Graph& graph, Value q, Value k, Value v, Value lengths,
                const AttentionAttributes& attributes, std::string name) {
  return graph.add1(attention_op, attributes, {q, k, v, lengths}, std::move(name));
}

const OpDef attention_op = {OpKind::kAttention, "attention", infer,  gradient,
                            reference,          cost,        samples};
const OpDef attention_grad_op = {OpKind::kAttentionGrad, "attention_grad", infer_grad,  nullptr,
                                 reference_grad,         cost_grad,        samples_grad};

}  // namespace podium
