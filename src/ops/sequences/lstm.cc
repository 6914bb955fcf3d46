// A layer of long short-term memory over whole sequences, and its gradient.
//   C1 x is [B T, 4 H]: sequences of T tokens one after the other
//   C2 w is [4 H, H]
//   C3 the states before the first token are [B, H]
// What the gradient reads again are results of the operation, too: the gates [B T, 4 H], the cells
// and the hidden states before each token [B T, H].
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
constexpr std::int32_t kHidden = 0, kGates = 3, kCells = 4, kBefore = 5;

RecurrentShape check(const InferContext& context, const TensorType& w, const TensorType& state) {
  const auto& a = context.as<RecurrentAttributes>();
  context.require(state.dtype == DType::kF32 && state.shape.rank() == 2,
                  "C3: a state is [B, H], got ", to_string(state));
  context.require(a.tokens >= 1, "C1: a sequence has ", a.tokens, " tokens");
  const RecurrentShape s = lstm_shape(a, state.shape);
  context.require(w == matrix_f32(s.gates(), s.units), "C2: w of states ", to_string(state), " is ",
                  to_string(matrix_f32(s.gates(), s.units)), ", got ", to_string(w));
  return s;
}

std::vector<TensorType> infer(const InferContext& context) {
  const TensorType &x = context.inputs[0], &state = context.inputs[2];
  const RecurrentShape s = check(context, context.inputs[1], state);
  const std::int64_t rows = s.sequences * s.tokens;
  context.require(x == matrix_f32(rows, s.gates()), "C1: x of ", s.sequences, " sequences of ",
                  s.tokens, " tokens is ", to_string(matrix_f32(rows, s.gates())), ", got ",
                  to_string(x));
  context.require(context.inputs[3] == state, "C3: the hidden states are ", to_string(state),
                  ", the cells ", to_string(context.inputs[3]));
  const TensorType hidden = matrix_f32(rows, s.units);
  return {hidden, state, state, x, hidden, hidden};
}

std::vector<Value> gradient(const GradientContext& context) {
  Graph& graph = context.graph;
  const Node self = context.self();
  for (const std::int32_t own : {kGates, kCells, kBefore})
    PODIUM_CHECK(!context.output_gradients[static_cast<std::size_t>(own)], "[lstm] result ", own,
                 " is for its own gradient alone");
  const auto given = [&](std::int32_t result) {
    const Value found = context.output_gradients[static_cast<std::size_t>(result)];
    return found ? found : fill(graph, graph.shape(context.output(result)), 0.0f, self.name);
  };
  const Value w = self.inputs[1], cells = self.inputs[3];
  const Value to_hidden = given(kHidden), to_last_hidden = given(kLstmLastHidden),
              to_last_cells = given(kLstmLastCells);
  const std::vector<Value> found = graph.add(lstm_grad_op, self.attributes,
                                             {to_hidden, to_last_hidden, to_last_cells, w, cells,
                                              context.output(kGates), context.output(kCells)},
                                             self.name);
  return {found[0],
          matmul(graph, found[0], context.output(kBefore), {.transpose_a = true}, self.name),
          found[1], found[2]};
}

void reference(const Attributes& attributes, ConstTensors in, Tensors out) {
  const RecurrentShape s = lstm_shape(attributes.as<RecurrentAttributes>(), in[2]->shape());
  const float *x = in[0]->f32().data(), *w = in[1]->f32().data();
  const auto result = [&](std::int32_t i) {
    return out[static_cast<std::size_t>(i)]->f32().data();
  };
  for (std::int64_t b = 0; b < s.sequences; ++b) {
    const auto state = [&](const Tensor& of) {
      const float* const row = of.f32().data() + b * s.units;
      return std::vector<float>(row, row + s.units);
    };
    std::vector<float> hidden = state(*in[2]), cells = state(*in[3]);
    for (std::int64_t step = 0; step < s.tokens; ++step) {
      const std::int64_t row = b * s.tokens + s.token(step);
      const std::vector<float> before = hidden;
      std::ranges::copy(before, result(kBefore) + row * s.units);
      const auto sum = [&](std::int64_t gate, std::int64_t unit) {
        const std::int64_t j = gate * s.units + unit;
        return x[row * s.gates() + j] +
               product_sum(
                   s.units, [&](std::int64_t k) { return before[static_cast<std::size_t>(k)]; },
                   [&](std::int64_t k) { return w[j * s.units + k]; });
      };
      for (std::int64_t unit = 0; unit < s.units; ++unit) {
        const LstmGates gates =
            lstm_gates({sum(0, unit), sum(1, unit), sum(2, unit), sum(3, unit)});
        float& cell = cells[static_cast<std::size_t>(unit)];
        cell = lstm_cell(gates, cell);
        hidden[static_cast<std::size_t>(unit)] = lstm_hidden(gates, cell);
        store_gates(result(kGates) + row * s.gates() + unit, s.units, gates);
      }
      std::ranges::copy(cells, result(kCells) + row * s.units);
      std::ranges::copy(hidden, result(kHidden) + row * s.units);
    }
    std::ranges::copy(hidden, result(kLstmLastHidden) + b * s.units);
    std::ranges::copy(cells, result(kLstmLastCells) + b * s.units);
  }
}

