#include <cmath>
#include <cstddef>
#include <numeric>

#include "onnx/emit.h"
#include "onnx/model.pb.h"
#include "ops/ops.h"

namespace podium::onnx {
namespace {

// 0, 1, ..., as [count] or of another shape with as many elements.
std::string counted(Builder& b, const Shape& shape) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(shape.elements()));
  std::iota(numbers.begin(), numbers.end(), 0);
  return b.integers(shape, numbers);
}

}  // namespace

std::string emit_embedding(const Emission& e) {
  Builder& b = e.b;
  std::string rows = e.in[0];
  if (e.as<EmbeddingAttributes>()
          .positions) {  // those of each sequence: 0 of each token, and its place
    const std::string zeros = b.node("Mul", {rows, b.integers({0})});
    rows = b.node("Add", {zeros, counted(b, Shape{e.shape(0)[1]})});
  }
  return b.reshape(b.node("Gather", {e.in[1], rows}), {-1, e.shape(1)[1]});
}

std::string emit_layer_norm(const Emission& e) {
  Builder& b = e.b;
  const auto& a = e.as<LayerNormAttributes>();
  if (a.centred)
    return b.node("LayerNormalization", e.in, {{"axis", std::int64_t{-1}}, {"epsilon", a.epsilon}});
  const std::string squares = b.node("Mul", {e.in[0], e.in[0]});
  const std::string mean =
      b.node("ReduceMean", {squares}, {{"axes", std::vector<std::int64_t>{-1}}});
  const std::string root = b.node("Sqrt", {b.node("Add", {mean, b.number(a.epsilon)})});
  return b.node("Mul", {b.node("Div", {e.in[0], root}), e.in[1]});
}

