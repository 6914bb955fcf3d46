// The updates against their published formulas in double, over several steps.
#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/reference/reference_device.h"
#include "ops/ops.h"

namespace podium {
namespace {

using Numbers = std::vector<double>;

const Numbers kStart = {1.5, -0.25, 0.0, 3.0};

// The gradient at a step: any numbers, the same for both sides.
double gradient(std::size_t i, int step) {
  return static_cast<float>(0.3 * std::sin(1.7 * static_cast<double>(i) + 0.9 * step) + 0.05);
}

double learning_rate(int step) { return static_cast<float>(0.1 / (1 + step)); }

Tensor tensor_of(const Numbers& numbers) {
  Tensor tensor(DType::kF32, Shape{static_cast<std::int64_t>(numbers.size())});
  for (std::size_t i = 0; i < numbers.size(); ++i) tensor.f32()[i] = static_cast<float>(numbers[i]);
  return tensor;
}

// The parameters after `steps` updates by the graph.
std::vector<float> run(const OptimizerOptions& options, float weight_decay, int steps) {
  Graph graph;
  const TensorType type{DType::kF32, {static_cast<std::int64_t>(kStart.size())}};
  const Value p = graph.input("p", type, InputRole::kParameter);
  const Value g = graph.input("g", type, InputRole::kParameter);
  std::vector<Value> states, scalars;
  for (const std::string& name : optimizer_states(options))
    states.push_back(graph.input(name, type, InputRole::kState));
  for (const std::string& name : optimizer_scalars(options))
    scalars.push_back(graph.input(name, {DType::kF32, {}}, InputRole::kScalar));
  const std::vector<Value> results =
      append_update(graph, options, weight_decay, p, g, states, scalars, "update");
  EXPECT_EQ(results.size(), 1 + states.size());
  for (std::size_t i = 0; i < results.size(); ++i) graph.output(cat("new", i), results[i]);
  graph.verify();

  std::vector<Tensor> held = {tensor_of(kStart)};  // the parameter and its states
  for (std::size_t i = 0; i < states.size(); ++i) held.emplace_back(type);
  for (int step = 0; step < steps; ++step) {
    Tensor gradients(type);
    for (std::size_t i = 0; i < kStart.size(); ++i)
      gradients.f32()[i] = static_cast<float>(gradient(i, step));
    std::vector<Tensor> inputs = {held[0], gradients};
    inputs.insert(inputs.end(), held.begin() + 1, held.end());
    for (const float scalar : optimizer_scalar_values(options, learning_rate(step), step))
      inputs.push_back(Tensor::scalar(scalar));
    held = interpret(graph, inputs);
  }
  return {held[0].f32().begin(), held[0].f32().end()};
}

// PyTorch's SGD: v = momentum * v + g; p -= lr * v, or lr * (g + momentum * v) with Nesterov.
Numbers sgd(double momentum, bool nesterov, double decay, int steps) {
  Numbers p = kStart, v(kStart.size(), 0.0);
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double g = gradient(i, step) + decay * p[i];
      v[i] = momentum * v[i] + g;
      p[i] -= learning_rate(step) * (nesterov ? g + momentum * v[i] : v[i]);
    }
  }
  return p;
}

// Kingma, Ba 2015, algorithm 1; decay is added to the gradient.
Numbers adam(double beta1, double beta2, double epsilon, double decay, int steps) {
  Numbers p = kStart, m(kStart.size(), 0.0), v(kStart.size(), 0.0);
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double g = gradient(i, step) + decay * p[i];
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      const double fair_m = m[i] / (1 - std::pow(beta1, step + 1));
      const double fair_v = v[i] / (1 - std::pow(beta2, step + 1));
      p[i] -= learning_rate(step) * fair_m / (std::sqrt(fair_v) + epsilon);
    }
  }
  return p;
}

void expect_close(const std::vector<float>& found, const Numbers& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-6) << i;
}

TEST(Sgd, without_momentum_takes_the_rate_times_the_gradient) {
  for (const int steps : {1, 2, 7}) expect_close(run({}, 0, steps), sgd(0, false, 0, steps));
}

TEST(Sgd, momentum_follows_the_formula_over_several_steps) {
  for (const int steps : {1, 2, 7})
    expect_close(run({.momentum = 0.9f}, 0, steps), sgd(0.9f, false, 0, steps));
}

TEST(Sgd, nesterov_follows_the_formula_over_several_steps) {
  for (const int steps : {1, 2, 7})
    expect_close(run({.momentum = 0.9f, .nesterov = true}, 0, steps), sgd(0.9f, true, 0, steps));
}

