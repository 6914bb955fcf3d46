// Updates, the norm of all gradients, hashes.
#include <algorithm>

#include "compile/stablehlo/emitters.h"

namespace podium::stablehlo {
namespace {

HloValue with_decay(Builder& b, float weight_decay, const HloValue& parameter,
                    const HloValue& gradient) {
  return weight_decay == 0 ? gradient : b.add(b.mul(parameter, weight_decay), gradient);
}

// parameter - rate direction
HloValue descended(Builder& b, const HloValue& parameter, const HloValue& direction,
                   const HloValue& rate) {
  return b.sub(parameter, b.mul(b.broadcast(rate, parameter.shape), direction));
}

// Zeros after a vector, so that it has `count` elements.
HloValue lengthened(Builder& b, const HloValue& x, std::int64_t count) {
  const std::int64_t low[] = {0}, high[] = {count - x.shape[0]};
  return b.pad(x, low, high);
}

// The sum of squares of each run of kSquareRun elements: halves are added to halves, so that no
// order is left to XLA, and a run's sum is the same wherever it is computed.
HloValue squares_of_runs(Builder& b, const HloValue& x) {
  const std::int64_t runs = std::max<std::int64_t>(1, (x.shape[0] + kSquareRun - 1) / kSquareRun);
  const HloValue long_x = lengthened(b, x, runs * kSquareRun);
  HloValue sums = b.reshape(b.mul(long_x, long_x), Shape{runs, kSquareRun});
  for (std::int64_t half = kSquareRun / 2; half > 0; half /= 2)
    sums = b.add(b.slice(sums, 1, 0, half), b.slice(sums, 1, half, half));
  return b.reshape(sums, Shape{runs});
}

// The sum [1] of a vector, by the tree of base/numerics/tree.h: neighbours are added, the last of
// an odd number is kept for the next round.
HloValue tree_sum_of(Builder& b, HloValue x) {
  while (x.shape[0] > 1) {
    const std::int64_t pairs = x.shape[0] / 2;
    const HloValue rows = b.reshape(b.slice(x, 0, 0, 2 * pairs), Shape{pairs, 2});
    const HloValue sums =
        b.reshape(b.add(b.slice(rows, 1, 0, 1), b.slice(rows, 1, 1, 1)), Shape{pairs});
    const HloValue both[] = {sums, b.slice(x, 0, x.shape[0] - 1, 1)};
    x = x.shape[0] % 2 == 0 ? sums : b.concatenate(both, 0);
  }
  return x;
}

}  // namespace

std::vector<HloValue> emit_sgd_update(const EmitContext& c) {
  const auto& a = c.as<SgdAttributes>();
  Builder& b = c.b;
  const HloValue g = with_decay(b, a.weight_decay, c.in[0], c.in[1]);
  const HloValue v = b.add(b.mul(c.in[2], a.momentum), g);
  const HloValue direction = a.nesterov ? b.add(b.mul(v, a.momentum), g) : v;
  return {descended(b, c.in[0], direction, c.in[3]), v};
}

std::vector<HloValue> emit_adam_update(const EmitContext& c) {
  const auto& a = c.as<AdamAttributes>();
  Builder& b = c.b;
  const HloValue& old = c.in[0];
  const HloValue g = a.decoupled ? c.in[1] : with_decay(b, a.weight_decay, old, c.in[1]);
  HloValue p = old;
  if (a.decoupled) p = descended(b, old, old, b.mul(c.in[6], a.weight_decay));
  const HloValue m = b.add(b.mul(c.in[2], a.beta1), b.mul(g, 1.0f - a.beta1));
  const HloValue v = b.add(b.mul(c.in[3], a.beta2), b.mul(b.mul(g, 1.0f - a.beta2), g));
  const HloValue deviation =
      b.add(b.mul(b.unary("sqrt", v), b.broadcast(c.in[5], v.shape)), a.epsilon);
  return {descended(b, p, b.div(m, deviation), c.in[4]), m, v};
}

std::vector<HloValue> emit_rescale(const EmitContext& c) {
  const auto& a = c.as<RescaleAttributes>();
  Builder& b = c.b;
  const HloValue flat = b.reshape(c.in[0], Shape{c.in[0].shape.elements()});
  const HloValue square = b.reshape(tree_sum_of(b, squares_of_runs(b, flat)), Shape{});
  const HloValue norm = b.unary("sqrt", square);
  const HloValue factor = b.div(b.constant(a.norm), b.add(norm, a.epsilon));
  return {b.mul(c.in[0], b.broadcast(factor, c.out()))};
}
std::vector<HloValue> emit_combine(const EmitContext& c) {
  const auto& a = c.as<CombineAttributes>();
  return {c.b.add(c.b.mul(c.in[0], a.a), c.b.mul(c.in[1], a.b))};
}
std::vector<HloValue> emit_descend(const EmitContext& c) {
  return {descended(c.b, c.in[0], c.in[1], c.in[2])};
}

std::vector<HloValue> emit_square_sums(const EmitContext& c) {
  return {squares_of_runs(c.b, c.in[0])};
}
std::vector<HloValue> emit_global_norm(const EmitContext& c) {
  Builder& b = c.b;
  const std::vector<std::int64_t>& first = c.as<GlobalNormAttributes>().first_runs;
  std::vector<HloValue> sums;
  for (std::size_t i = 0; i + 1 < first.size(); ++i)
    sums.push_back(tree_sum_of(b, b.slice(c.in[0], 0, first[i], first[i + 1] - first[i])));
  const HloValue square = tree_sum_of(b, b.concatenate(sums, 0));
  return {b.unary("sqrt", b.reshape(square, Shape{}))};
}
std::vector<HloValue> emit_clip_factor(const EmitContext& c) {
  const HloValue limit = c.b.constant(c.as<ClipFactorAttributes>().limit);
  return {c.b.select(c.b.compare("LE", c.in[0], limit), c.b.constant(1), c.b.div(limit, c.in[0]))};
}

std::vector<HloValue> emit_lars_rate(const EmitContext& c) {
  Builder& b = c.b;
  const auto& a = c.as<LarsRateAttributes>();
  const HloValue &parameter = c.in[0], &gradient = c.in[1], &rate = c.in[2];
  const HloValue both =
      b.binary("and", b.compare("GT", parameter, 0.0f), b.compare("GT", gradient, 0.0f));
  const HloValue ratio =
      b.div(b.mul(parameter, a.trust), b.add(b.mul(parameter, a.weight_decay), gradient));
  return {b.select(both, b.mul(rate, ratio), rate)};
}

// base/numerics/hash.h; sums of integers have no order.
std::vector<HloValue> emit_hash_sum(const EmitContext& c) {
  Builder& b = c.b;
  const std::int64_t pairs = (c.in[0].shape[0] + 1) / 2;
  const Shape all{2 * pairs}, half{pairs, 1};
  const auto first = static_cast<std::uint32_t>(c.as<HashSumAttributes>().first);
  const HloValue words = lengthened(b, b.bitcast(c.in[0], "ui32"), 2 * pairs);
  const HloValue number = b.add(b.iota("ui32", all, 0), b.integer("ui32", first + 1U, all));
  const HloValue keyed = b.add(words, b.mul(number, b.integer("ui32", 0x9E3779B1U, all)));
  const HloValue rows = b.reshape(keyed, Shape{pairs, 2});
  const auto column = [&](std::int64_t i) { return b.convert(b.slice(rows, 1, i, 1), "ui64"); };
  const std::int64_t both[] = {0, 1};
  const HloValue sum = b.sum(b.mul(column(0), column(1)), both);
  const HloValue high = b.binary("shift_right_logical", sum, b.integer("ui64", 32));
  const HloValue parts[] = {b.reshape(b.convert(sum, "ui32"), Shape{1}),
                            b.reshape(b.convert(high, "ui32"), Shape{1})};
  return {b.concatenate(parts, 0)};
}

}  // namespace podium::stablehlo
