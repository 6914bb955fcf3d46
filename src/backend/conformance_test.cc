// Every other backend against the reference interpreter, bit for bit, on every vector target of the
// CPU and with several threads: each operation over its samples, and over shapes, attributes and
// values drawn at random (seeded; PODIUM_CASES in the environment asks for more of them,
// PODIUM_CASE_SEED for others). With PODIUM_PJRT_CPU_PLUGIN defined, of pjrt alone, on that plugin.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <memory>
#include <set>

#include "backend/device.h"
#include "backend/drawn_sample_test_util.h"
#include "backend/operation_case.h"
#include "backend/pjrt/cpu_plugin_test_util.h"
#include "backend/reference/reference_device.h"
#include "backend/tested_devices_test_util.h"
#include "backend/variance_test_util.h"
#include "base/numerics/philox.h"
#include "ops/bf16.h"
#include "ops/ops.h"

namespace podium {
namespace {

bool is_winograd(const OpDef& op) {
  return op.kind == OpKind::kConv2dWinograd || op.kind == OpKind::kConv2dWinogradGradInput ||
         op.kind == OpKind::kConv2dWinogradGradWeight;
}

// What a device of another kind computes for a Winograd convolution that is not fused: a plain one.
Graph with_plain_convolutions(const Graph& graph) {
  return with_changed_nodes(graph, [](std::int32_t, Node& node) {
    if (node.op == nullptr || !is_winograd(*node.op)) return;
    const auto& a = node.attributes.as<Conv2dAttributes>();
    if (a.pools || a.normalises) return;
    node.op = node.op->kind == OpKind::kConv2dWinograd            ? &conv2d_op
              : node.op->kind == OpKind::kConv2dWinogradGradInput ? &conv2d_grad_input_op
                                                                  : &conv2d_grad_weight_op;
  });
}

// Of an operand that says where maxima stand (max_pool's second result), the pixels of a window,
// which are 2x2 of a convolution; 0 of others.
std::int64_t places_in(const OpDef& op, const OpSample& sample, std::size_t operand) {
  if (op.kind == OpKind::kMaxPoolGrad && operand == 1) {
    const auto& a = sample.attributes.as<PoolAttributes>();
    return a.places ? a.window_h * a.window_w : 0;
  }
  return operand == 2 && (op.kind == OpKind::kConv2dWinogradGradInput ||
                          op.kind == OpKind::kConv2dWinogradGradWeight)
             ? 4
             : 0;
}
// From numbers between -2 and 2.
Tensor places_of(Tensor tensor, std::int64_t pixels) {
  for (float& x : tensor.f32()) x = std::floor((x + 2) / 4 * static_cast<float>(pixels));
  return tensor;
}

// Whether an operand's values are above 0 where its operation is used.
bool is_positive(const OpDef& op, std::size_t operand) {
  switch (op.kind) {
    case OpKind::kAdamUpdate:
    case OpKind::kBatchNormInference:
    case OpKind::kBatchNormRunning: return operand >= 3;  // variances and second moments
    case OpKind::kGlobalNorm:
    case OpKind::kClipFactor:
    case OpKind::kLarsRate: return true;
    default: return false;
  }
}

OperationCase make_case(const OpDef& op, const OpSample& sample, std::uint32_t stream) {
  OperationCase c;
  std::vector<Value> values;
  const std::int64_t classes = classes_of(sample);
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const TensorType& type = sample.inputs[i];
    const bool batch = type.shape.rank() >= 1 && &op != &matmul_op && &op != &matmul_bf16_op &&
                       type.shape[0] == sample.inputs[0].shape[0] && i != 1;
    values.push_back(
        c.graph.input(cat("input", i), type, batch ? InputRole::kBatch : InputRole::kParameter));
    c.inputs.push_back(random_operand(type, stream * 16 + static_cast<std::uint32_t>(i), classes,
                                      is_positive(op, i)));
    if (const std::int64_t pixels = places_in(op, sample, i))
      c.inputs.back() = places_of(std::move(c.inputs.back()), pixels);
  }
  const std::vector<Value> outputs = c.graph.add(op, sample.attributes, values, "sample");
  for (std::size_t i = 0; i < outputs.size(); ++i) c.graph.output(cat("output", i), outputs[i]);
  c.graph.verify();
  return c;
}

// Whether an output of the graph says which of a convolution's pixels a pooling took. A rounding
// may decide between two that are almost equal.
bool are_places(const Graph& graph, std::size_t output) {
  const Value value = graph.outputs()[output].value;
  const Node& node = graph.node(value);
  return value.output == 1 && node.op != nullptr && is_winograd(*node.op);
}
std::int64_t differing(const Tensor& a, const Tensor& b) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < a.f32().size(); ++i) count += a.f32()[i] != b.f32()[i] ? 1 : 0;
  return count;
}

