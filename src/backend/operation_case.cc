#include "backend/operation_case.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/numerics/philox.h"

namespace podium {

Tensor random_operand(const TensorType& type, std::uint32_t stream, std::int64_t classes,
                      bool positive) {
  Tensor tensor(type);
  const PhiloxStream words(7, RandomPurpose::kInitialise, stream);
  for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.elements()); ++i) {
    const std::uint32_t word = words.word(static_cast<std::uint32_t>(i));
    if (type.dtype == DType::kF32) {
      const float x = 4 * uniform01(word) - 2;
      tensor.f32()[i] = positive ? std::abs(x) + 0.1f : x;
    } else if (type.dtype == DType::kI32) {
      tensor.i32()[i] =
          static_cast<std::int32_t>(uniform_below(word, static_cast<std::uint32_t>(classes)));
    } else {
      tensor.u32()[i] = word % 1000;
    }
  }
  return tensor;
}

std::int64_t classes_of(const OpSample& sample) {
  const std::vector<TensorType>& inputs = sample.inputs;
  if (inputs.size() > 2 && inputs[1].shape.rank() == 2 && inputs[2].dtype == DType::kI32)
    return inputs[1].shape[0];
  return inputs.empty() || inputs[0].shape.rank() < 2 ? 10 : inputs[0].shape[1];
}

LoadedProgram::LoadedProgram(Device& device, const Graph& graph, std::span<const Tensor> inputs,
                             const CompileOptions& options)
    : device_(device), program_(device, graph, options) {
  PODIUM_CHECK(inputs.size() == graph.inputs().size());
  const Plan& plan = program_.executable().plan();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    PODIUM_CHECK(inputs[i].type() == plan.inputs[i].type, plan.inputs[i].name);
    inputs_.push_back(device.allocate(inputs[i].type().bytes()));
    upload(i, inputs[i]);
    program_.bind_input(plan.inputs[i].name, *inputs_[i]);
  }
  outputs_.resize(plan.outputs.size());
  for (std::size_t o = 0; o < plan.outputs.size(); ++o) {
    const auto donated =
        std::ranges::find(plan.donated, static_cast<int>(o), &std::pair<int, int>::first);
    if (donated != plan.donated.end()) continue;
    outputs_[o] = device.allocate(plan.outputs[o].type.bytes());
    program_.bind_output(plan.outputs[o].name, *outputs_[o]);
  }
}

void LoadedProgram::upload(std::size_t input, const Tensor& values) {
  device_.upload(*inputs_[input], values.data());
}

std::vector<Tensor> LoadedProgram::results() const {
  const Plan& plan = program_.executable().plan();
  std::vector<Tensor> results;
  for (const NamedType& output : plan.outputs) results.emplace_back(output.type);
  for (std::size_t o = 0; o < outputs_.size(); ++o)
    if (outputs_[o]) device_.download(results[o].data(), *outputs_[o]);
  for (const auto& [output, input] : plan.donated)
    device_.download(results[static_cast<std::size_t>(output)].data(),
                     *inputs_[static_cast<std::size_t>(input)]);
  return results;
}

std::vector<Tensor> run_case(Device& device, const OperationCase& operation,
                             const CompileOptions& options) {
  LoadedProgram program(device, operation.graph, operation.inputs, options);
  program.run();
  return program.results();
}

std::string first_difference(const Tensor& actual, const Tensor& expected) {
  if (actual.type() != expected.type())
    return cat(to_string(actual.type()), " and ", to_string(expected.type()));
  const auto* a = static_cast<const std::uint32_t*>(actual.data());
  const auto* e = static_cast<const std::uint32_t*>(expected.data());
  for (std::int64_t i = 0; i < actual.elements(); ++i) {
    if (a[i] == e[i]) continue;
    if (actual.dtype() != DType::kF32) return cat("element ", i, ": ", a[i], " and ", e[i]);
    const auto x = std::bit_cast<float>(a[i]), y = std::bit_cast<float>(e[i]);
    if (x == x || y == y) return cat("element ", i, ": ", x, " and ", y);
  }
  return "";
}

std::string first_beyond(const Traits& traits, const Tensor& actual, const Tensor& expected) {
  if (traits.exact_fp32 || expected.dtype() != DType::kF32 || actual.type() != expected.type())
    return first_difference(actual, expected);
  float largest = 0;
  for (const float x : expected.f32())
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < expected.f32().size(); ++i) {
    const float a = actual.f32()[i], e = expected.f32()[i];
    // What overflows in one order may not in another; there is no saying where.
    if (!std::isfinite(e) || std::abs(a - e) <= traits.tolerance * largest) continue;
    return cat("element ", i, ": ", a, " and ", e, ", of tensors up to ", largest);
  }
  return "";
}

}  // namespace podium
