// Every backend against the reference interpreter: each operation over its samples, bit for bit, on
// every vector target and with several threads; and the reference's gradients against finite
// differences.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "backend/backend.h"
#include "backend/cpu/kernels/targets.h"
#include "backend/reference/reference_backend.h"
#include "base/philox.h"
#include "ops/ops.h"

namespace podium {
namespace {

// Values around zero; statistics that must be positive come out of the absolute value where a rule
// asks for it.
Tensor random_tensor(const TensorType& type, std::uint32_t stream, std::int64_t classes,
                     bool positive) {
  Tensor tensor(type);
  const PhiloxStream words(7, RandomPurpose::kInitialise, stream);
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
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

struct Case {
  Graph graph;
  std::vector<Tensor> inputs;
};

Case make_case(const OpDef& op, const OpSample& sample, std::uint32_t stream) {
  Case c;
  std::vector<Value> values;
  const std::int64_t classes =
      sample.inputs.empty() || sample.inputs[0].shape.rank() < 2 ? 10 : sample.inputs[0].shape[1];
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const TensorType& type = sample.inputs[i];
    const bool batch = type.shape.rank() >= 1 && &op != &matmul_op &&
                       type.shape[0] == sample.inputs[0].shape[0] && i != 1;
    values.push_back(
        c.graph.input(cat("input", i), type, batch ? InputRole::kBatch : InputRole::kParameter));
    const bool second_moment = op.kind == OpKind::kAdamUpdate ||
                               op.kind == OpKind::kBatchNormInference ||
                               op.kind == OpKind::kBatchNormRunning;
    c.inputs.push_back(random_tensor(type, stream * 16 + static_cast<std::uint32_t>(i), classes,
                                     second_moment && i >= 3));
  }
  const std::vector<Value> outputs = c.graph.add(op, sample.attributes, values, "sample");
  for (std::size_t i = 0; i < outputs.size(); ++i) c.graph.output(cat("output", i), outputs[i]);
  c.graph.verify();
  return c;
}

std::vector<Tensor> run(Backend& backend, const Case& c, const CompileOptions& options) {
  const auto executable = backend.compile(c.graph, options);
  std::vector<const void*> in;
  for (const Tensor& tensor : c.inputs) in.push_back(tensor.data());
  std::vector<Tensor> results;
  for (const NamedValue& output : c.graph.outputs())
    results.emplace_back(c.graph.type(output.value));
  std::vector<void*> out;
  for (Tensor& result : results) out.push_back(result.data());
  executable->run(in, out);
  return results;
}

void expect_equal_bits(const Tensor& actual, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.type(), expected.type()) << what;
  const auto* a = static_cast<const std::uint32_t*>(actual.data());
  const auto* e = static_cast<const std::uint32_t*>(expected.data());
  for (std::int64_t i = 0; i < actual.elements(); ++i) {
    ASSERT_EQ(a[i], e[i]) << what << ", element " << i << ": " << std::bit_cast<float>(a[i])
                          << " and " << std::bit_cast<float>(e[i]);
  }
}

class Conformance : public testing::TestWithParam<const OpDef*> {};

TEST_P(Conformance, cpu_kernels_return_the_bits_of_the_reference) {
  const OpDef& op = *GetParam();
  const auto backend = make_backend("cpu");
  const std::vector<OpSample> samples = op.samples();
  ASSERT_FALSE(samples.empty());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Case c = make_case(op, samples[i], static_cast<std::uint32_t>(i));
    const std::vector<Tensor> expected = interpret(c.graph, c.inputs);
    for (const std::string& target : cpu::vector_targets()) {
      cpu::set_vector_target(target);
      for (const int threads : {1, 3}) {
        const std::vector<Tensor> actual = run(*backend, c, {.threads = threads});
        for (std::size_t o = 0; o < actual.size(); ++o) {
          expect_equal_bits(actual[o], expected[o],
                            cat(op.name, " sample ", i, " {", samples[i].attributes.text(),
                                "} output ", o, " on ", target, ", ", threads, " threads"));
        }
      }
    }
    cpu::set_vector_target(cpu::vector_targets().front());
  }
}

INSTANTIATE_TEST_SUITE_P(AllOps, Conformance, testing::ValuesIn(all_ops().begin(), all_ops().end()),
                         [](const auto& tested) { return std::string(tested.param->name); });

}  // namespace
}  // namespace podium