// v = momentum * v + rate * (g + decay * p), the rate by the norms of p and g; p -= v.
Numbers lars(double momentum, double trust, double decay, int steps) {
  const auto norm = [](const Numbers& x) {
    double sum = 0;
    for (const double value : x) sum += value * value;
    return std::sqrt(sum);
  };
  Numbers p = kStart, v(kStart.size(), 0.0), g(kStart.size());
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < p.size(); ++i) g[i] = gradient(i, step);
    const double ratio = trust == 0 ? 1 : trust * norm(p) / (norm(g) + decay * norm(p));
    for (std::size_t i = 0; i < p.size(); ++i) {
      v[i] = momentum * v[i] + learning_rate(step) * ratio * (g[i] + decay * p[i]);
      p[i] -= v[i];
    }
  }
  return p;
}

TEST(Lars, rate_follows_the_norms_of_parameter_and_gradient) {
  for (const int steps : {1, 2, 7}) {
    expect_close(run({.name = "lars", .momentum = 0.9f, .trust = 0.25f}, 0.125f, steps),
                 lars(0.9f, 0.25, 0.125, steps));
  }
}

TEST(Lars, without_trust_is_sgd_whose_momentum_has_the_rates) {
  for (const int steps : {1, 2, 7})
    expect_close(run({.name = "lars", .momentum = 0.9f, .trust = 0}, 0, steps),
                 lars(0.9f, 0, 0, steps));
}

TEST(Lars, takes_the_learning_rate_where_a_norm_is_zero) {
  EXPECT_EQ(lars_rate(0, 2, 0.5f, {}), 0.5f);
  EXPECT_EQ(lars_rate(2, 0, 0.5f, {}), 0.5f);
  EXPECT_EQ(lars_rate(2, 1, 0.5f, {.trust = 0.25f, .weight_decay = 0.5f}), 0.125f);
}

TEST(Sgd, weight_decay_adds_to_the_gradient) {
  expect_close(run({.momentum = 0.9f, .nesterov = true}, 0.05f, 5), sgd(0.9f, true, 0.05f, 5));
}

TEST(Sgd, the_ways_differ_by_more_than_the_tolerance) {
  const Numbers plain = sgd(0, false, 0, 7), momentum = sgd(0.9f, false, 0, 7),
                nesterov = sgd(0.9f, true, 0, 7), decayed = sgd(0.9f, true, 0.05f, 7);
  EXPECT_GT(std::abs(plain[0] - momentum[0]), 1e-3);
  EXPECT_GT(std::abs(momentum[0] - nesterov[0]), 1e-3);
  EXPECT_GT(std::abs(nesterov[0] - decayed[0]), 1e-3);
}

// Loshchilov, Hutter 2019, algorithm 2, with a decay that the learning rate scales, as PyTorch's.
Numbers adamw(double decay, int steps) {
  constexpr double kBeta1 = 0.9f, kBeta2 = 0.999f, kEpsilon = 1e-8f;
  Numbers p = kStart, m(kStart.size(), 0.0), v(kStart.size(), 0.0);
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double g = gradient(i, step);
      p[i] -= learning_rate(step) * decay * p[i];
      m[i] = kBeta1 * m[i] + (1 - kBeta1) * g;
      v[i] = kBeta2 * v[i] + (1 - kBeta2) * g * g;
      const double fair_m = m[i] / (1 - std::pow(kBeta1, step + 1));
      const double fair_v = v[i] / (1 - std::pow(kBeta2, step + 1));
      p[i] -= learning_rate(step) * fair_m / (std::sqrt(fair_v) + kEpsilon);
    }
  }
  return p;
}

TEST(AdamW, weight_decay_shrinks_the_parameters_and_leaves_the_gradient_alone) {
  for (const int steps : {1, 2, 7}) {
    expect_close(run({.name = "adamw"}, 0.25f, steps), adamw(0.25, steps));
    EXPECT_EQ(run({.name = "adamw"}, 0, steps), run({.name = "adam"}, 0, steps));
  }
  EXPECT_GT(std::abs(adamw(0.25, 7)[0] - adam(0.9f, 0.999f, 1e-8f, 0.25, 7)[0]), 1e-3);
}

TEST(Adam, follows_the_formula_over_several_steps) {
  const OptimizerOptions options{.name = "adam"};
  for (const int steps : {1, 2, 7})
    expect_close(run(options, 0, steps), adam(0.9f, 0.999f, 1e-8f, 0, steps));
}