bool has_large(const Tensor& operand) {
  constexpr float kLarge = 16;
  return operand.type().dtype == DType::kF32 &&
         std::ranges::any_of(operand.f32(), [](float x) { return !(std::fabs(x) < kLarge); });
}

// Of the longest sum that a product of BF16 operands computes.
std::int64_t terms_of(const Graph& graph, const Node& node) {
  const Shape &first = graph.shape(node.inputs[0]), &second = graph.shape(node.inputs[1]);
  switch (node.op->kind) {
    case OpKind::kConv2dBf16: return second.elements() / second[0];
    case OpKind::kConv2dBf16GradInput: return second.elements() / second[1];
    case OpKind::kConv2dBf16GradWeight: return second.elements() / second[1];
    default: return first.elements() / node.outputs[0].shape[0];  // of a product of matrices
  }
}

// What a device computes otherwise than the reference, beyond what its traits allow; empty:
// nothing.
std::string difference_from_reference(Device& device, const OperationCase& c,
                                      const std::vector<std::string>& ways) {
  Traits allowed = device.traits();
  for (const Node& node : c.graph.nodes()) {
    if (node.op == nullptr || !is_bf16(*node.op)) continue;
    // A device that has BF16 of its own is compared with the order of AMX.
    const Bf16Support support = device.bf16();
    const Bf16Order order = bf16_order_of(node);
    if (!support.computes(order) && !(support.orders.empty() && order == Bf16Order::kAmx))
      return "";
    // The gradient to logits is rounded, and so are weights of attention: another last bit of one
    // may be another number of BF16.
    const bool attends = node.op == &attention_bf16_op || node.op == &attention_bf16_grad_op,
               is_exact = allowed.exact_fp32 && support.family.empty();
    // Between large scores, a last bit may decide which key has all the weight.
    if (attends && !is_exact && std::ranges::any_of(c.inputs, has_large)) return "";
    if ((attends || node.op == &linear_cross_entropy_bf16_grad_op) && !is_exact)
      allowed.tolerance = std::max(allowed.tolerance, 0x1p-8f);
    if (support.family.empty()) continue;
    allowed.exact_fp32 = false;
    const auto groups = static_cast<double>((terms_of(c.graph, node) + 15) / 16);
    allowed.tolerance = std::max(allowed.tolerance, static_cast<float>(groups * support.tolerance));
  }
  const Graph graph = allowed.exact_fp32 ? c.graph : with_plain_convolutions(c.graph);
  const std::vector<Tensor> expected = interpret(graph, c.inputs);
  for (const Node& node : graph.nodes())
    if (node.op != nullptr && is_winograd(*node.op))
      allowed.tolerance = std::max(allowed.tolerance, allowed.winograd_tolerance);
  allowed.tolerance += growth_of_variance(graph, expected);
  for (const std::string& target : ways) {
    choose_way(device, target);
    const std::vector<Tensor> actual = run_case(device, c, {});
    for (std::size_t o = 0; o < actual.size(); ++o) {
      if (!allowed.exact_fp32 && are_places(graph, o) &&
          differing(actual[o], expected[o]) * 1000 < actual[o].elements())
        continue;
      const std::string found = first_beyond(allowed, actual[o], expected[o]);
      if (!found.empty())
        return cat("output ", o, " on ", device.name(), " ", target, ", ", device.options().threads,
                   " threads: ", found);
    }
  }
  return "";
}

