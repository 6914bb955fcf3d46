#include "backend/operation_case.h"

#include <bit>
#include <cmath>

#include "base/philox.h"

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
  return sample.inputs.empty() || sample.inputs[0].shape.rank() < 2 ? 10
                                                                    : sample.inputs[0].shape[1];
}

std::vector<Tensor> run_case(Backend& backend, const OperationCase& operation,
                             const CompileOptions& options) {
  const auto executable = backend.compile(operation.graph, options);
  std::vector<const void*> in;
  for (const Tensor& tensor : operation.inputs) in.push_back(tensor.data());
  std::vector<Tensor> results;
  for (const NamedValue& output : operation.graph.outputs())
    results.emplace_back(operation.graph.type(output.value));
  std::vector<void*> out;
  for (Tensor& result : results) out.push_back(result.data());
  executable->run(in, out);
  return results;
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

}  // namespace podium