TEST(Adam, takes_its_betas_and_epsilon) {
  const OptimizerOptions options{.name = "adam", .beta1 = 0.5f, .beta2 = 0.75f, .epsilon = 0.1f};
  expect_close(run(options, 0, 5), adam(0.5f, 0.75f, 0.1f, 0, 5));
}

TEST(Adam, weight_decay_adds_to_the_gradient) {
  expect_close(run({.name = "adam"}, 0.05f, 5), adam(0.9f, 0.999f, 1e-8f, 0.05f, 5));
}

TEST(Adam, the_first_step_is_the_rate_in_the_direction_of_the_sign) {
  const std::vector<float> p = run({.name = "adam"}, 0, 1);
  for (std::size_t i = 0; i < p.size(); ++i)
    EXPECT_NEAR(p[i], kStart[i] - std::copysign(0.1, gradient(i, 0)), 1e-6);
}

TEST(Adam, its_step_scalars_are_the_corrections_of_bias) {
  const OptimizerOptions options{.name = "adam"};
  for (const std::int64_t step : {0, 1, 9, 999, 100000}) {
    const std::vector<float> values = optimizer_scalar_values(options, 0.01, step);
    const auto t = static_cast<double>(step + 1);
    ASSERT_EQ(values.size(), optimizer_scalars(options).size());
    EXPECT_FLOAT_EQ(values[0], static_cast<float>(0.01 / (1 - std::pow(double{0.9f}, t))));
    EXPECT_FLOAT_EQ(values[1], static_cast<float>(1 / std::sqrt(1 - std::pow(double{0.999f}, t))));
  }
}

// The singular values of a matrix [rows, columns], squared, lie between these.
struct SquaredSingularValues {
  double least, most;
};
SquaredSingularValues squared_singular_values(const Tensor& x, std::int64_t rows,
                                              std::int64_t columns) {
  // By power iteration on the Gram matrix and on (most - Gram).
  const bool tall = rows > columns;
  const std::int64_t n = tall ? columns : rows, m = tall ? rows : columns;
  const auto at = [&](std::int64_t i, std::int64_t j) {
    return double{x.f32()[static_cast<std::size_t>(tall ? j * columns + i : i * columns + j)]};
  };
  const auto largest = [&](double shift, double sign) {
    Numbers v(static_cast<std::size_t>(n), 1.0);
    v[0] = 0.3;
    double norm = 0;
    for (int round = 0; round < 3000; ++round) {
      Numbers inner(static_cast<std::size_t>(m)), next(static_cast<std::size_t>(n));
      for (std::int64_t j = 0; j < m; ++j)
        for (std::int64_t i = 0; i < n; ++i)
          inner[static_cast<std::size_t>(j)] += at(i, j) * v[static_cast<std::size_t>(i)];
      norm = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        double product = 0;
        for (std::int64_t j = 0; j < m; ++j)
          product += at(i, j) * inner[static_cast<std::size_t>(j)];
        const auto k = static_cast<std::size_t>(i);
        next[k] = shift * v[k] + sign * product;
        norm += next[k] * next[k];
      }
      norm = std::sqrt(norm);
      for (std::size_t i = 0; i < next.size(); ++i) v[i] = next[i] / norm;
    }
    return norm;
  };
  const double most = largest(0, 1);
  return {most - largest(most, -1), most};
}

// One step of Muon from a zero velocity: how far the weight, rescaled, moved, over the rate.
Tensor muon_direction(std::int64_t rows, std::int64_t columns) {
  const OptimizerOptions options{.name = "muon", .momentum = 0.6f, .nesterov = true};
  Graph graph;
  const TensorType type{DType::kF32, {rows, columns}};
  const Value p = graph.input("p", type, InputRole::kParameter);
  const Value g = graph.input("g", type, InputRole::kParameter);
  const Value v = graph.input("v", type, InputRole::kState);
  const Value rate = graph.input("rate", {DType::kF32, {}}, InputRole::kScalar);
  const std::vector<Value> results = append_update(graph, options, 0, p, g, {v}, {rate}, "muon");
  graph.output("p", results[0]);
  graph.output("v", results[1]);
  std::vector<Tensor> in = {Tensor(type), Tensor(type), Tensor(type), Tensor::scalar(0.25f)};
  double squares = 0;
  for (std::size_t i = 0; i < in[0].f32().size(); ++i) {
    in[0].f32()[i] = static_cast<float>(std::sin(1.0 + 0.7 * static_cast<double>(i)));
    in[1].f32()[i] = static_cast<float>(1e-3 * std::cos(0.9 * static_cast<double>(i * i)));
    squares += double{in[0].f32()[i]} * in[0].f32()[i];
  }
  const std::vector<Tensor> out = interpret(graph, in);
  EXPECT_TRUE(std::ranges::equal(out[1].f32(), in[1].f32()));  // 0.6 * 0 + g
  Tensor direction(type);
  const double factor = std::sqrt(static_cast<double>(rows) / squares);
  for (std::size_t i = 0; i < direction.f32().size(); ++i)
    direction.f32()[i] = static_cast<float>((in[0].f32()[i] * factor - out[0].f32()[i]) / 0.25);
  return direction;
}