// Drawn cases are many: the emulated GPU, which is slow, computes each in one of its ways.
enum class Ways : std::uint8_t { kAll, kOneOfGpu };

void expect_reference(std::span<const std::unique_ptr<Device>> devices, const OperationCase& c,
                      const std::string& what, Ways which = Ways::kAll, int number = 0) {
  for (const auto& device : devices) {
    std::vector<std::string> ways = ways_to_run(*device);
    if (which == Ways::kOneOfGpu && device->name() == "cuda-emulated")
      ways = {ways[static_cast<std::size_t>(number) % ways.size()]};
    ASSERT_EQ(difference_from_reference(*device, c, ways), "") << what;
  }
}

// --- random cases

// What the values of a case are like: around zero; half of them zeros of both signs; of very
// different sizes; with infinities, NaN and denormals among them.
enum class Values : std::uint8_t { kPlain, kSparse, kWide, kSpecial };

void draw_values(Draw& draw, Values values, bool positive, Tensor& tensor) {
  if (tensor.dtype() != DType::kF32 || values == Values::kPlain) return;
  for (float& x : tensor.f32()) {
    if (values == Values::kSparse && draw.one_in(2)) x = std::copysign(0.0f, x);
    if (values == Values::kWide) x = std::ldexp(x, static_cast<int>(draw.in(-30, 30)));
    if (values == Values::kSpecial && draw.one_in(40)) {
      x = draw.of({std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                   std::numeric_limits<float>::quiet_NaN(), 1e-40f, -3e-39f,
                   std::numeric_limits<float>::max(), -0.0f});
    }
    if (positive) x = std::abs(x);
  }
}

// The case of a sample, with its values; images and matrices are half of the time what an operation
// before them made, as in a network, where a backend may hold them in another layout.
OperationCase draw_case(const OpDef& op, const OpSample& sample, Draw& draw, Values kind) {
  OperationCase c;
  std::vector<Value> values;
  const std::int64_t classes = classes_of(sample);
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    const TensorType& type = sample.inputs[i];
    const bool positive = is_positive(op, i);
    Value value = c.graph.input(cat("input", i), type, InputRole::kBatch);
    c.inputs.push_back(random_operand(type, draw.word() & 0xffffff, classes, positive));
    if (const std::int64_t pixels = places_in(op, sample, i)) {
      c.inputs.back() = places_of(std::move(c.inputs.back()), pixels);
      values.push_back(value);
      continue;
    }
    draw_values(draw, kind, positive, c.inputs.back());
    const bool images = type.shape.rank() == 2 || type.shape.rank() == 4;
    if (type.dtype == DType::kF32 && images && draw.one_in(2)) {
      const TensorType bias = f32(Shape{type.shape[1]});
      value = bias_add(c.graph, value, c.graph.input(cat("bias", i), bias, InputRole::kParameter));
      c.inputs.push_back(random_operand(bias, draw.word() & 0xffffff, classes, false));
      // -0 changes no value; anything else leaves values in the lanes beyond the last image.
      if (draw.one_in(2)) std::ranges::fill(c.inputs.back().f32(), -0.0f);
    }
    values.push_back(value);
  }
  const std::vector<Value> outputs = c.graph.add(op, sample.attributes, values, "drawn");
  for (std::size_t i = 0; i < outputs.size(); ++i) c.graph.output(cat("output", i), outputs[i]);
  c.graph.verify();
  return c;
}

#ifdef PODIUM_PJRT_CPU_PLUGIN
constexpr int kCases = 0;  // each is compiled, which takes long
#else
constexpr int kCases = 64;
#endif

