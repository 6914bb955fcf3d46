#include "train/plugin/check_operation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>

#include "autodiff/gradients.h"
#include "backend/operation_case.h"
#include "backend/reference/reference_device.h"
#include "base/numerics/philox.h"
#include "ops/ops.h"

namespace podium {
namespace {

std::string name_of(const OpDef& op, const OpSample& sample) {
  std::string shapes;
  for (const TensorType& type : sample.inputs)
    shapes += cat(shapes.empty() ? "" : ", ", to_string(type));
  return cat("[", op.name, "] of ", shapes, sample.attributes.text().empty() ? "" : " {",
             sample.attributes.text(), sample.attributes.text().empty() ? "" : "}");
}

// In +-[0.25, 2.25): away from zero, where many functions have a corner.
std::vector<Tensor> draw_operands(const OpSample& sample, std::uint32_t stream,
                                  const OperationCheckOptions& options) {
  std::vector<Tensor> operands;
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    Tensor& tensor = operands.emplace_back(random_operand(
        sample.inputs[i], stream * 16 + static_cast<std::uint32_t>(i), classes_of(sample)));
    if (tensor.dtype() != DType::kF32) continue;
    for (float& x : tensor.f32()) x += x < 0 ? -0.25f : 0.25f;
  }
  if (options.prepare) options.prepare(sample, operands);
  return operands;
}

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.f32().size(); ++i) sum += double{a.f32()[i]} * double{b.f32()[i]};
  return sum;
}

// The operation alone, on inputs of the program.
struct Alone {
  Graph graph;
  std::vector<Value> inputs, outputs;

  Alone(const OpDef& op, const OpSample& sample) {
    for (std::size_t i = 0; i < sample.inputs.size(); ++i)
      inputs.push_back(graph.input(cat("input", i), sample.inputs[i], InputRole::kBatch));
    outputs = graph.add(op, sample.attributes, inputs, "checked");
  }
};

// --- gradients

class GradientCheck {
 public:
  GradientCheck(const OpDef& op, const OpSample& sample, std::uint32_t stream,
                const OperationCheckOptions& options)
      : op_(op),
        sample_(sample),
        stream_(stream),
        options_(options),
        operands_(draw_operands(sample, stream, options)) {}

  std::vector<std::string> run() {
    for (std::size_t o = 0; o < options_.outputs; ++o) of_output(o);
    return std::move(findings_);
  }

 private:
  void of_output(std::size_t output) {
    Alone alone(op_, sample_);
    Graph& graph = alone.graph;
    const Value out = alone.outputs.at(output);
    const Value seed = graph.input("seed", graph.type(out), InputRole::kBatch);
    const Tensor weights = random_operand(graph.type(out), stream_ * 16 + 15, 0);
    std::vector<std::size_t> asked;  // inputs
    for (std::size_t i = 0; i < sample_.inputs.size(); ++i) {
      if (sample_.inputs[i].dtype != DType::kF32 ||
          std::ranges::find(options_.constant_inputs, i) != options_.constant_inputs.end())
        continue;
      try {
        graph.output(cat("gradient", i),
                     gradients(graph, out, seed, std::vector<Value>{alone.inputs[i]})[0]);
        asked.push_back(i);
      } catch (const UserError& error) {
        add(cat(output == 0 ? "" : cat("output ", output, ", "), "input ", i, ": ", error.what()));
      }
    }
    graph.output("out", out);
    std::vector<Tensor> at = operands_;
    at.push_back(weights);
    const std::vector<Tensor> results = interpret(graph, at);
    for (std::size_t k = 0; k < asked.size(); ++k)
      compare(output, asked[k], results[k], weights, results.back());
  }

  // The gradient of <output, weights> along a direction of signs.
  void compare(std::size_t output, std::size_t input, const Tensor& gradient, const Tensor& weights,
               const Tensor& result) {
    const PhiloxStream signs(13, RandomPurpose::kInitialise,
                             stream_ * 16 + static_cast<std::uint32_t>(input));
    Tensor direction(sample_.inputs[input]);
    for (std::size_t i = 0; i < direction.f32().size(); ++i)
      direction.f32()[i] = (signs.word(static_cast<std::uint32_t>(i)) & 1) != 0 ? 1.0f : -1.0f;
    Alone forward(op_, sample_);
    forward.graph.output("out", forward.outputs[output]);
    const auto loss = [&](float distance) {
      std::vector<Tensor> moved = operands_;
      for (std::size_t i = 0; i < direction.f32().size(); ++i)
        moved[input].f32()[i] += distance * direction.f32()[i];
      return dot(interpret(forward.graph, moved)[0], weights);
    };
    // Central differences, extrapolated: the error is of fourth order in the step.
    const auto slope = [&](float h) { return (loss(h) - loss(-h)) / (2.0 * double{h}); };
    const double measured = (4 * slope(options_.step) - slope(2 * options_.step)) / 3;
    const double found = dot(gradient, direction);
    const double size = std::sqrt(dot(gradient, gradient)) + 0.01 * std::sqrt(dot(result, result));
    if (std::abs(found - measured) <= options_.tolerance * size) return;  // false for NaN
    add(cat("the gradient of output ", output, " for input ", input, " is ", found,
            " along a direction in which finite differences give ", measured));
  }

  void add(const std::string& text) { findings_.push_back(cat(name_of(op_, sample_), ": ", text)); }

  const OpDef& op_;
  const OpSample& sample_;
  const std::uint32_t stream_;
  const OperationCheckOptions& options_;
  const std::vector<Tensor> operands_;
  std::vector<std::string> findings_;
};

// --- the reference, and backends against it

