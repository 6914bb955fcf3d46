#include "autodiff/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "autodiff/gradients.h"
#include "backend/device.h"
#include "backend/operation_case.h"
#include "data/pictures/image_source.h"
#include "nn/models.h"
#include "ops/ops.h"
#include "train/program/program.h"

namespace podium {
namespace {

std::vector<Field> token_fields() {
  const Field tokens{.name = "tokens", .dtype = DType::kI32, .shape = {8}, .below = 11};
  Field next = tokens;
  next.name = "next", next.target = true;
  return {tokens, next};
}

std::vector<Tensor> drawn_inputs(const Graph& graph) {
  std::vector<Tensor> values;
  std::uint32_t state = 1;
  for (const NamedValue& input : graph.inputs()) {
    Tensor& tensor = values.emplace_back(graph.type(input.value));
    const auto word = [&] { return (state = state * 1664525 + 1013904223) >> 8; };
    for (std::int64_t i = 0; i < tensor.elements(); ++i) switch (tensor.dtype()) {
        case DType::kF32:
          tensor.f32()[i] = static_cast<float>(word() % 1000) / 1000 +
                            (input.name.ends_with("running_var") ? 0.5f : -0.5f);
          break;
        case DType::kI32: tensor.i32()[i] = static_cast<std::int32_t>(word() % 10); break;
        default: tensor.u32()[i] = 1;
      }
  }
  return values;
}

struct Case {
  std::string name;
  Model model;
  std::vector<Field> fields;
  Precision precision = {};
};
ReplicaProgram program_of(const Case& one, bool recompute) {
  const BatchInputs inputs{
      .fields = one.fields, .rows = 3, .precision = one.precision, .recompute = recompute};
  return build_replica_program(one.model, inputs, 7, 6, false);
}
std::vector<Case> cases() {
  NetworkOptions size{.layers = 4, .heads = 2, .width = 16};
  size.dropout = 0.25f;
  return {{"gpt", gpt_model(size), token_fields()},
          {"llama", llama_model(size), token_fields()},
          {"resnet32", find_model("resnet32").build, image_fields(3, 32, 32, 10)},
          // Programs are fused before their images are rounded.
          {"resnet32 in BF16",
           find_model("resnet32").build,
           image_fields(3, 32, 32, 10),
           {Bf16Order::kVdpbf16ps}},
          {"resnet50 in BF16",
           find_model("resnet50").build,
           image_fields(3, 64, 64, 10),
           {Bf16Order::kVdpbf16ps}}};
}

TEST(Recompute, gives_the_same_bits_in_less_memory) {
  const auto device = make_device("cpu", {});
  for (const Case& one : cases()) {
    const Graph held = program_of(one, false).graph, again = program_of(one, true).graph;
    again.verify();
    EXPECT_GT(again.nodes().size(), held.nodes().size()) << one.name;
    EXPECT_LT(device->plan(again, {}).arena_bytes, device->plan(held, {}).arena_bytes * 3 / 4)
        << one.name;
    const std::vector<Tensor> inputs = drawn_inputs(held);
    LoadedProgram first(*device, held, inputs), second(*device, again, inputs);
    first.run();
    second.run();
    const std::vector<Tensor> expected = first.results(), actual = second.results();
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_EQ(again.outputs()[i].name, held.outputs()[i].name);
      EXPECT_EQ(first_difference(actual[i], expected[i]), "")
          << one.name << " " << held.outputs()[i].name;
    }
  }
}

// x -> relu (ends a block) -> gelu -> gelu (ends a block) -> relu: the gradient of the second gelu
// needs the result of the first, which is computed again; that of the last relu is held.
TEST(Recompute, computes_only_what_is_needed_and_only_within_blocks) {
  Graph graph;
  const Value x = graph.input("x", {DType::kF32, Shape{4, 4}}, InputRole::kParameter);
  const Activation gelu{ActivationKind::kGelu};
  const Value a = relu(graph, x, "a"), b = activate(graph, a, gelu, "b"),
              c = activate(graph, b, gelu, "c"), d = relu(graph, c, "d");
  const auto backward = static_cast<std::int32_t>(graph.nodes().size());
  const Value ones = fill(graph, Shape{4, 4}, 1, "ones");
  const std::vector<Value> trained = {x};
  graph.output("dx", gradients(graph, d, ones, trained)[0]);
  const Graph again = with_blocks_recomputed(graph, backward, std::vector<Value>{a, c});
  again.verify();
  const auto count = [&](const char* name) {
    return std::ranges::count(again.nodes(), std::string(name), &Node::name);
  };
  EXPECT_EQ(again.nodes().size(), graph.nodes().size() + 1);
  EXPECT_EQ(count("b"), 3);  // it, again, and its gradient
  EXPECT_EQ(with_blocks_recomputed(graph, backward, {}).nodes().size(), graph.nodes().size());
}

}  // namespace
}  // namespace podium
