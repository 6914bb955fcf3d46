// Embedding, layer norm, RMS norm, rotary embedding and attention against their plain formulas in
// double.
#include <algorithm>
#include <array>
#include <cmath>
#include <exception>

#include "base/numerics/bf16.h"
#include "ops/bf16.h"
#include "ops/geometry.h"
#include "ops/plain_test_util.h"

namespace podium {
namespace {

std::vector<Tensor> token_inputs(const OpSample& sample, std::int64_t rows, std::uint32_t stream) {
  const Tensor drawn = random_labels(sample.inputs[0].shape.elements(), rows, stream);
  std::vector<Tensor> in;
  in.emplace_back(sample.inputs[0]);
  std::ranges::copy(drawn.i32(), in[0].i32().begin());
  in.push_back(random_f32(sample.inputs[1].shape, stream + 1));
  return in;
}
std::int64_t row_of(const OpSample& sample, const Tensor& tokens, std::int64_t n) {
  return sample.attributes.as<EmbeddingAttributes>().positions ? n % tokens.shape()[1]
                                                               : tokens.i32()[u(n)];
}

TEST(PlainFormula, embedding_copies_the_row_of_each_token) {
  for (const OpSample& sample : embedding_op.samples()) {
    const std::vector<Tensor> in = token_inputs(sample, sample.inputs[1].shape[0], 5000);
    const std::int64_t columns = in[1].shape()[1];
    std::vector<Bounded> expected;
    for (std::int64_t n = 0; n < in[0].elements(); ++n)
      for (std::int64_t c = 0; c < columns; ++c)
        expected.emplace_back(in[1].f32()[u(row_of(sample, in[0], n) * columns + c)]);
    expect_within(run_reference(embedding_op, sample.attributes, in)[0], expected,
                  name_of(embedding_op, sample), 0);
  }
}

// In place as well, which is how a token is added.
TEST(PlainFormula, cache_row_keeps_the_rows_of_the_origins) {
  constexpr std::int64_t kSequences = 3, kTokens = 4, kFeatures = 2, kOwn = kTokens * kFeatures;
  const TensorType numbers{DType::kI32, Shape{kSequences}};
  Tensor positions(numbers), origins(numbers);
  const Tensor row = random_f32(Shape{kSequences, kFeatures}, 5100),
               kept = random_f32(Shape{kSequences * kTokens, kFeatures}, 5101);
  for (const bool moves : {false, true}) {
    for (const bool in_place : {false, true}) {
      std::ranges::copy(std::array{0, 3, 1}, positions.i32().begin());
      std::ranges::copy(moves ? std::array{2, 0, 0} : std::array{0, 1, 2}, origins.i32().begin());
      Tensor next = kept, seen(numbers);
      cache_row_op.reference(
          {}, std::array<const Tensor*, 4>{&positions, &origins, &row, in_place ? &next : &kept},
          std::array{&next, &seen});
      for (std::int64_t b = 0; b < kSequences; ++b) {
        const std::int64_t position = positions.i32()[u(b)], origin = origins.i32()[u(b)];
        EXPECT_EQ(seen.i32()[u(b)], position + 1);
        for (std::int64_t i = 0; i < kOwn; ++i)
          EXPECT_EQ(next.f32()[u(b * kOwn + i)], i / kFeatures == position
                                                     ? row.f32()[u(b * kFeatures + i % kFeatures)]
                                                     : kept.f32()[u(origin * kOwn + i)]);
      }
    }
  }
}

TEST(PlainFormula, embedding_grad_adds_up_the_places_of_each_row) {
  std::vector<OpSample> samples = embedding_grad_op.samples();
  samples.push_back({EmbeddingAttributes{.rows = 3},
                     {{DType::kI32, Shape{300}}, {DType::kF32, Shape{300, 2}}}});  // many runs
  for (const OpSample& sample : samples) {
    const std::int64_t rows = sample.attributes.as<EmbeddingAttributes>().rows;
    const std::vector<Tensor> in = token_inputs(sample, rows, 5100);
    const std::int64_t columns = in[1].shape()[1];
    std::vector<SumBound> sums(u(rows * columns));
    for (std::int64_t n = 0; n < in[0].elements(); ++n)
      for (std::int64_t c = 0; c < columns; ++c)
        sums[u(row_of(sample, in[0], n) * columns + c)].add(in[1].f32()[u(n * columns + c)]);
    std::vector<Bounded> expected;
    for (const SumBound& sum : sums) expected.push_back(sum.bound(kEmbeddingRun + 4));
    expect_within(run_reference(embedding_grad_op, sample.attributes, in)[0], expected,
                  name_of(embedding_grad_op, sample));
  }
}

// A row as layer norm sees it.
struct NormalisedRow {
  std::vector<Bounded> z;
  Bounded scale;
  NormalisedRow(const LayerNormAttributes& a, std::span<const float> x) {
    const auto count = static_cast<double>(x.size());
    const double depth = lane_depth(static_cast<std::int64_t>(x.size()));
    SumBound sum, squares;
    for (const float value : x) sum.add(value);
    const Bounded mean = a.centred ? sum.bound(depth) / Bounded(count) : Bounded(0);
    for (const float value : x) {
      z.push_back(Bounded(value) - mean);
      squares.add(z.back().value * z.back().value, product_error(z.back(), z.back()));
    }
    scale = Bounded(1) / sqrt(squares.bound(depth) / Bounded(count) + Bounded(a.epsilon));
    for (Bounded& value : z) value = value * scale;
  }
};

TEST(PlainFormula, layer_norm_and_rms_norm) {
  for (const OpSample& sample : layer_norm_op.samples()) {
    const auto& a = sample.attributes.as<LayerNormAttributes>();
    const std::vector<Tensor> in = random_inputs(sample, 5200);
    const std::int64_t columns = in[0].shape()[1];
    std::vector<Bounded> expected;
    for (std::int64_t n = 0; n < in[0].shape()[0]; ++n) {
      const NormalisedRow row(a, in[0].f32().subspan(u(n * columns), u(columns)));
      for (std::size_t c = 0; c < u(columns); ++c)
        expected.push_back(a.centred ? fma(row.z[c], in[1].f32()[c], in[2].f32()[c])
                                     : row.z[c] * in[1].f32()[c]);
    }
    expect_within(run_reference(layer_norm_op, sample.attributes, in)[0], expected,
                  name_of(layer_norm_op, sample));
  }
}

TEST(PlainFormula, layer_norm_grad_and_rms_norm_grad) {
  for (const OpSample& sample : layer_norm_grad_op.samples()) {
    const auto& a = sample.attributes.as<LayerNormAttributes>();
    const std::vector<Tensor> in = random_inputs(sample, 5300);
    const std::int64_t rows = in[1].shape()[0], columns = in[1].shape()[1];
    const Bounded count = static_cast<double>(columns);
    std::vector<Bounded> dx;
    std::vector<SumBound> dscale(u(columns)), dshift(u(columns));
    for (std::int64_t n = 0; n < rows; ++n) {
      const NormalisedRow row(a, in[1].f32().subspan(u(n * columns), u(columns)));
      std::vector<Bounded> g;
      SumBound along, sum;
      for (std::size_t c = 0; c < u(columns); ++c) {
        const Bounded dy = in[0].f32()[u(n * columns) + c];
        g.push_back(dy * in[2].f32()[c]);
        along.add(g[c].value * row.z[c].value, product_error(g[c], row.z[c]));
        sum.add(g[c].value, g[c].error);
        dscale[c].add(dy.value * row.z[c].value, product_error(dy, row.z[c]));
        dshift[c].add(dy.value);
      }
      const Bounded share = along.bound(lane_depth(columns)) / count;
      const Bounded mean = a.centred ? sum.bound(lane_depth(columns)) / count : Bounded(0);
      for (std::size_t c = 0; c < u(columns); ++c)
        dx.push_back((fma(-share, row.z[c], g[c]) - mean) * row.scale);
    }
    const std::vector<Tensor> out = run_reference(layer_norm_grad_op, sample.attributes, in);
    const auto bounds = [&](const std::vector<SumBound>& sums) {
      std::vector<Bounded> all;
      for (const SumBound& s : sums)
        all.push_back(
            s.bound(static_cast<double>(std::min(rows, kRowRun)) + ceil_div(rows, kRowRun)));
      return all;
    };
    expect_within(out[0], dx, name_of(layer_norm_grad_op, sample) + " dx", 1e-2);
    expect_within(out[1], bounds(dscale), name_of(layer_norm_grad_op, sample) + " scale");
    if (a.centred)
      expect_within(out[2], bounds(dshift), name_of(layer_norm_grad_op, sample) + " shift");
  }
}

TEST(PlainFormula, rotary_turns_pairs_of_features) {
  for (const OpSample& sample : rotary_op.samples()) {
    const auto& a = sample.attributes.as<RotaryAttributes>();
    std::vector<Tensor> in = {random_f32(sample.inputs[0].shape, 5350)};
    if (sample.inputs.size() > 1)
      in.push_back(random_labels(sample.inputs[1].shape.elements(), a.tokens, 5351));
    const Tensor& x = in[0];
    const std::int64_t columns = x.shape()[1], half = a.features / 2;
    std::vector<Bounded> expected(u(x.elements()));
    for (std::int64_t n = 0; n < x.shape()[0]; ++n)
      for (std::int64_t pair = 0; pair < columns / 2; ++pair) {
        const std::int64_t i = pair % half;
        const std::size_t first = u(n * columns + pair / half * a.features + i),
                          second = first + u(half);
        const double share = 2.0 * static_cast<double>(i) / static_cast<double>(a.features);
        const double angle = static_cast<double>(in.size() > 1 ? in[1].i32()[u(n)] : n % a.tokens) *
                             std::pow(static_cast<double>(a.base), -share);
        const auto in_table = [](double y) { return Bounded(y, kUnit * std::abs(y) + 1e-13); };
        const Bounded cosine = in_table(std::cos(angle)),
                      sine = in_table(a.inverse ? -std::sin(angle) : std::sin(angle));
        expected[first] = fma(Bounded(x.f32()[first]), cosine, -(Bounded(x.f32()[second]) * sine));
        expected[second] = fma(Bounded(x.f32()[first]), sine, Bounded(x.f32()[second]) * cosine);
      }
    expect_within(run_reference(rotary_op, sample.attributes, in)[0], expected,
                  name_of(rotary_op, sample));
  }
}

TEST(Rotary, sentences_say_what_does_not_fit) {
  const auto message = [](const RotaryAttributes& a, const Shape& shape) -> std::string {
    Graph graph;
    const Value x = graph.input("x", {DType::kF32, shape}, InputRole::kBatch);
    try {
      rotary(graph, x, a, "turn");
    } catch (const std::exception& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_NE(message({.tokens = 2, .features = 3}, {4, 6}).find("the number is even"),
            std::string::npos);
  EXPECT_NE(message({.tokens = 3, .features = 2}, {4, 6}).find("no whole sequences of 3"),
            std::string::npos);
  EXPECT_NE(message({.tokens = 2, .features = 4}, {4, 6}).find("no whole heads of 4"),
            std::string::npos);
}

TEST(Attention, refuses_keys_and_lengths_that_do_not_fit) {
  const auto message = [](const AttentionAttributes& a, std::int64_t keys,
                          std::int64_t lengths) -> std::string {
    std::vector<TensorType> in = {
        {DType::kF32, Shape{6, 4}}, {DType::kF32, Shape{keys, 4}}, {DType::kF32, Shape{keys, 4}}};
    if (lengths > 0) in.push_back({DType::kI32, Shape{lengths}});
    try {
      attention_op.infer({"x", a, in});
    } catch (const std::exception& e) {
      return e.what();
    }
    return "no error";
  };
  AttentionAttributes a{.heads = 2, .groups = 2, .tokens = 3, .causal = false, .keys = 5};
  EXPECT_EQ(message(a, 10, 2), "no error");
  EXPECT_NE(message(a, 9, 0).find("C1: 9 rows of keys are not 2 sequences of 5"),
            std::string::npos);
  EXPECT_NE(message(a, 10, 3).find("C3: needs lengths i32 [2]"), std::string::npos);
  a.causal = true;
  EXPECT_NE(message(a, 10, 0).find("C4: causal attention of 3 queries over 5 keys"),
            std::string::npos);
  a.keys = 0;
  EXPECT_EQ(message(a, 6, 0), "no error");
  EXPECT_NE(message(a, 6, 2).find("with lengths"), std::string::npos);
}

Bounded dot(std::span<const float> a, std::span<const float> b) {
  SumBound sum;
  for (std::size_t d = 0; d < a.size(); ++d) sum.add(double{a[d]} * b[d]);
  return sum.bound(static_cast<double>(a.size()));
}

// One head of one sequence.
struct Head {
  const AttentionShape& s;
  std::int64_t sequence, head, seen;
  Bounded scale;
  // `lengths`: the operand of that number, if there is one.
  Head(const AttentionShape& shape, const std::vector<Tensor>& in, std::size_t lengths,
       std::int64_t sequence_, std::int64_t head_)
      : s(shape),
        sequence(sequence_),
        head(head_),
        seen(in.size() <= lengths
                 ? shape.keys
                 : std::clamp<std::int64_t>(in[lengths].i32()[u(sequence_)], 1, shape.keys)),
        scale(Bounded(1) / sqrt(Bounded(static_cast<double>(shape.features)))) {}
  std::size_t query(std::int64_t i) const { return u(s.query(sequence, head) + i * s.query_row()); }
  std::size_t key(std::int64_t j) const {
    return u(s.key(sequence, head / s.heads_of_group()) + j * s.key_row());
  }
  std::span<const float> row(const Tensor& x, std::size_t at) const {
    return x.f32().subspan(at, u(s.features));
  }
  std::int64_t keys(std::int64_t i) const { return s.causal ? i + 1 : seen; }
  std::vector<Bounded> weights(const Tensor& q, const Tensor& k, std::int64_t i) const {
    std::vector<Bounded> p;
    Bounded most(-1e30);
    for (std::int64_t j = 0; j < keys(i); ++j) {
      p.push_back(dot(row(q, query(i)), row(k, key(j))) * scale);
      most = {std::max(most.value, p.back().value), std::max(most.error, p.back().error)};
    }
    SumBound sum;
    for (Bounded& x : p) {
      x = exp_of(x - most);
      sum.add(x.value, x.error);
    }
    const Bounded share = Bounded(1) / sum.bound(lane_depth(keys(i)));
    for (Bounded& x : p) x = x * share;
    return p;
  }
};

// Operands that an operation rounds are BF16 numbers.
std::vector<Tensor> inputs_of(const OpDef& op, const OpSample& sample, std::uint32_t seed) {
  std::vector<Tensor> in = random_inputs(sample, seed);
  for (std::size_t i = 0; i < in.size(); ++i)
    if (rounds(op, i))
      for (float& x : in[i].f32()) x = bf16_rounded(x);
  return in;
}

// What rounds more than FP32 does: sums of BF16 products by so many times, weights once more.
struct Coarse {
  double sums = 1, weights = 0;

  std::vector<Bounded> of(std::vector<Bounded> weights_of_keys) const {
    for (Bounded& x : weights_of_keys) x.error = sums * x.error + weights * std::abs(x.value);
    return weights_of_keys;
  }
  Bounded of(const Bounded& x) const { return of(std::vector{x})[0]; }
};
// Groups of terms are cut at the 24th bit below the largest of them; a BF16 number has 8 bits.
constexpr Coarse kFp32, kBf16 = {.sums = 4, .weights = 0x1p-8};

void expect_attention(const OpDef& op, const Coarse& coarse) {
  for (const OpSample& sample : op.samples()) {
    const std::vector<Tensor> in = inputs_of(op, sample, 5400);
    const AttentionShape s =
        attention_shape(sample.attributes.as<AttentionAttributes>(), in[0].shape());
    std::vector<Bounded> expected(u(in[0].elements()));
    for (std::int64_t b = 0; b < s.sequences; ++b)
      for (std::int64_t h = 0; h < s.heads; ++h) {
        const Head head(s, in, 3, b, h);
        for (std::int64_t i = 0; i < s.tokens; ++i) {
          const std::vector<Bounded> p = coarse.of(head.weights(in[0], in[1], i));
          for (std::size_t d = 0; d < u(s.features); ++d) {
            SumBound sum;
            for (std::size_t j = 0; j < p.size(); ++j) {
              const double v = in[2].f32()[head.key(static_cast<std::int64_t>(j)) + d];
              sum.add(p[j].value * v, p[j].error * std::abs(v));
            }
            expected[head.query(i) + d] = sum.bound(coarse.sums * static_cast<double>(p.size()));
          }
        }
      }
    expect_within(run_reference(op, sample.attributes, in)[0], expected, name_of(op, sample),
                  coarse.weights == 0 ? 1e-3 : 0.05);
  }
}
TEST(PlainFormula, attention) { expect_attention(attention_op, kFp32); }
TEST(PlainFormula, attention_bf16) { expect_attention(attention_bf16_op, kBf16); }

void expect_attention_grad(const OpDef& op, const Coarse& coarse) {
  for (const OpSample& sample : op.samples()) {
    const std::vector<Tensor> in = inputs_of(op, sample, 5500);
    const Tensor &dy = in[0], &q = in[1], &k = in[2], &v = in[3];
    const AttentionShape s =
        attention_shape(sample.attributes.as<AttentionAttributes>(), q.shape());
    std::vector<SumBound> dq(u(q.elements())), dk(u(k.elements())), dv(u(v.elements()));
    const auto add = [](SumBound& sum, Bounded weight, double x) {
      sum.add(weight.value * x, weight.error * std::abs(x));
    };
    for (std::int64_t b = 0; b < s.sequences; ++b)
      for (std::int64_t h = 0; h < s.heads; ++h) {
        const Head head(s, in, 4, b, h);
        for (std::int64_t i = 0; i < s.tokens; ++i) {
          const std::vector<Bounded> exact = head.weights(q, k, i), p = coarse.of(exact);
          std::vector<Bounded> dp;
          SumBound sum;
          for (std::size_t j = 0; j < p.size(); ++j) {
            dp.push_back(dot(head.row(dy, head.query(i)),
                             head.row(v, head.key(static_cast<std::int64_t>(j)))));
            dp.back().error *= coarse.sums;
            sum.add(p[j].value * dp[j].value, product_error(p[j], dp[j]));
          }
          const Bounded mean = sum.bound(lane_depth(static_cast<std::int64_t>(p.size())));
          for (std::size_t j = 0; j < p.size(); ++j) {
            const Bounded ds = coarse.of((p[j] * (dp[j] - mean)) * head.scale);
            const std::size_t query = head.query(i), key = head.key(static_cast<std::int64_t>(j));
            for (std::size_t d = 0; d < u(s.features); ++d) {
              add(dq[query + d], ds, k.f32()[key + d]);
              add(dk[key + d], ds, q.f32()[query + d]);
              add(dv[key + d], p[j], dy.f32()[query + d]);
            }
          }
        }
      }
    const std::vector<Tensor> out = run_reference(op, sample.attributes, in);
    const auto expect = [&](const Tensor& actual, const std::vector<SumBound>& sums,
                            std::int64_t terms, const char* what) {
      std::vector<Bounded> expected;
      for (const SumBound& bound : sums)
        expected.push_back(bound.bound(coarse.sums * static_cast<double>(terms)));
      expect_within(actual, expected, cat(name_of(op, sample), " ", what),
                    coarse.weights == 0 ? 1e-2 : 0.5);
    };
    if (s.keys == 1) {  // a weight of 1, whatever the score is
      for (const Tensor* gradient : {&out[0], &out[1]})
        for (const float x : gradient->f32()) EXPECT_EQ(x, 0.0f);
    } else {
      expect(out[0], dq, s.keys, "dq");
      expect(out[1], dk, s.tokens * s.heads_of_group(), "dk");
    }
    expect(out[2], dv, s.tokens * s.heads_of_group(), "dv");
  }
}
TEST(PlainFormula, attention_grad) { expect_attention_grad(attention_grad_op, kFp32); }
TEST(PlainFormula, attention_bf16_grad) { expect_attention_grad(attention_bf16_grad_op, kBf16); }

}  // namespace
}  // namespace podium
