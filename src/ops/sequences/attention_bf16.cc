// Attention of BF16 operands with FP32 sums, and its gradient (docs/numerics.md, BF16). The rules
// are those of attention; compile/choose puts these in its place where the recipe says
// `precision = "bf16"`.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/numerics/bf16_sum.h"
#include "ops/bf16.h"
#include "ops/geometry.h"
#include "ops/ops.h"
#include "ops/reference_sums.h"
#include "ops/sequences/attention_weights.h"

namespace podium {
namespace {

// The sum of a(i) b(i), both rounded.
template <typename A, typename B>
float sum_of(Bf16Order order, std::int64_t terms, const A& a, const B& b, float sum = 0) {
  return bf16_sum(
      order, terms,
      [&](std::int64_t i, float& left, float& right) {
        left = bf16_rounded(a(i));
        right = bf16_rounded(b(i));
      },
      sum);
}
// The runs of terms up to the one that has the last of so many.
std::int64_t whole_runs(std::int64_t terms) { return (terms + kBf16Run - 1) / kBf16Run * kBf16Run; }
// A sum that is zero is +0: so runs of zeros may be left out.
float positive_zero(float sum) { return sum + 0.0f; }

std::vector<float> weights_of(const AttentionShape& s, Bf16Order order, const float* query,
                              const float* keys, std::int64_t seen) {
  std::vector<float> p(static_cast<std::size_t>(seen));
  for (std::int64_t j = 0; j < seen; ++j)
    p[static_cast<std::size_t>(j)] =
        sum_of(
            order, s.features, [&](std::int64_t d) { return query[d]; },
            [&](std::int64_t d) { return keys[j * s.key_row() + d]; }) *
        s.scale;
  weights_of_scores(p);
  return p;
}

// How many keys query i of a sequence sees.
std::int64_t seen_by(const AttentionShape& s, const Tensor* lengths, std::int64_t sequence,
                     std::int64_t i) {
  if (s.causal) return i + 1;
  return lengths == nullptr ? s.keys
                            : s.keys_within(lengths->i32()[static_cast<std::size_t>(sequence)]);
}

// One query of one head, which sees the first `seen` keys: keys and values lie s.key_row() apart.
void attend_bf16(const AttentionShape& s, Bf16Order order, const float* query, const float* keys,
                 const float* values, std::int64_t seen, float* y) {
  std::vector<float> p = weights_of(s, order, query, keys, seen);
  p.resize(static_cast<std::size_t>(std::min(whole_runs(seen), s.keys)), 0.0f);
  for (std::int64_t d = 0; d < s.features; ++d)
    y[d] = positive_zero(sum_of(
        order, std::ssize(p), [&](std::int64_t j) { return p[static_cast<std::size_t>(j)]; },
        [&](std::int64_t j) { return values[j * s.key_row() + d]; }));
}

void reference(const Attributes& attributes, ConstTensors in, Tensors out) {
  const auto& a = attributes.as<AttentionAttributes>();
  const AttentionShape s = attention_shape(a, in[0]->shape());
  const Tensor* const lengths = in.size() > 3 ? in[3] : nullptr;
  for (std::int64_t b = 0; b < s.sequences; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t i = 0; i < s.tokens; ++i) {
        const std::int64_t at = s.query(b, h) + i * s.query_row(),
                           key = s.key(b, h / s.heads_of_group());
        attend_bf16(s, a.order, in[0]->f32().data() + at, in[1]->f32().data() + key,
                    in[2]->f32().data() + key, seen_by(s, lengths, b, i),
                    out[0]->f32().data() + at);
      }
}

// --- gradient: (dy, q, k, v) -> (dq, dk, dv)

// Of the queries and keys of one head: +0 where a query does not see a key.
struct HeadGradients {
  std::vector<float> weights, scores;  // [tokens][keys]: p, and the gradients to scores
};

HeadGradients gradients_of(const AttentionShape& s, Bf16Order order, const float* dy,
                           const float* q, const float* k, const float* v, const Tensor* lengths,
                           std::int64_t sequence) {
  HeadGradients g{std::vector<float>(static_cast<std::size_t>(s.tokens * s.keys)),
                  std::vector<float>(static_cast<std::size_t>(s.tokens * s.keys))};
  for (std::int64_t i = 0; i < s.tokens; ++i) {
    const std::vector<float> p =
        weights_of(s, order, q + i * s.query_row(), k, seen_by(s, lengths, sequence, i));
    std::vector<float> dp(p.size());
    std::array<float, kSumLanes> lanes{};
    for (std::size_t j = 0; j < p.size(); ++j) {
      dp[j] = sum_of(
          order, s.features, [&](std::int64_t d) { return dy[i * s.query_row() + d]; },
          [&](std::int64_t d) { return v[static_cast<std::int64_t>(j) * s.key_row() + d]; });
      lanes[j % kSumLanes] = std::fma(p[j], dp[j], lanes[j % kSumLanes]);
    }
    const float mean = lane_tree(lanes);
    for (std::size_t j = 0; j < p.size(); ++j) {
      const std::size_t at = static_cast<std::size_t>(i * s.keys) + j;
      g.weights[at] = p[j];
      g.scores[at] = (p[j] * (dp[j] - mean)) * s.scale;
    }
  }
  return g;
}

void reference_grad(const Attributes& attributes, ConstTensors in, Tensors out) {
  const auto& a = attributes.as<AttentionAttributes>();
  const AttentionShape s = attention_shape(a, in[1]->shape());
  const Tensor* const lengths = in.size() > 4 ? in[4] : nullptr;
  for (std::int64_t b = 0; b < s.sequences; ++b)
    for (std::int64_t group = 0; group < s.groups; ++group) {
      const std::int64_t key = s.key(b, group);
      const float *k = in[2]->f32().data() + key, *v = in[3]->f32().data() + key;
      float *dk = out[1]->f32().data() + key, *dv = out[2]->f32().data() + key;
      const auto each_key = [&](const auto& f) {
        for (std::int64_t j = 0; j < s.keys; ++j)
          for (std::int64_t d = 0; d < s.features; ++d) f(j, d, j * s.key_row() + d);
      };
      each_key([&](std::int64_t, std::int64_t, std::int64_t to) { dk[to] = dv[to] = 0; });
      for (std::int64_t h = group * s.heads_of_group(); h < (group + 1) * s.heads_of_group(); ++h) {
        const std::int64_t query = s.query(b, h);
        const float *dy = in[0]->f32().data() + query, *q = in[1]->f32().data() + query;
        const HeadGradients g = gradients_of(s, a.order, dy, q, k, v, lengths, b);
        const auto at = [&](const std::vector<float>& of, std::int64_t i, std::int64_t j) {
          return of[static_cast<std::size_t>(i * s.keys + j)];
        };
        float* const dq = out[0]->f32().data() + query;
        for (std::int64_t i = 0; i < s.tokens; ++i)
          for (std::int64_t d = 0; d < s.features; ++d)
            dq[i * s.query_row() + d] = positive_zero(sum_of(
                a.order, std::min(whole_runs(seen_by(s, lengths, b, i)), s.keys),
                [&](std::int64_t j) { return at(g.scores, i, j); },
                [&](std::int64_t j) { return k[j * s.key_row() + d]; }));
        each_key([&](std::int64_t j, std::int64_t d, std::int64_t to) {
          // From the run that has the first query that sees the key.
          const std::int64_t first = s.causal ? j / kBf16Run * kBf16Run : 0;
          if (!s.causal && j >= whole_runs(seen_by(s, lengths, b, 0))) return;
          const auto add = [&](const std::vector<float>& of, const float* x, float& sum) {
            sum = sum_of(
                a.order, s.tokens - first, [&](std::int64_t i) { return at(of, first + i, j); },
                [&](std::int64_t i) { return x[(first + i) * s.query_row() + d]; }, sum);
          };
          add(g.scores, q, dk[to]);
          add(g.weights, dy, dv[to]);
        });
      }
      each_key([&](std::int64_t, std::int64_t, std::int64_t to) {
        dk[to] = positive_zero(dk[to]);
        dv[to] = positive_zero(dv[to]);
      });
    }
}

// The rules and the cost of the operation that one of these stands for.
std::vector<TensorType> infer(const InferContext& context) { return attention_op.infer(context); }
std::vector<TensorType> infer_grad(const InferContext& context) {
  return attention_grad_op.infer(context);
}
Cost cost(const Attributes& attributes, std::span<const TensorType> in,
          std::span<const TensorType> out) {
  return attention_op.cost(attributes, in, out);
}
Cost cost_grad(const Attributes& attributes, std::span<const TensorType> in,
               std::span<const TensorType> out) {
  return attention_grad_op.cost(attributes, in, out);
}
// The small ones of attention in every order, and in one, since they take long, more queries, keys
// and features than a block of any device has.
std::vector<OpSample> in_orders(const OpDef& op, const std::vector<OpSample>& samples) {
  constexpr std::int64_t kMostTokens = 64;
  std::vector<OpSample> small;
  for (const OpSample& sample : samples)
    if (sample.attributes.as<AttentionAttributes>().tokens <= kMostTokens) small.push_back(sample);
  std::vector<OpSample> all = in_every_bf16_order(op, small);
  const auto add = [&](std::int64_t sequences, AttentionAttributes a, std::int64_t features) {
    a.order = Bf16Order::kHopper;
    const std::int64_t keys = a.keys > 0 ? a.keys : a.tokens;
    const TensorType q{DType::kF32, Shape{sequences * a.tokens, a.heads * features}},
        k{DType::kF32, Shape{sequences * keys, a.groups * features}};
    OpSample sample{a, {q, k, k}};
    if (op.kind == OpKind::kAttentionBf16Grad) sample.inputs.insert(sample.inputs.begin(), q);
    if (!a.causal) sample.inputs.push_back({DType::kI32, Shape{sequences}});
    all.push_back(std::move(sample));
  };
  add(1, {.heads = 2, .groups = 1, .tokens = 131}, 20);
  add(3, {.heads = 1, .groups = 1, .tokens = 66, .causal = false, .keys = 150}, 12);
  add(1, {.heads = 1, .groups = 1, .tokens = 10}, 136);
  return all;
}
std::vector<OpSample> samples() { return in_orders(attention_bf16_op, attention_op.samples()); }
std::vector<OpSample> samples_grad() {
  return in_orders(attention_bf16_grad_op, attention_grad_op.samples());
}

}  // namespace

const OpDef attention_bf16_op = {
    OpKind::kAttentionBf16, "attention_bf16", infer, nullptr, reference, cost, samples};
const OpDef attention_bf16_grad_op = {OpKind::kAttentionBf16Grad,
                                      "attention_bf16_grad",
                                      infer_grad,
                                      nullptr,
                                      reference_grad,
                                      cost_grad,
                                      samples_grad};

}  // namespace podium
