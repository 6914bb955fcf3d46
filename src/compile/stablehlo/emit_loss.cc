// The loss, guesses, and dropout.
#include <array>
#include <limits>

#include "base/numerics/philox.h"
#include "compile/stablehlo/emitters.h"

namespace podium::stablehlo {
namespace {

constexpr std::int64_t kRows[] = {0}, kColumns[] = {1};

// A value of each row [N], for a matrix [N, K].
HloValue of_rows(Builder& b, const HloValue& x, const Shape& matrix) {
  return b.broadcast(x, matrix, kRows);
}

HloValue largest_of_rows(Builder& b, const HloValue& x) {
  return b.reduce(x, "maximum", b.constant(-std::numeric_limits<float>::infinity()), kColumns);
}

// d = z - max z, e = exp(d), sum e of each row.
struct Softmax {
  HloValue d, e, sum;
};
Softmax softmax(Builder& b, const HloValue& logits) {
  const HloValue d = b.sub(logits, of_rows(b, largest_of_rows(b, logits), logits.shape));
  const HloValue e = b.unary("exponential", d);
  return {d, e, b.sum(e, kColumns)};
}

// Where the label stands: i1 [N, K].
HloValue labelled(Builder& b, const HloValue& labels, const Shape& matrix) {
  return b.compare("EQ", of_rows(b, labels, matrix), b.iota("i32", matrix, 1));
}

// The first largest value of each row; -1 where a value is NaN.
HloValue first_largest(Builder& b, const HloValue& x) {
  const std::int64_t classes = x.shape[1];
  const Shape rows{x.shape[0]};
  const HloValue is_largest = b.compare("EQ", x, of_rows(b, largest_of_rows(b, x), x.shape));
  const HloValue none = b.integer("i32", static_cast<std::uint64_t>(classes), x.shape);
  const HloValue index = b.select(is_largest, b.iota("i32", x.shape, 1), none);
  const HloValue first =
      b.reduce(index, "minimum", b.integer("i32", static_cast<std::uint64_t>(classes)), kColumns);
  const HloValue any_nan = b.reduce(b.compare("NE", x, x), "or", b.integer("i1", 0), kColumns);
  const HloValue no_class = b.unary("negate", b.integer("i32", 1, rows));
  return b.select(any_nan, no_class, first);
}

// Ten rounds of Philox for counters of one shape.
struct Words {
  HloValue w[4];  // ui32
};
Words philox_words(Builder& b, Words counter, std::array<std::uint32_t, 2> key) {
  const Shape shape = counter.w[0].shape;
  const auto split = [&](const HloValue& word, std::uint32_t multiplier) {
    const HloValue product = b.mul(b.convert(word, "ui64"), b.integer("ui64", multiplier, shape));
    const HloValue high = b.binary("shift_right_logical", product, b.integer("ui64", 32, shape));
    return std::pair(b.convert(high, "ui32"), b.mul(word, b.integer("ui32", multiplier, shape)));
  };
  for (int round = 0; round < 10; ++round) {
    const auto [high0, low0] = split(counter.w[0], kPhiloxMultiplier0);
    const auto [high1, low1] = split(counter.w[2], kPhiloxMultiplier1);
    const auto mixed = [&](const HloValue& high, const HloValue& word, std::uint32_t k) {
      return b.binary("xor", b.binary("xor", high, word), b.integer("ui32", k, shape));
    };
    counter = {
        {mixed(high1, counter.w[1], key[0]), low1, mixed(high0, counter.w[3], key[1]), low0}};
    key[0] += kPhiloxWeyl0;
    key[1] += kPhiloxWeyl1;
  }
  return counter;
}

}  // namespace

std::vector<HloValue> emit_softmax_cross_entropy(const EmitContext& c) {
  Builder& b = c.b;
  const float a = c.as<SoftmaxCrossEntropyAttributes>().label_smoothing;
  const Shape& matrix = c.in[0].shape;
  const Softmax s = softmax(b, c.in[0]);
  const HloValue own = labelled(b, c.in[1], matrix);
  const HloValue d = b.sum(b.select(own, s.d, b.constant(0, matrix)), kColumns);
  const HloValue lse = b.unary("log", s.sum);
  if (a == 0) return {b.sub(lse, d)};
  const HloValue others = b.mul(b.sum(s.d, kColumns), a / static_cast<float>(matrix[1]));
  return {b.sub(lse, b.add(b.mul(d, 1.0f - a), others))};
}

std::vector<HloValue> emit_softmax_cross_entropy_grad(const EmitContext& c) {
  Builder& b = c.b;
  const float a = c.as<SoftmaxCrossEntropyAttributes>().label_smoothing;
  const Shape& matrix = c.in[0].shape;
  const float other = a / static_cast<float>(matrix[1]), own = (1.0f - a) + other;
  const Softmax s = softmax(b, c.in[0]);
  const HloValue target =
      b.select(labelled(b, c.in[1], matrix), b.constant(own, matrix), b.constant(other, matrix));
  const HloValue share = b.div(s.e, of_rows(b, s.sum, matrix));
  return {b.mul(b.sub(share, target), of_rows(b, c.in[2], matrix))};
}

namespace {
// How matrices are multiplied, over axis_a of a and axis_c of c.
using Product = HloValue (*)(Builder& b, const HloValue& a, const HloValue& c, std::int64_t axis_a,
                             std::int64_t axis_c);
HloValue fp32_product(Builder& b, const HloValue& a, const HloValue& c, std::int64_t axis_a,
                      std::int64_t axis_c) {
  return b.product(a, c, axis_a, axis_c);
}
HloValue bf16_product(Builder& b, const HloValue& a, const HloValue& c, std::int64_t axis_a,
                      std::int64_t axis_c) {
  const HloValue left = b.rounded_to_bf16(a), right = b.rounded_to_bf16(c);
  const DefaultPrecision products(b);
  return b.product(left, right, axis_a, axis_c);
}

std::vector<HloValue> linear_cross_entropy(const EmitContext& c, Product product) {
  const HloValue of_logits[] = {product(c.b, c.in[0], c.in[1], 1, 1), c.in[2]};
  return emit_softmax_cross_entropy({c.b, c.node, of_logits});
}
std::vector<HloValue> linear_cross_entropy_grad(const EmitContext& c, Product product) {
  const HloValue &x = c.in[0], &w = c.in[1];
  const HloValue of_logits[] = {product(c.b, x, w, 1, 1), c.in[2], c.in[3]};
  const EmitContext context{c.b, c.node, of_logits};
  const HloValue loss = emit_softmax_cross_entropy(context)[0],
                 dlogits = emit_softmax_cross_entropy_grad(context)[0];
  return {loss, product(c.b, dlogits, w, 1, 0), product(c.b, dlogits, x, 0, 0)};
}
}  // namespace

std::vector<HloValue> emit_linear_cross_entropy(const EmitContext& c) {
  return linear_cross_entropy(c, fp32_product);
}
std::vector<HloValue> emit_linear_cross_entropy_grad(const EmitContext& c) {
  return linear_cross_entropy_grad(c, fp32_product);
}
std::vector<HloValue> emit_linear_cross_entropy_bf16(const EmitContext& c) {
  return linear_cross_entropy(c, bf16_product);
}
std::vector<HloValue> emit_linear_cross_entropy_bf16_grad(const EmitContext& c) {
  return linear_cross_entropy_grad(c, bf16_product);
}

std::vector<HloValue> emit_batch_mean(const EmitContext& c) {
  return {c.b.div(c.b.sum(c.in[0], kRows), static_cast<float>(c.in[0].shape[0]))};
}

std::vector<HloValue> emit_argmax(const EmitContext& c) { return {first_largest(c.b, c.in[0])}; }

std::vector<HloValue> emit_correct(const EmitContext& c) {
  Builder& b = c.b;
  const HloValue right = b.compare("EQ", first_largest(b, c.in[0]), c.in[1]);
  return {b.sum(b.convert(right, "i32"), kRows)};
}

std::vector<HloValue> emit_weigh(const EmitContext& c) {
  Builder& b = c.b;
  const HloValue none = b.compare("EQ", c.in[1], b.integer("i32", 0, c.out()));
  return {b.select(none, b.constant(0, c.out()), b.mul(c.in[0], b.convert(c.in[1], "f32")))};
}

std::vector<HloValue> emit_weighted_count(const EmitContext& c) {
  Builder& b = c.b;
  const Shape& all = c.in[0].shape;
  const auto i64 = [&](std::uint64_t value, const Shape& shape) {
    return b.integer("i64", value, shape);
  };
  const HloValue weights = b.convert(c.in[0], "i64"), zero = i64(0, all);
  const HloValue counted = b.select(b.compare("EQ", c.in[1], c.in[2]), weights, zero);
  const HloValue sum = b.sum(counted, kRows),
                 bad = b.sum(b.convert(b.compare("LT", weights, zero), "i64"), kRows);
  const HloValue good = b.binary("and", b.compare("EQ", bad, i64(0, Shape{})),
                                 b.compare("LT", sum, i64(1ull << 31, Shape{})));
  return {b.select(good, b.convert(sum, "i32"), b.integer("i32", 0xffffffffu, Shape{}))};
}

// Word f % 4 of the block with counter (f / 4, example, step) for feature f, as
// base/numerics/philox.h has it.
std::vector<HloValue> emit_dropout_mask(const EmitContext& c) {
  const auto& a = c.as<DropoutMaskAttributes>();
  Builder& b = c.b;
  const std::int64_t images = a.shape[0], features = a.shape.elements_from(1),
                     blocks = (features + 3) / 4;
  const PhiloxStream stream(a.seed, RandomPurpose::kDropout, a.layer);
  const Shape grid{images, blocks};
  const HloValue first = b.mul(c.in[1], b.integer("ui32", static_cast<std::uint64_t>(images)));
  const HloValue example = b.add(b.broadcast(first, grid), b.iota("ui32", grid, 0));
  const Words words = philox_words(b,
                                   {{b.iota("ui32", grid, 1), example, b.broadcast(c.in[0], grid),
                                     b.integer("ui32", stream.tag(), grid)}},
                                   stream.key());
  std::vector<HloValue> columns;
  for (const HloValue& word : words.w) columns.push_back(b.reshape(word, Shape{images, blocks, 1}));
  const HloValue all = b.reshape(b.concatenate(columns, 2), Shape{images, 4 * blocks});
  const HloValue drawn = b.reshape(b.slice(all, 1, 0, features), a.shape);
  const auto threshold = static_cast<std::uint32_t>(static_cast<double>(a.rate) * 4294967296.0);
  const HloValue kept = b.compare("GE", drawn, b.integer("ui32", threshold, a.shape));
  return {b.select(kept, b.constant(1.0f / (1.0f - a.rate), a.shape), b.constant(0, a.shape))};
}

}  // namespace podium::stablehlo
