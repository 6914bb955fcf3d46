// Recurrent layers against their plain formulas in double.
#include <algorithm>
#include <cmath>
#include <exception>

#include "ops/geometry.h"
#include "ops/plain_test_util.h"

namespace podium {
namespace {

// Weights of a size at which the gates are not all open or shut; `w` is their operand.
std::vector<Tensor> layer_inputs(const OpSample& sample, std::size_t w, std::uint32_t stream) {
  std::vector<Tensor> in = random_inputs(sample, stream);
  for (float& weight : in[w].f32()) weight *= 0.0625f;
  return in;
}

// Functions of base/numerics/functions.h, which are within 3 ULP (its test), with the slope of
// each.
Bounded logistic(Bounded x) {
  const double y = 1 / (1 + std::exp(-x.value));
  return {y, x.error / 4 + 6 * kUnit * y + 0x1p-126};
}
Bounded hyperbolic(Bounded x) {
  const double y = std::tanh(x.value);
  return {y, x.error + 4 * kUnit * (std::abs(y) + x.error)};
}

// The products of a matrix's rows with a vector: runs of 256, then these.
Bounded product(const std::vector<Bounded>& x, const std::function<double(std::size_t)>& weight) {
  SumBound sum;
  for (std::size_t k = 0; k < x.size(); ++k)
    sum.add(x[k].value * weight(k), x[k].error * std::abs(weight(k)));
  return sum.bound(static_cast<double>(std::min<std::size_t>(x.size(), 256)) +
                   ceil_div(std::ssize(x), 256));
}

struct Cell {
  Bounded input, forget, candidate, output, before, cell, hidden;
};
// What one sequence's units are at each token.
std::vector<std::vector<Cell>> cells_of(const RecurrentShape& s, const std::vector<Tensor>& in,
                                        std::int64_t b) {
  std::vector<std::vector<Cell>> all(u(s.tokens), std::vector<Cell>(u(s.units)));
  std::vector<Bounded> hidden, cell;
  for (std::size_t i = 0; i < u(s.units); ++i) {
    hidden.emplace_back(in[2].f32()[u(b * s.units) + i]);
    cell.emplace_back(in[3].f32()[u(b * s.units) + i]);
  }
  for (std::int64_t step = 0; step < s.tokens; ++step) {
    const std::int64_t token = s.token(step);
    std::vector<Cell>& now = all[u(token)];
    for (std::int64_t i = 0; i < s.units; ++i) {
      const auto sum = [&](std::int64_t gate) {
        const std::int64_t j = gate * s.units + i;
        return Bounded(in[0].f32()[u((b * s.tokens + token) * s.gates() + j)]) +
               product(hidden,
                       [&](std::size_t k) { return double{in[1].f32()[u(j * s.units) + k]}; });
      };
      Cell& c = now[u(i)];
      c = {logistic(sum(0)), logistic(sum(1)), hyperbolic(sum(2)), logistic(sum(3)), cell[u(i)]};
      c.cell = fma(c.forget, c.before, c.input * c.candidate);
      c.hidden = c.output * hyperbolic(c.cell);
    }
    for (std::size_t i = 0; i < now.size(); ++i) hidden[i] = now[i].hidden, cell[i] = now[i].cell;
  }
  return all;
}

TEST(PlainFormula, lstm) {
  for (const OpSample& sample : lstm_op.samples()) {
    const std::vector<Tensor> in = layer_inputs(sample, 1, 5600);
    const RecurrentShape s = lstm_shape(sample.attributes.as<RecurrentAttributes>(), in[2].shape());
    std::vector<Bounded> hidden, gates(u(in[0].elements())), cells, last_hidden, last_cells;
    std::vector<float> before;
    const std::vector<Tensor> out = run_reference(lstm_op, sample.attributes, in);
    for (std::int64_t b = 0; b < s.sequences; ++b) {
      const auto all = cells_of(s, in, b);
      for (std::int64_t t = 0; t < s.tokens; ++t)
        for (std::int64_t i = 0; i < s.units; ++i) {
          const Cell& c = all[u(t)][u(i)];
          hidden.push_back(c.hidden), cells.push_back(c.cell);
          const std::size_t row = u((b * s.tokens + t) * s.gates() + i), gate = u(s.units);
          gates[row] = c.input, gates[row + gate] = c.forget;
          gates[row + 2 * gate] = c.candidate, gates[row + 3 * gate] = c.output;
          // The results' own, or the first of all.
          const std::int64_t earlier = s.reverse ? t + 1 : t - 1;
          before.push_back(earlier < 0 || earlier == s.tokens
                               ? in[2].f32()[u(b * s.units + i)]
                               : out[0].f32()[u((b * s.tokens + earlier) * s.units + i)]);
        }
      for (const Cell& c : all[u(s.token(s.tokens - 1))])
        last_hidden.push_back(c.hidden), last_cells.push_back(c.cell);
    }
    const std::string name = name_of(lstm_op, sample);
    expect_within(out[0], hidden, name, 1e-2);
    expect_within(out[3], gates, name + " gates", 1e-2);
    expect_within(out[4], cells, name + " cells", 1e-2);
    EXPECT_TRUE(std::ranges::equal(out[5].f32(), before)) << name;
    expect_within(out[1], last_hidden, name + " last", 1e-2);
    expect_within(out[2], last_cells, name + " last cells", 1e-2);
  }
}

TEST(PlainFormula, lstm_grad) {
  for (const OpSample& sample : lstm_grad_op.samples()) {
    const std::vector<Tensor> in = layer_inputs(sample, 3, 5700);
    const RecurrentShape s = lstm_shape(sample.attributes.as<RecurrentAttributes>(), in[1].shape());
    std::vector<Bounded> dx(u(in[5].elements())), to_hidden, to_cells;
    const auto at = [&](std::size_t operand, std::int64_t i) {
      return Bounded(in[operand].f32()[u(i)]);
    };
    const auto through = [](Bounded d, Bounded y) { return d * (y * (Bounded(1) - y)); };
    for (std::int64_t b = 0; b < s.sequences; ++b) {
      std::vector<Bounded> carried, dc;
      for (std::int64_t i = 0; i < s.units; ++i)
        carried.push_back(at(1, b * s.units + i)), dc.push_back(at(2, b * s.units + i));
      for (std::int64_t step = s.tokens - 1; step >= 0; --step) {
        const std::int64_t row = b * s.tokens + s.token(step);
        std::vector<Bounded> sums(u(s.gates()));
        for (std::int64_t i = 0; i < s.units; ++i) {
          const auto gate = [&](std::int64_t g) {
            return at(5, row * s.gates() + g * s.units + i);
          };
          const Bounded input = gate(0), forget = gate(1), candidate = gate(2), output = gate(3);
          const Bounded before = step == 0
                                     ? at(4, b * s.units + i)
                                     : at(6, (b * s.tokens + s.token(step - 1)) * s.units + i);
          const Bounded dh = at(0, row * s.units + i) + carried[u(i)],
                        t = hyperbolic(at(6, row * s.units + i)),
                        d = fma(dh * output, fma(-t, t, Bounded(1)), dc[u(i)]);
          sums[u(i)] = through(d * candidate, input);
          sums[u(s.units + i)] = through(d * before, forget);
          sums[u(2 * s.units + i)] = (d * input) * fma(-candidate, candidate, Bounded(1));
          sums[u(3 * s.units + i)] = through(dh * t, output);
          dc[u(i)] = d * forget;
        }
        std::ranges::copy(sums, dx.begin() + row * s.gates());
        for (std::int64_t i = 0; i < s.units; ++i)
          carried[u(i)] = product(
              sums, [&](std::size_t j) { return double{in[3].f32()[j * u(s.units) + u(i)]}; });
      }
      std::ranges::copy(carried, std::back_inserter(to_hidden));
      std::ranges::copy(dc, std::back_inserter(to_cells));
    }
    const std::vector<Tensor> out = run_reference(lstm_grad_op, sample.attributes, in);
    const std::string name = name_of(lstm_grad_op, sample);
    expect_within(out[0], dx, name, 1e-2);
    expect_within(out[1], to_hidden, name + " hidden", 1e-2);
    expect_within(out[2], to_cells, name + " cells", 1e-2);
  }
}

TEST(PlainFormula, gru) {
  for (const OpSample& sample : gru_op.samples()) {
    const std::vector<Tensor> in = layer_inputs(sample, 1, 5800);
    const RecurrentShape s = gru_shape(sample.attributes.as<RecurrentAttributes>(), in[3].shape());
    const std::vector<Tensor> out = run_reference(gru_op, sample.attributes, in);
    std::vector<Bounded> all(u(s.sequences * s.tokens * s.units)), gates(u(out[2].elements())),
        last;
    std::vector<float> before;
    for (std::int64_t b = 0; b < s.sequences; ++b) {
      std::vector<Bounded> hidden;
      for (std::int64_t i = 0; i < s.units; ++i)
        hidden.emplace_back(in[3].f32()[u(b * s.units + i)]);
      for (std::int64_t step = 0; step < s.tokens; ++step) {
        const std::int64_t row = b * s.tokens + s.token(step);
        const std::vector<Bounded> found = hidden;
        for (std::int64_t i = 0; i < s.units; ++i) {
          const auto token = [&](std::int64_t sum) {
            return Bounded(in[0].f32()[u(row * s.gates() + sum * s.units + i)]);
          };
          const auto state = [&](std::int64_t sum) {
            const std::int64_t j = sum * s.units + i;
            return product(found,
                           [&](std::size_t k) { return double{in[1].f32()[u(j * s.units) + k]}; }) +
                   Bounded(in[2].f32()[u(j)]);
          };
          const Bounded reset = logistic(token(0) + state(0)),
                        update = logistic(token(1) + state(1)),
                        candidate = hyperbolic(fma(reset, state(2), token(2)));
          Bounded& own = hidden[u(i)];
          own = fma(update, own - candidate, candidate);
          all[u(row * s.units + i)] = own;
          const std::size_t at = u(row * 4 * s.units + i), gate = u(s.units);
          gates[at] = reset, gates[at + gate] = update, gates[at + 2 * gate] = candidate;
          gates[at + 3 * gate] = state(2);
        }
      }
      std::ranges::copy(hidden, std::back_inserter(last));
      for (std::int64_t t = 0; t < s.tokens; ++t) {
        const std::int64_t earlier = s.reverse ? t + 1 : t - 1;
        for (std::int64_t i = 0; i < s.units; ++i)
          before.push_back(earlier < 0 || earlier == s.tokens
                               ? in[3].f32()[u(b * s.units + i)]
                               : out[0].f32()[u((b * s.tokens + earlier) * s.units + i)]);
      }
    }
    const std::string name = name_of(gru_op, sample);
    expect_within(out[0], all, name, 1e-2);
    expect_within(out[1], last, name + " last", 1e-2);
    expect_within(out[2], gates, name + " gates", 1e-2);
    EXPECT_TRUE(std::ranges::equal(out[3].f32(), before)) << name;
  }
}

TEST(PlainFormula, gru_grad) {
  for (const OpSample& sample : gru_grad_op.samples()) {
    const std::vector<Tensor> in = layer_inputs(sample, 2, 5900);
    const RecurrentShape s = gru_shape(sample.attributes.as<RecurrentAttributes>(), in[1].shape());
    const std::size_t sums = u(s.sequences * s.tokens * s.gates());
    std::vector<Bounded> dx(sums), to_states(sums), to_first;
    const auto at = [&](std::size_t operand, std::int64_t i) {
      return Bounded(in[operand].f32()[u(i)]);
    };
    const Bounded one(1);
    for (std::int64_t b = 0; b < s.sequences; ++b) {
      std::vector<Bounded> carried;
      for (std::int64_t i = 0; i < s.units; ++i) carried.push_back(at(1, b * s.units + i));
      for (std::int64_t step = s.tokens - 1; step >= 0; --step) {
        const std::int64_t row = b * s.tokens + s.token(step);
        std::vector<Bounded> of_state(u(s.gates())), kept;
        for (std::int64_t i = 0; i < s.units; ++i) {
          const auto gate = [&](std::int64_t g) {
            return at(3, row * 4 * s.units + g * s.units + i);
          };
          const Bounded reset = gate(0), update = gate(1), candidate = gate(2),
                        dh = at(0, row * s.units + i) + carried[u(i)],
                        to_update = (dh * (at(4, row * s.units + i) - candidate)) *
                                    (update * (one - update)),
                        to_candidate = (dh * (one - update)) * fma(-candidate, candidate, one),
                        to_reset = (to_candidate * gate(3)) * (reset * (one - reset));
          const Bounded parts[] = {to_reset, to_update, to_candidate};
          for (std::int64_t sum = 0; sum < 3; ++sum) {
            dx[u(row * s.gates() + sum * s.units + i)] = parts[sum];
            of_state[u(sum * s.units + i)] = sum < 2 ? parts[sum] : to_candidate * reset;
          }
          kept.push_back(dh * update);
        }
        std::ranges::copy(of_state, to_states.begin() + row * s.gates());
        for (std::int64_t i = 0; i < s.units; ++i)
          carried[u(i)] =
              product(of_state,
                      [&](std::size_t j) { return double{in[2].f32()[j * u(s.units) + u(i)]}; }) +
              kept[u(i)];
      }
      std::ranges::copy(carried, std::back_inserter(to_first));
    }
    const std::vector<Tensor> out = run_reference(gru_grad_op, sample.attributes, in);
    const std::string name = name_of(gru_grad_op, sample);
    expect_within(out[0], dx, name, 1e-2);
    expect_within(out[1], to_states, name + " states", 1e-2);
    expect_within(out[2], to_first, name + " hidden", 1e-2);
  }
}

TEST(Gru, sentences_say_what_does_not_fit) {
  const auto message = [](const Shape& w, const Shape& b) -> std::string {
    Graph graph;
    const auto input = [&](const char* name, const Shape& shape) {
      return graph.input(name, {DType::kF32, shape}, InputRole::kBatch);
    };
    try {
      gru(graph, input("x", {6, 6}), input("w", w), input("b", b), input("state", {3, 2}),
          {.tokens = 2}, "memory");
    } catch (const std::exception& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({6, 2}, {6}), "no error");
  EXPECT_EQ(message({8, 2}, {6}),
            "[gru \"memory\"] C2: w of states f32[3, 2] is f32[6, 2], got f32[8, 2]");
  EXPECT_EQ(message({6, 2}, {2}), "[gru \"memory\"] C2: b is f32[6], got f32[2]");
}

TEST(Lstm, sentences_say_what_does_not_fit) {
  const auto message = [](const Shape& x, const Shape& w, const Shape& state,
                          std::int64_t tokens) -> std::string {
    Graph graph;
    const auto input = [&](const char* name, const Shape& shape) {
      return graph.input(name, {DType::kF32, shape}, InputRole::kBatch);
    };
    const Value states = input("state", state);
    try {
      lstm(graph, input("x", x), input("w", w), states, states, {.tokens = tokens}, "memory");
    } catch (const std::exception& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({6, 8}, {8, 2}, {3, 2}, 2), "no error");
  EXPECT_EQ(message({6, 8}, {8, 2}, {3, 2}, 3),
            "[lstm \"memory\"] C1: x of 3 sequences of 3 tokens is f32[9, 8], got f32[6, 8]");
  EXPECT_EQ(message({6, 8}, {2, 8}, {3, 2}, 2),
            "[lstm \"memory\"] C2: w of states f32[3, 2] is f32[8, 2], got f32[2, 8]");
  EXPECT_EQ(message({6, 8}, {8, 2}, {6}, 2), "[lstm \"memory\"] C3: a state is [B, H], got f32[6]");
  EXPECT_EQ(message({6, 8}, {8, 2}, {3, 2}, 0), "[lstm \"memory\"] C1: a sequence has 0 tokens");
}

}  // namespace
}  // namespace podium
