// A layer of gated recurrent units over whole sequences, and its gradient.
//   C1 x is [B T, 3 H]: sequences of T tokens one after the other
//   C2 w is [3 H, H], b is [3 H]
//   C3 the hidden states before the first token are [B, H]
// What the gradient reads again are results of the operation, too: reset, update, candidate and
// what the hidden state brought to it [B T, 4 H], and the hidden states before each token [B T, H].
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/numerics/recurrent_cell.h"
#include "ops/geometry.h"
#include "ops/ops.h"
#include "ops/reference_sums.h"
#include "ops/sequences/recurrent_layer.h"

namespace podium {
namespace {

// The other results.
constexpr std::int32_t kHidden = 0, kGates = 2, kBefore = 3;

RecurrentShape check(const InferContext& context, const TensorType& w, const TensorType& state) {
  const auto& a = context.as<RecurrentAttributes>();
  context.require(state.dtype == DType::kF32 && state.shape.rank() == 2,
                  "C3: a state is [B, H], got ", to_string(state));
  context.require(a.tokens >= 1, "C1: a sequence has ", a.tokens, " tokens");
  const RecurrentShape s = gru_shape(a, state.shape);
  context.require(w == matrix_f32(s.gates(), s.units), "C2: w of states ", to_string(state), " is ",
                  to_string(matrix_f32(s.gates(), s.units)), ", got ", to_string(w));
  return s;
}

std::vector<TensorType> infer(const InferContext& context) {
  const TensorType &x = context.inputs[0], &b = context.inputs[2], &state = context.inputs[3];
  const RecurrentShape s = check(context, context.inputs[1], state);
  const std::int64_t rows = s.sequences * s.tokens;
  context.require(x == matrix_f32(rows, s.gates()), "C1: x of ", s.sequences, " sequences of ",
                  s.tokens, " tokens is ", to_string(matrix_f32(rows, s.gates())), ", got ",
                  to_string(x));
  const TensorType bias{DType::kF32, Shape{s.gates()}};
  context.require(b == bias, "C2: b is ", to_string(bias), ", got ", to_string(b));
  const TensorType hidden = matrix_f32(rows, s.units);
  return {hidden, state, matrix_f32(rows, 4 * s.units), hidden};
}

std::vector<Value> gradient(const GradientContext& context) {
  Graph& graph = context.graph;
  const Node self = context.self();
  for (const std::int32_t own : {kGates, kBefore})
    PODIUM_CHECK(!context.output_gradients[static_cast<std::size_t>(own)], "[gru] result ", own,
                 " is for its own gradient alone");
  const auto given = [&](std::int32_t result) {
    const Value found = context.output_gradients[static_cast<std::size_t>(result)];
    return found ? found : fill(graph, graph.shape(context.output(result)), 0.0f, self.name);
  };
  const Value to_hidden = given(kHidden), to_last = given(kGruLastHidden),
              before = context.output(kBefore);
  const std::vector<Value> found =
      graph.add(gru_grad_op, self.attributes,
                {to_hidden, to_last, self.inputs[1], context.output(kGates), before}, self.name);
  return {found[0], matmul(graph, found[1], before, {.transpose_a = true}, self.name),
          graph.add1(channel_sum_op, {}, {found[1]}, self.name), found[2]};
}

void reference(const Attributes& attributes, ConstTensors in, Tensors out) {
  const RecurrentShape s = gru_shape(attributes.as<RecurrentAttributes>(), in[3]->shape());
  const float *x = in[0]->f32().data(), *w = in[1]->f32().data(), *bias = in[2]->f32().data();
  const auto result = [&](std::int32_t i) {
    return out[static_cast<std::size_t>(i)]->f32().data();
  };
  for (std::int64_t b = 0; b < s.sequences; ++b) {
    const float* const first = in[3]->f32().data() + b * s.units;
    std::vector<float> hidden(first, first + s.units);
    for (std::int64_t step = 0; step < s.tokens; ++step) {
      const std::int64_t row = b * s.tokens + s.token(step);
      const std::vector<float> before = hidden;
      std::ranges::copy(before, result(kBefore) + row * s.units);
      const auto product = [&](std::int64_t sum, std::int64_t unit) {
        return product_sum(
            s.units, [&](std::int64_t k) { return before[static_cast<std::size_t>(k)]; },
            [&](std::int64_t k) { return w[(sum * s.units + unit) * s.units + k]; });
      };
      for (std::int64_t unit = 0; unit < s.units; ++unit) {
        const GruGates gates = gru_gates(load_sums(x + row * s.gates() + unit, s.units),
                                         {product(0, unit), product(1, unit), product(2, unit)},
                                         load_sums(bias + unit, s.units));
        float& own = hidden[static_cast<std::size_t>(unit)];
        own = gru_hidden(gates, own);
        store_gru_gates(result(kGates) + row * 4 * s.units + unit, s.units, gates);
      }
      std::ranges::copy(hidden, result(kHidden) + row * s.units);
    }
    std::ranges::copy(hidden, result(kGruLastHidden) + b * s.units);
  }
}

Cost cost(const Attributes& attributes, std::span<const TensorType> in,
          std::span<const TensorType> out) {
  return recurrent_cost(gru_shape(attributes.as<RecurrentAttributes>(), in[3].shape), 60, in, out);
}

std::vector<OpSample> samples() {
  std::vector<OpSample> list;
  for (const auto& [attributes, sequences, units] : recurrent_samples())
    list.push_back(
        {attributes,
         {matrix_f32(sequences * attributes.tokens, 3 * units), matrix_f32(3 * units, units),
          TensorType{DType::kF32, Shape{3 * units}}, matrix_f32(sequences, units)}});
  return list;
}

// --- gradient: (dy, dy of the last hidden states, w, gates, hidden states before each token) ->
// (dx, to what the hidden states bring before a reset, to those before the first token)

std::vector<TensorType> infer_grad(const InferContext& context) {
  const TensorType &dy = context.inputs[0], &state = context.inputs[1], &gates = context.inputs[3];
  const RecurrentShape s = check(context, context.inputs[2], state);
  const std::int64_t rows = s.sequences * s.tokens;
  context.require(dy == matrix_f32(rows, s.units) && context.inputs[4] == dy &&
                      gates == matrix_f32(rows, 4 * s.units),
                  "C1: dy is ", to_string(dy), ", the states before each token ",
                  to_string(context.inputs[4]), ", the gates ", to_string(gates), ", of ",
                  s.sequences, " sequences of ", s.tokens, " tokens");
  const TensorType sums = matrix_f32(rows, s.gates());
  return {sums, sums, state};
}

void reference_grad(const Attributes& attributes, ConstTensors in, Tensors out) {
  const RecurrentShape s = gru_shape(attributes.as<RecurrentAttributes>(), in[1]->shape());
  const auto operand = [&](std::size_t i) { return in[i]->f32().data(); };
  const float *dy = operand(0), *w = operand(2), *gates = operand(3), *before = operand(4);
  float *const dx = out[0]->f32().data(), *const to_states = out[1]->f32().data();
  for (std::int64_t b = 0; b < s.sequences; ++b) {
    const float* const last = operand(1) + b * s.units;
    std::vector<float> carried(last, last + s.units), kept(carried.size());
    for (std::int64_t step = s.tokens - 1; step >= 0; --step) {
      const std::int64_t row = b * s.tokens + s.token(step);
      float* const own = to_states + row * s.gates();
      for (std::int64_t unit = 0; unit < s.units; ++unit) {
        const std::int64_t at = row * s.units + unit;
        const GruGradients found =
            gru_gradients(load_gru_gates(gates + row * 4 * s.units + unit, s.units), before[at],
                          dy[at] + carried[static_cast<std::size_t>(unit)]);
        store_sums(dx + row * s.gates() + unit, s.units, found.token);
        store_sums(own + unit, s.units, found.state);
        kept[static_cast<std::size_t>(unit)] = found.before;
      }
      for (std::int64_t unit = 0; unit < s.units; ++unit)
        carried[static_cast<std::size_t>(unit)] =
            product_sum(
                s.gates(), [&](std::int64_t j) { return own[j]; },
                [&](std::int64_t j) { return w[j * s.units + unit]; }) +
            kept[static_cast<std::size_t>(unit)];
    }
    std::ranges::copy(carried, out[2]->f32().data() + b * s.units);
  }
}

Cost cost_grad(const Attributes& attributes, std::span<const TensorType> in,
               std::span<const TensorType> out) {
  return recurrent_cost(gru_shape(attributes.as<RecurrentAttributes>(), in[1].shape), 25, in, out);
}

std::vector<OpSample> samples_grad() {
  std::vector<OpSample> list = samples();
  for (OpSample& sample : list) {
    const TensorType w = sample.inputs[1], state = sample.inputs[3];
    const std::int64_t rows = sample.inputs[0].shape[0], units = state.shape[1];
    const TensorType hidden = matrix_f32(rows, units);
    sample.inputs = {hidden, state, w, matrix_f32(rows, 4 * units), hidden};
  }
  return list;
}

}  // namespace

RecurrentShape gru_shape(const RecurrentAttributes& a, const Shape& state) {
  return {.sequences = state[0],
          .tokens = a.tokens,
          .units = state[1],
          .reverse = a.reverse,
          .sums = 3};
}

GruResult gru(Graph& graph, Value x, Value w, Value b, Value hidden,
              const RecurrentAttributes& attributes, std::string name) {
  const std::vector<Value> results =
      graph.add(gru_op, attributes, {x, w, b, hidden}, std::move(name));
  return {.hidden = results[kHidden], .last_hidden = results[kGruLastHidden]};
}

const OpDef gru_op = {OpKind::kGru, "gru", infer, gradient, reference, cost, samples};
const OpDef gru_grad_op = {OpKind::kGruGrad, "gru_grad", infer_grad,  nullptr,
                           reference_grad,   cost_grad,  samples_grad};

}  // namespace podium