// Queries as [B, G, H / G, T, D], keys as [B, G, 1, D, S], values as [B, G, 1, S, D].
std::string emit_attention(const Emission& e) {
  Builder& b = e.b;
  const auto& a = e.as<AttentionAttributes>();
  const std::int64_t features = e.shape(0)[1] / a.heads, each = a.heads / a.groups,
                     keys = a.keys == 0 ? a.tokens : a.keys;
  const std::string q =
      b.transpose(b.reshape(e.in[0], {-1, a.tokens, a.groups, each, features}), {0, 2, 3, 1, 4});
  const auto others = [&](const std::string& x, const std::vector<std::int64_t>& axes) {
    return b.transpose(b.reshape(x, {-1, keys, a.groups, 1, features}), axes);
  };
  std::string scores = b.node("MatMul", {q, others(e.in[1], {0, 2, 3, 4, 1})});
  scores = b.node("Mul", {scores, b.number(1 / std::sqrt(static_cast<float>(features)))});
  const std::string lowest = b.number(-1e30f);  // its exponential is 0, as that of minus infinity
  const auto hide = [&](const std::string& seen) {
    scores = b.node("Where", {seen, scores, lowest});
  };
  if (a.causal)
    hide(b.node("LessOrEqual", {counted(b, Shape{1, keys}), counted(b, Shape{a.tokens, 1})}));
  if (e.in.size() == 4) {
    const std::string lengths = b.node("Max", {e.in[3], b.integers({1})});
    hide(b.node("Less", {counted(b, Shape{keys}), b.reshape(lengths, {-1, 1, 1, 1, 1})}));
  }
  const std::string weights = b.node("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  const std::string y = b.node("MatMul", {weights, others(e.in[2], {0, 2, 3, 1, 4})});
  return b.reshape(b.transpose(y, {0, 3, 1, 2, 4}), {-1, e.shape(0)[1]});
}

std::string emit_rotary(const Emission& e) {
  Builder& b = e.b;
  const auto& a = e.as<RotaryAttributes>();
  const std::int64_t half = a.features / 2, width = e.shape(0)[1];
  const std::vector<float> table = rotary_table(a);
  std::vector<float> cosines, sines;
  for (std::int64_t t = 0; t < a.tokens; ++t) {
    const auto own = table.begin() + t * a.features;
    cosines.insert(cosines.end(), own, own + half);
    sines.insert(sines.end(), own + half, own + a.features);
  }
  if (a.inverse)
    for (float& x : sines) x = -x;
  const Shape shape{a.tokens, 1, half};
  const std::string cosine = b.floats(shape, cosines), sine = b.floats(shape, sines);
  const std::string x = b.reshape(e.in[0], {-1, a.tokens, width / a.features, a.features});
  const auto part = [&](std::int64_t first) {
    return b.node("Slice", {x, b.integers({first}), b.integers({first + half}), b.integers({3})});
  };
  const std::string one = part(0), other = part(half);
  const auto products = [&](const char* joined, const std::string& left, const std::string& right) {
    return b.node(joined, {b.node("Mul", {one, left}), b.node("Mul", {other, right})});
  };
  const std::string turned =
      b.node("Concat", {products("Sub", cosine, sine), products("Add", sine, cosine)},
             {{"axis", std::int64_t{3}}});
  return b.reshape(turned, {-1, width});
}

namespace {

// A scan over the tokens: what they bring is there before, so that each step is one product.
// `cell` gives a token's new states, of `states` and of what it brings, the hidden one first.
template <typename Cell>
Results scan(const Emission& e, const std::vector<std::string>& first, const Cell& cell) {
  const auto& a = e.as<RecurrentAttributes>();
  const std::int64_t units = e.shape(1)[1], sums = e.shape(1)[0];
  onnx_file::Graph step;
  step.set_name("a token");
  Builder s(step, "token" + e.in[0] + "_");
  std::vector<std::string> states;
  for (std::size_t i = 0; i < first.size(); ++i) {
    states.push_back(i == 0 ? "hidden" : "cells");
    s.input(states.back(), Element::kFloat, {-1, units});
  }
  s.input("sums", Element::kFloat, {-1, sums});
  const std::vector<std::string> after = cell(s, states, "sums");
  for (const std::string& state : after) s.output(state, Element::kFloat, {-1, units});
  s.output(s.node("Identity", {after[0]}), Element::kFloat, {-1, units});

  Builder& b = e.b;
  std::vector<std::string> operands = first;
  operands.push_back(b.transpose(b.reshape(e.in[0], {-1, a.tokens, sums}), {1, 0, 2}));
  const std::vector<std::int64_t> direction = {std::int64_t{a.reverse}};
  Results results = b.nodes("Scan", operands,
                            {{"body", &step},
                             {"num_scan_inputs", std::int64_t{1}},
                             {"scan_input_directions", direction},
                             {"scan_output_directions", direction}},
                            first.size() + 1);
  const std::string all = b.reshape(b.transpose(results.back(), {1, 0, 2}), {-1, units});
  results.pop_back();
  results.insert(results.begin(), all);
  return results;
}

std::vector<std::string> parts_of(Builder& s, const std::string& sums, std::size_t count) {
  return s.nodes("Split", {sums}, {{"axis", std::int64_t{1}}}, count);
}

}  // namespace

Results emit_lstm(const Emission& e) {
  return scan(
      e, {e.in[2], e.in[3]},
      [&](Builder& s, const std::vector<std::string>& states, const std::string& x) {
        const std::string p = s.node("Gemm", {states[0], e.in[1]}, {{"transB", std::int64_t{1}}});
        const std::vector<std::string> parts = parts_of(s, s.node("Add", {x, p}), 4);
        const auto gate = [&](std::size_t i) { return s.node("Sigmoid", {parts[i]}); };
        const std::string kept = s.node("Mul", {gate(1), states[1]});
        const std::string fresh = s.node("Mul", {gate(0), s.node("Tanh", {parts[2]})});
        const std::string cells = s.node("Add", {kept, fresh});
        const std::string hidden = s.node("Mul", {gate(3), s.node("Tanh", {cells})});
        return std::vector{hidden, cells};
      });
}

Results emit_gru(const Emission& e) {
  return scan(
      e, {e.in[3]}, [&](Builder& s, const std::vector<std::string>& states, const std::string& x) {
        const std::string& hidden = states[0];
        const std::string p =
            s.node("Gemm", {hidden, e.in[1], e.in[2]}, {{"transB", std::int64_t{1}}});
        const std::vector<std::string> from_x = parts_of(s, x, 3), from_state = parts_of(s, p, 3);
        const auto gate = [&](std::size_t i) {
          return s.node("Sigmoid", {s.node("Add", {from_x[i], from_state[i]})});
        };
        const std::string reset = s.node("Mul", {gate(0), from_state[2]});
        const std::string candidate = s.node("Tanh", {s.node("Add", {from_x[2], reset})});
        const std::string way = s.node("Sub", {hidden, candidate});
        return std::vector{s.node("Add", {candidate, s.node("Mul", {gate(1), way})})};
      });
}

}  // namespace podium::onnx