TEST(Muon, moves_along_a_nearly_orthogonal_matrix) {
  for (const auto& [rows, columns] : {std::pair{4, 20}, std::pair{20, 4}, std::pair{6, 6}}) {
    const SquaredSingularValues s =
        squared_singular_values(muon_direction(rows, columns), rows, columns);
    EXPECT_GT(std::sqrt(s.least), 0.2) << rows << " x " << columns;
    EXPECT_LT(std::sqrt(s.most), 1.3) << rows << " x " << columns;
  }
}

TEST(Optimizer, names_its_states_and_scalars) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(optimizer_states({.name = "sgd"}), Names{"velocity"});
  EXPECT_EQ(optimizer_scalars({.name = "sgd"}), Names{"learning_rate"});
  EXPECT_EQ(optimizer_states({.name = "adam"}), (Names{"m", "v"}));
  EXPECT_EQ(optimizer_scalars({.name = "adam"}), (Names{"step_size", "inv_sqrt_correction"}));
  EXPECT_EQ(optimizer_scalar_values({.name = "sgd"}, 0.25, 17), std::vector<float>{0.25f});
}

TEST(Optimizer, a_parameter_that_never_moved_stays_where_gradient_and_decay_are_zero) {
  // The gaps between tensors in the flat buffer are zeros and must stay so.
  for (const OptimizerOptions& options :
       {OptimizerOptions{.momentum = 0.9f, .nesterov = true}, OptimizerOptions{.name = "adam"}}) {
    Graph graph;
    const TensorType type{DType::kF32, {4}};
    std::vector<Value> states, scalars;
    const Value p = graph.input("p", type, InputRole::kParameter);
    const Value g = graph.input("g", type, InputRole::kParameter);
    std::vector<Tensor> inputs = {Tensor(type), Tensor(type)};
    for (const std::string& name : optimizer_states(options)) {
      states.push_back(graph.input(name, type, InputRole::kState));
      inputs.emplace_back(type);
    }
    for (const std::string& name : optimizer_scalars(options))
      scalars.push_back(graph.input(name, {DType::kF32, {}}, InputRole::kScalar));
    for (const float scalar : optimizer_scalar_values(options, 0.1, 0))
      inputs.push_back(Tensor::scalar(scalar));
    graph.output("new", append_update(graph, options, 0.1f, p, g, states, scalars, "")[0]);
    const std::vector<Tensor> results = interpret(graph, inputs);
    for (const float x : results[0].f32()) EXPECT_EQ(x, 0.0f) << options.name;
  }
}

TEST(Optimizer, an_unknown_name_is_an_error_that_lists_the_known_ones) {
  try {
    optimizer_states({.name = "lion"});
    FAIL() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "optimizer.name = \"lion\": no such optimizer; known are sgd, lars, adam, adamw and muon");
  }
  EXPECT_THROW(optimizer_scalars({.name = "lion"}), UserError);
  EXPECT_THROW(optimizer_scalar_values({.name = ""}, 1, 0), UserError);
}

TEST(Optimizer, a_state_of_another_shape_is_refused_by_the_name_of_the_update) {
  Graph graph;
  const TensorType four{DType::kF32, {4}}, five{DType::kF32, {5}};
  const Value p = graph.input("p", four, InputRole::kParameter);
  const Value v = graph.input("v", five, InputRole::kState);
  const Value rate = graph.input("rate", {DType::kF32, {}}, InputRole::kScalar);
  try {
    append_update(graph, {}, 0, p, p, {v}, {rate}, "piece 0");
    FAIL() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "[sgd_update \"piece 0\"] input 2 is f32[5], not f32[4]");
  }
}

}  // namespace
}  // namespace podium
