// Operations on rows of tokens.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "compile/stablehlo/emitters.h"
#include "ops/geometry.h"

namespace podium::stablehlo {
namespace {

constexpr std::int64_t kRows[] = {0}, kColumns[] = {1};

HloValue of_rows(Builder& b, const HloValue& x, const Shape& matrix) {
  return b.broadcast(x, matrix, kRows);
}
HloValue of_columns(Builder& b, const HloValue& x, const Shape& matrix) {
  return b.broadcast(x, matrix, kColumns);
}

// --- embedding

// The row of the table for each token, i32 [tokens, 1].
HloValue rows_of(const EmitContext& c) {
  const HloValue& tokens = c.in[0];
  const HloValue rows =
      c.as<EmbeddingAttributes>().positions ? c.b.iota("i32", tokens.shape, 1) : tokens;
  return c.b.reshape(rows, Shape{tokens.shape.elements(), 1});
}

// Rows of a table, i32 [N, 1].
HloValue gathered(Builder& b, const HloValue& table, const HloValue& rows) {
  const Shape shape{rows.shape[0], table.shape[1]};
  return b.make("f32", shape,
                cat("\"stablehlo.gather\"(", table.name, ", ", rows.name,
                    ") <{dimension_numbers = #stablehlo.gather<offset_dims = [1], "
                    "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, "
                    "slice_sizes = array<i64: 1, ",
                    table.shape[1], ">, indices_are_sorted = false}> : (", table.type(), ", ",
                    rows.type(), ") -> ", type_text("f32", shape)));
}

// --- layer norm

struct Normalised {
  HloValue z, scale;  // [N, C]
};
Normalised normalised(Builder& b, const LayerNormAttributes& a, const HloValue& x) {
  const auto columns = static_cast<float>(x.shape[1]);
  HloValue d = x;
  if (a.centred) d = b.sub(x, of_rows(b, b.div(b.sum(x, kColumns), columns), x.shape));
  const HloValue variance = b.div(b.sum(b.mul(d, d), kColumns), columns);
  const HloValue scale = of_rows(b, b.unary("rsqrt", b.add(variance, a.epsilon)), x.shape);
  return {b.mul(d, scale), scale};
}

// --- attention

using Axes = std::vector<std::int64_t>;

std::string text_of(const Axes& axes) {
  std::string text;
  for (const std::int64_t axis : axes) text += cat(text.empty() ? "" : ", ", axis);
  return cat("[", text, "]");
}

// The products of a and b, for each index of the two batch axes; the axes that are left are those
// of a, then those of b. `bf16`: of both as they are rounded.
HloValue products(Builder& b, bool bf16, const HloValue& a, const Axes& batch_left,
                  const Axes& over_left, const HloValue& other, const Axes& batch_right,
                  const Axes& over_right) {
  const HloValue left = bf16 ? b.rounded_to_bf16(a) : a,
                 right = bf16 ? b.rounded_to_bf16(other) : other;
  const std::string precision = bf16 ? "DEFAULT" : "HIGHEST";
  std::vector<std::int64_t> extents;
  const auto add_others = [&](const HloValue& x, const Axes& batch, const Axes& over) {
    for (std::int64_t axis = 0; axis < x.shape.rank(); ++axis)
      if (std::ranges::find(batch, axis) == batch.end() &&
          std::ranges::find(over, axis) == over.end())
        extents.push_back(x.shape[axis]);
  };
  for (const std::int64_t axis : batch_left) extents.push_back(left.shape[axis]);
  add_others(left, batch_left, over_left);
  add_others(right, batch_right, over_right);
  const Shape shape(std::move(extents));
  return b.make("f32", shape,
                cat("stablehlo.dot_general ", left.name, ", ", right.name,
                    ", batching_dims = ", text_of(batch_left), " x ", text_of(batch_right),
                    ", contracting_dims = ", text_of(over_left), " x ", text_of(over_right),
                    ", precision = [", precision, ", ", precision, "] : (", left.type(), ", ",
                    right.type(), ") -> ", type_text("f32", shape)));
}

// Queries are [B, T, G, H / G, D], keys [B, S, G, D], what is between [B, G, T, H / G, S].
struct Heads {
  AttentionShape s;
  Shape queries, keys, pairs;
  bool bf16;  // whether operands of products are rounded
  Heads(const EmitContext& c, std::size_t operand, bool in_bf16)
      : s(attention_shape(c.as<AttentionAttributes>(), c.in[operand].shape)),
        queries{s.sequences, s.tokens, s.groups, s.heads_of_group(), s.features},
        keys{s.sequences, s.keys, s.groups, s.features},
        pairs{s.sequences, s.groups, s.tokens, s.heads_of_group(), s.keys},
        bf16(in_bf16) {}
};

// A value for each query, over its keys.
HloValue of_queries(Builder& b, const HloValue& x, const Shape& pairs) {
  return b.broadcast(x, pairs, Axes{0, 1, 2, 3});
}
HloValue products_with_keys(Builder& b, const Heads& h, const HloValue& queries,
                            const HloValue& keys) {
  return products(b, h.bf16, queries, {0, 2}, {4}, keys, {0, 2}, {3});
}

// `lengths`: of the keys of each sequence; null: all are seen.
HloValue weights_of(Builder& b, const Heads& h, const HloValue& q, const HloValue& k,
                    const HloValue* lengths) {
  HloValue scores = b.mul(products_with_keys(b, h, q, k), h.s.scale);
  const HloValue lowest = b.constant(-std::numeric_limits<float>::infinity());
  if (h.s.causal) {
    const HloValue seen = b.compare("LE", b.iota("i32", h.pairs, 4), b.iota("i32", h.pairs, 2));
    scores = b.select(seen, scores, b.broadcast(lowest, h.pairs));
  }
  if (lengths != nullptr) {
    const HloValue at_least = b.binary("maximum", *lengths, b.integer("i32", 1, lengths->shape));
    const HloValue seen =
        b.compare("LT", b.iota("i32", h.pairs, 4), b.broadcast(at_least, h.pairs, Axes{0}));
    scores = b.select(seen, scores, b.broadcast(lowest, h.pairs));
  }
  const HloValue most = b.reduce(scores, "maximum", lowest, Axes{4});
  const HloValue e = b.unary("exponential", b.sub(scores, of_queries(b, most, h.pairs)));
  return b.div(e, of_queries(b, b.sum(e, Axes{4}), h.pairs));
}

// What the queries of [B, G, T, H / G, T] make of keys, as rows.
HloValue over_keys(Builder& b, const Heads& h, const HloValue& pairs, const HloValue& keys,
                   const Shape& rows) {
  const HloValue y = products(b, h.bf16, pairs, {0, 1}, {4}, keys, {0, 2}, {1});
  return b.reshape(b.transpose(y, Axes{0, 2, 1, 3, 4}), rows);
}
// What their keys make of queries.
HloValue over_queries(Builder& b, const Heads& h, const HloValue& pairs, const HloValue& queries,
                      const Shape& rows) {
  const HloValue y = products(b, h.bf16, pairs, {0, 1}, {2, 3}, queries, {0, 2}, {1, 3});
  return b.reshape(b.transpose(y, Axes{0, 2, 1, 3}), rows);
}

}  // namespace

std::vector<HloValue> emit_embedding(const EmitContext& c) {
  return {gathered(c.b, c.in[1], rows_of(c))};
}

std::vector<HloValue> emit_cache_row(const EmitContext& c) {
  Builder& b = c.b;
  const HloValue &positions = c.in[0], &origins = c.in[1], &row = c.in[2], &kept = c.in[3];
  const std::int64_t sequences = positions.shape[0], features = row.shape[1];
  const Shape all{sequences, kept.shape[0] / sequences, features};
  const HloValue old = gathered(b, b.reshape(kept, Shape{sequences, all[1] * features}),
                                b.reshape(origins, Shape{sequences, 1}));
  const HloValue is_new =
      b.compare("EQ", b.iota("i32", all, 1), b.broadcast(positions, all, Axes{0}));
  const HloValue next = b.select(is_new, b.broadcast(row, all, Axes{0, 2}), b.reshape(old, all));
  return {b.reshape(next, kept.shape), b.add(positions, b.integer("i32", 1, positions.shape))};
}

std::vector<HloValue> emit_embedding_grad(const EmitContext& c) {
  const HloValue rows = rows_of(c), zeros = c.b.constant(0, c.out());
  return {c.b.make(
      "f32", c.out(),
      cat("\"stablehlo.scatter\"(", zeros.name, ", ", rows.name, ", ", c.in[1].name,
          ") <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], "
          "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, "
          "indices_are_sorted = false, unique_indices = false}> ({ ^bb0(%a: tensor<f32>, %b: "
          "tensor<f32>): %s = stablehlo.add %a, %b : tensor<f32> stablehlo.return %s : tensor<f32> "
          "}) : (",
          zeros.type(), ", ", rows.type(), ", ", c.in[1].type(), ") -> ",
          type_text("f32", c.out())))};
}

std::vector<HloValue> emit_layer_norm(const EmitContext& c) {
  Builder& b = c.b;
  const auto& a = c.as<LayerNormAttributes>();
  const Shape& matrix = c.in[0].shape;
  const HloValue y = b.mul(normalised(b, a, c.in[0]).z, of_columns(b, c.in[1], matrix));
  return {a.centred ? b.add(y, of_columns(b, c.in[2], matrix)) : y};
}

std::vector<HloValue> emit_layer_norm_grad(const EmitContext& c) {
  Builder& b = c.b;
  const auto& a = c.as<LayerNormAttributes>();
  const HloValue &dy = c.in[0], &x = c.in[1];
  const auto columns = static_cast<float>(x.shape[1]);
  const Normalised n = normalised(b, a, x);
  const HloValue g = b.mul(dy, of_columns(b, c.in[2], x.shape));
  const HloValue share = of_rows(b, b.div(b.sum(b.mul(g, n.z), kColumns), columns), x.shape);
  HloValue dx = b.sub(g, b.mul(share, n.z));
  if (a.centred) dx = b.sub(dx, of_rows(b, b.div(b.sum(g, kColumns), columns), x.shape));
  std::vector<HloValue> gradients = {b.mul(dx, n.scale), b.sum(b.mul(dy, n.z), kRows)};
  if (a.centred) gradients.push_back(b.sum(dy, kRows));
  return gradients;
}

std::vector<HloValue> emit_rotary(const EmitContext& c) {
  Builder& b = c.b;
  const auto& a = c.as<RotaryAttributes>();
  // With positions, all rows are one sequence that has angles of its own.
  const bool has_positions = c.in.size() > 1;
  const std::int64_t half = a.features / 2, tokens = has_positions ? c.out()[0] : a.tokens,
                     sequences = c.out()[0] / tokens, heads = c.out()[1] / a.features;
  const Shape pairs{sequences, tokens, heads, half};
  const HloValue all = b.floats(rotary_table(a), Shape{a.tokens, a.features}),
                 table =
                     has_positions ? gathered(b, all, b.reshape(c.in[1], Shape{tokens, 1})) : all,
                 x = b.reshape(c.in[0], Shape{sequences, tokens, heads, a.features});
  const auto angles = [&](std::int64_t first) {
    return b.broadcast(b.slice(table, 1, first, half), pairs, Axes{1, 3});
  };
  const HloValue cosine = angles(0), turn = angles(half), sine = a.inverse ? b.mul(turn, -1) : turn,
                 first = b.slice(x, 3, 0, half), second = b.slice(x, 3, half, half);
  const HloValue turned[] = {b.sub(b.mul(first, cosine), b.mul(second, sine)),
                             b.add(b.mul(first, sine), b.mul(second, cosine))};
  return {b.reshape(b.concatenate(turned, 3), c.out())};
}

namespace {
std::vector<HloValue> attention(const EmitContext& c, bool bf16) {
  Builder& b = c.b;
  const Heads h(c, 0, bf16);
  const HloValue p = weights_of(b, h, b.reshape(c.in[0], h.queries), b.reshape(c.in[1], h.keys),
                                c.in.size() > 3 ? &c.in[3] : nullptr);
  return {over_keys(b, h, p, b.reshape(c.in[2], h.keys), c.out())};
}

std::vector<HloValue> attention_grad(const EmitContext& c, bool bf16) {
  Builder& b = c.b;
  const Heads h(c, 1, bf16);
  const HloValue dy = b.reshape(c.in[0], h.queries), q = b.reshape(c.in[1], h.queries),
                 k = b.reshape(c.in[2], h.keys), v = b.reshape(c.in[3], h.keys);
  const HloValue p = weights_of(b, h, q, k, c.in.size() > 4 ? &c.in[4] : nullptr),
                 dp = products_with_keys(b, h, dy, v);
  const HloValue mean = of_queries(b, b.sum(b.mul(p, dp), Axes{4}), h.pairs);
  const HloValue ds = b.mul(b.mul(p, b.sub(dp, mean)), h.s.scale);
  return {over_keys(b, h, ds, k, c.out(0)), over_queries(b, h, ds, q, c.out(1)),
          over_queries(b, h, p, dy, c.out(2))};
}
}  // namespace

std::vector<HloValue> emit_attention(const EmitContext& c) { return attention(c, false); }
std::vector<HloValue> emit_attention_grad(const EmitContext& c) { return attention_grad(c, false); }
std::vector<HloValue> emit_attention_bf16(const EmitContext& c) { return attention(c, true); }
std::vector<HloValue> emit_attention_bf16_grad(const EmitContext& c) {
  return attention_grad(c, true);
}

}  // namespace podium::stablehlo