int number_from(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

std::string shapes_of(const OpSample& sample) {
  std::string shapes;
  for (const TensorType& type : sample.inputs) shapes += to_string(type) + " ";
  return shapes;
}

class Conformance : public testing::TestWithParam<const OpDef*> {
#ifdef PODIUM_PJRT_CPU_PLUGIN
  void SetUp() override {
    if (!pjrt::use_cpu_plugin()) GTEST_SKIP() << pjrt::kNoCpuPlugin;
  }
#endif
  void TearDown() override { cpu::set_vector_target(cpu::vector_targets().front()); }
};

TEST_P(Conformance, backends_return_the_bits_of_the_reference) {
  const OpDef& op = *GetParam();
  const auto backends = tested_devices(is_bf16(op));
  const std::vector<OpSample> samples = op.samples();
  ASSERT_FALSE(samples.empty());
  std::set<std::string> seen;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    // Where each is compiled, which takes long: all attributes and all shapes, but not each with
    // each.
    const bool has_new_attributes = seen.insert(samples[i].attributes.text()).second,
               has_new_shapes = seen.insert(shapes_of(samples[i])).second;
    if (kCases == 0 && !has_new_attributes && !has_new_shapes) continue;
    ASSERT_NO_FATAL_FAILURE(
        expect_reference(backends, make_case(op, samples[i], static_cast<std::uint32_t>(i)),
                         cat(op.name, " sample ", i, " {", samples[i].attributes.text(), "}")));
  }
}

TEST_P(Conformance, backends_return_the_bits_of_the_reference_for_random_shapes_and_values) {
  const OpDef& op = *GetParam();
  const auto backends = tested_devices(is_bf16(op));
  const int cases = number_from("PODIUM_CASES", kCases);
  const auto seed = static_cast<std::uint64_t>(number_from("PODIUM_CASE_SEED", 1));
  for (int i = 0; i < cases; ++i) {
    Draw draw((seed << 32) + static_cast<std::uint64_t>(i) * 256 +
              static_cast<std::uint64_t>(op.kind));
    const auto values = i % 2 == 0 ? Values::kPlain : static_cast<Values>(1 + i / 2 % 3);
    const OpSample sample = draw_sample(op, draw);
    ASSERT_NO_FATAL_FAILURE(
        expect_reference(backends, draw_case(op, sample, draw, values),
                         cat(op.name, " case ", i, " {", sample.attributes.text(), "} of ",
                             shapes_of(sample), "values ", static_cast<int>(values)),
                         Ways::kOneOfGpu, i));
  }
}

// Whether any sample of the operation tells the device from the reference.
[[maybe_unused]] bool tells_apart(const OpDef& op, Device& device) {
  const std::vector<OpSample> samples = op.samples();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const OperationCase c = make_case(op, samples[i], static_cast<std::uint32_t>(i));
    if (!difference_from_reference(device, c, ways_to_run(device)).empty()) return true;
  }
  return false;
}

#ifdef PODIUM_PJRT_CPU_PLUGIN
INSTANTIATE_TEST_SUITE_P(Pjrt, Conformance, testing::ValuesIn(all_ops().begin(), all_ops().end()),
                         [](const auto& tested) { return std::string(tested.param->name); });
#else
// The controls: what these tests are for, they find.
TEST_P(Conformance, finds_one_bit_that_a_device_changed) {
  const auto device = make_detached_device({}, {.fault = Fault::kBit, .period = 1});
  EXPECT_TRUE(tells_apart(*GetParam(), *device));
}

TEST(ConformanceControl, finds_a_sum_in_another_order) {
  const auto device = make_detached_device({}, {.fault = Fault::kOrder, .period = 1});
  EXPECT_TRUE(tells_apart(matmul_op, *device));
}

TEST(ConformanceControl, allows_a_device_that_is_no_exact_one_its_tolerance_and_no_more) {
  const auto reorders = [](float tolerance) {
    return make_detached_device({}, {.fault = Fault::kOrder,
                                     .period = 1,
                                     .traits = {.exact_fp32 = false, .tolerance = tolerance}});
  };
  EXPECT_FALSE(tells_apart(matmul_op, *reorders(1e-5f)));
  EXPECT_TRUE(tells_apart(matmul_op, *reorders(0)));
}

INSTANTIATE_TEST_SUITE_P(AllOps, Conformance, testing::ValuesIn(all_ops().begin(), all_ops().end()),
                         [](const auto& tested) { return std::string(tested.param->name); });
#endif

}  // namespace
}  // namespace podium