Cost cost(const Attributes& attributes, std::span<const TensorType> in,
          std::span<const TensorType> out) {
  return recurrent_cost(lstm_shape(attributes.as<RecurrentAttributes>(), in[2].shape), 90, in, out);
}

std::vector<OpSample> samples() {
  std::vector<OpSample> list;
  for (const auto& [attributes, sequences, units] : recurrent_samples())
    list.push_back(
        {attributes,
         {matrix_f32(sequences * attributes.tokens, 4 * units), matrix_f32(4 * units, units),
          matrix_f32(sequences, units), matrix_f32(sequences, units)}});
  return list;
}

// --- gradient: (dy, dy of the last hidden states, of the last cells, w, cells before the first
// token, gates, cells) -> (dx, to the hidden states before the first token, to the cells)

std::vector<TensorType> infer_grad(const InferContext& context) {
  const TensorType &dy = context.inputs[0], &state = context.inputs[1], &gates = context.inputs[5];
  const RecurrentShape s = check(context, context.inputs[3], state);
  const std::int64_t rows = s.sequences * s.tokens;
  context.require(dy == matrix_f32(rows, s.units) && context.inputs[6] == dy &&
                      gates == matrix_f32(rows, s.gates()),
                  "C1: dy is ", to_string(dy), ", the cells ", to_string(context.inputs[6]),
                  ", the gates ", to_string(gates), ", of ", s.sequences, " sequences of ",
                  s.tokens, " tokens");
  context.require(context.inputs[2] == state && context.inputs[4] == state, "C3: states are ",
                  to_string(state), ", ", to_string(context.inputs[2]), " and ",
                  to_string(context.inputs[4]));
  return {gates, state, state};
}

void reference_grad(const Attributes& attributes, ConstTensors in, Tensors out) {
  const RecurrentShape s = lstm_shape(attributes.as<RecurrentAttributes>(), in[1]->shape());
  const auto operand = [&](std::size_t i) { return in[i]->f32().data(); };
  const float *dy = operand(0), *w = operand(3), *gates = operand(5), *cells = operand(6);
  float* const dx = out[0]->f32().data();
  for (std::int64_t b = 0; b < s.sequences; ++b) {
    const float* const last_cells = operand(2) + b * s.units;
    std::vector<float> to_cells(last_cells, last_cells + s.units);
    // Of the gradients to the sums at a token, by unit: what reaches the hidden state before it.
    const auto product = [&](const float* sums, std::int64_t unit) {
      return product_sum(
          s.gates(), [&](std::int64_t j) { return sums[j]; },
          [&](std::int64_t j) { return w[j * s.units + unit]; });
    };
    const float* after = nullptr;  // the gradients to the sums at the token read next
    for (std::int64_t step = s.tokens - 1; step >= 0; --step) {
      const std::int64_t row = b * s.tokens + s.token(step);
      const float* const before = step == 0 ? operand(4) + b * s.units
                                            : cells + (b * s.tokens + s.token(step - 1)) * s.units;
      for (std::int64_t unit = 0; unit < s.units; ++unit) {
        const float carried =
            after == nullptr ? operand(1)[b * s.units + unit] : product(after, unit);
        float& to_cell = to_cells[static_cast<std::size_t>(unit)];
        const LstmGradients found = lstm_gradients(
            load_gates(gates + row * s.gates() + unit, s.units), before[unit],
            cells[row * s.units + unit], dy[row * s.units + unit] + carried, to_cell);
        store_gates(dx + row * s.gates() + unit, s.units, found.sums);
        to_cell = found.before;
      }
      after = dx + row * s.gates();
    }
    for (std::int64_t unit = 0; unit < s.units; ++unit)
      out[1]->f32()[static_cast<std::size_t>(b * s.units + unit)] = product(after, unit);
    std::ranges::copy(to_cells, out[2]->f32().data() + b * s.units);
  }
}

Cost cost_grad(const Attributes& attributes, std::span<const TensorType> in,
               std::span<const TensorType> out) {
  return recurrent_cost(lstm_shape(attributes.as<RecurrentAttributes>(), in[1].shape), 50, in, out);
}

std::vector<OpSample> samples_grad() {
  std::vector<OpSample> list = samples();
  for (OpSample& sample : list) {
    const TensorType x = sample.inputs[0], w = sample.inputs[1], state = sample.inputs[2];
    const TensorType hidden = matrix_f32(x.shape[0], state.shape[1]);
    sample.inputs = {hidden, state, state, w, state, x, hidden};
  }
  return list;
}

}  // namespace

RecurrentShape lstm_shape(const RecurrentAttributes& a, const Shape& state) {
  return {.sequences = state[0], .tokens = a.tokens, .units = state[1], .reverse = a.reverse};
}

LstmResult lstm(Graph& graph, Value x, Value w, Value hidden, Value cells,
                const RecurrentAttributes& attributes, std::string name) {
  const std::vector<Value> results =
      graph.add(lstm_op, attributes, {x, w, hidden, cells}, std::move(name));
  return {.hidden = results[kHidden],
          .last_hidden = results[kLstmLastHidden],
          .last_cells = results[kLstmLastCells]};
}

const OpDef lstm_op = {OpKind::kLstm, "lstm", infer, gradient, reference, cost, samples};
const OpDef lstm_grad_op = {OpKind::kLstmGrad, "lstm_grad", infer_grad,  nullptr,
                            reference_grad,    cost_grad,   samples_grad};

}  // namespace podium