std::vector<Tensor> reference_over(int filler, const OpDef& op, const OpSample& sample,
                                   const std::vector<Tensor>& operands) {
  const Alone alone(op, sample);
  std::vector<Tensor> results;
  for (const Value value : alone.outputs) {
    Tensor& result = results.emplace_back(alone.graph.type(value));
    std::memset(result.data(), filler, static_cast<std::size_t>(result.type().bytes()));
  }
  std::vector<const Tensor*> arguments;
  for (const Tensor& operand : operands) arguments.push_back(&operand);
  std::vector<Tensor*> outputs;
  for (Tensor& result : results) outputs.push_back(&result);
  op.reference(sample.attributes, arguments, outputs);
  return results;
}

std::string reference_finding(const OpDef& op, const OpSample& sample,
                              const std::vector<Tensor>& operands) {
  // A reference that casts const away is what this looks for, so the copy has a use.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const std::vector<Tensor> before = operands;
  const std::vector<Tensor> first = reference_over(0, op, sample, operands),
                            second = reference_over(0x41, op, sample, operands);
  for (std::size_t o = 0; o < first.size(); ++o) {
    const std::string found = first_difference(second[o], first[o]);
    if (!found.empty())
      return cat("the reference gives output ", o, " other values in memory that holds something (",
                 found, "); it must write every element, from its inputs alone");
  }
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (std::memcmp(operands[i].data(), before[i].data(),
                    static_cast<std::size_t>(operands[i].type().bytes())) != 0)
      return cat("the reference changes input ", i);
  return "";
}

// The operation on inputs of the program; or, as in a network, on what operations before it made,
// with one after it, where a backend may hold values in another layout.
OperationCase make_case(const OpDef& op, const OpSample& sample, std::vector<Tensor> operands,
                        bool in_a_network) {
  OperationCase made;
  std::vector<Value> values;
  const auto is_activation = [](const TensorType& type) {
    return type.dtype == DType::kF32 && (type.shape.rank() == 2 || type.shape.rank() == 4);
  };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const TensorType type = operands[i].type();
    values.push_back(made.graph.input(cat("input", i), type, InputRole::kBatch));
    made.inputs.push_back(std::move(operands[i]));
    if (!in_a_network || !is_activation(type)) continue;
    Tensor zeros(DType::kF32, Shape{type.shape[1]});
    std::ranges::fill(zeros.f32(), -0.0f);  // changes no value
    values.back() =
        bias_add(made.graph, values.back(),
                 made.graph.input(cat("zeros", i), zeros.type(), InputRole::kParameter));
    made.inputs.push_back(std::move(zeros));
  }
  const std::vector<Value> outputs = made.graph.add(op, sample.attributes, values, "checked");
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const bool goes_on = in_a_network && is_activation(made.graph.type(outputs[o]));
    made.graph.output(cat("output", o), goes_on ? relu(made.graph, outputs[o]) : outputs[o]);
  }
  return made;
}

std::string backend_finding(const OpDef& op, const OpSample& sample,
                            const std::vector<Tensor>& operands) {
  for (const bool in_a_network : {false, true}) {
    const OperationCase made = make_case(op, sample, operands, in_a_network);
    const std::vector<Tensor> expected = interpret(made.graph, made.inputs);
    for (const std::string& name : backend_names()) {
      for (const int threads : {1, 3}) {
        const std::vector<Tensor> actual =
            run_case(*make_device(name, {.threads = threads}), made, {});
        for (std::size_t o = 0; o < actual.size(); ++o) {
          const std::string found = first_difference(actual[o], expected[o]);
          if (!found.empty())
            return cat("output ", o, " of backend ", name, " with ", threads,
                       " threads differs from the reference",
                       in_a_network ? ", between other operations" : "", ": ", found);
        }
      }
    }
  }
  return "";
}

std::string cost_finding(const OpDef& op, const OpSample& sample) {
  const Alone alone(op, sample);
  std::vector<TensorType> types;
  for (const Value value : alone.outputs) types.push_back(alone.graph.type(value));
  const Cost cost = cost_of(op, sample.attributes, sample.inputs, types);
  const auto sound = [](double x) { return std::isfinite(x) && x >= 0; };
  return sound(cost.flops) && sound(cost.bytes)
             ? ""
             : cat("its cost is ", cost.flops, " FLOPs and ", cost.bytes, " bytes");
}

std::vector<std::string> check_sample(const OpDef& op, const OpSample& sample, std::uint32_t stream,
                                      const OperationCheckOptions& options) {
  const std::string name = name_of(op, sample);
  try {
    const std::vector<Tensor> operands = draw_operands(sample, stream, options);
    for (const std::string& found :
         {cost_finding(op, sample), reference_finding(op, sample, operands),
          backend_finding(op, sample, operands)})
      if (!found.empty()) return {cat(name, ": ", found)};
    return op.gradient == nullptr ? std::vector<std::string>{}
                                  : check_gradient(op, sample, stream, options);
  } catch (const std::exception& error) {
    return {cat(name, ": ", error.what())};
  }
}

}  // namespace

std::vector<std::string> check_gradient(const OpDef& op, const OpSample& sample,
                                        std::uint32_t stream,
                                        const OperationCheckOptions& options) {
  return GradientCheck(op, sample, stream, options).run();
}

std::vector<std::string> check_operation(const OpDef& op, const OperationCheckOptions& options) {
  const std::string missing = op.infer == nullptr       ? "infer"
                              : op.reference == nullptr ? "reference"
                              : op.samples == nullptr   ? "samples"
                                                        : "";
  if (!missing.empty()) return {cat("[", op.name, "] has no `", missing, "`")};
  const std::vector<OpSample> samples = op.samples();
  if (samples.empty()) return {cat("[", op.name, "] `samples` gives none")};
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::vector<std::string> found =
        check_sample(op, samples[i], static_cast<std::uint32_t>(i), options);
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace podium
