#include "backend/bound_executable.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/emulated/emulated.h"
#include "ops/ops.h"

namespace podium {
namespace {

// difference = a - b, as combine(1, a, -1, b); and the same with its inputs in the other order.
Graph difference(bool b_first) {
  Graph graph;
  const TensorType type{DType::kF32, Shape{3}};
  const char* const names[] = {"a", "b"};
  const Value first = graph.input(names[b_first ? 1 : 0], type, InputRole::kParameter);
  const Value second = graph.input(names[b_first ? 0 : 1], type, InputRole::kParameter);
  const Value a = b_first ? second : first, b = b_first ? first : second;
  graph.output("twice", combine(graph, 1, a, 1, a, "twice"));
  graph.output("difference", combine(graph, 1, a, -1, b, "difference"));
  return graph;
}

// Memory of a device that holds these values.
std::unique_ptr<Buffer> holding(Device& device, const std::vector<float>& values) {
  auto buffer = device.allocate(std::ssize(values) * 4);
  device.upload(*buffer, values.data());
  return buffer;
}

std::vector<float> read(Device& device, Buffer& buffer) {
  std::vector<float> values(static_cast<std::size_t>(buffer.bytes() / 4));
  device.download(values.data(), buffer);
  return values;
}

testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << text << "\" has no \"" << part << "\"";
}

// Calls `work`, which must throw, and returns the message.
std::string internal_error(const std::function<void()>& work) {
  try {
    work();
  } catch (const InternalError& error) {
    return error.what();
  }
  return "no error";
}

TEST(BoundExecutable, finds_memory_by_name_whatever_the_order_of_the_graph) {
  for (const std::string& name : backend_names()) {
    for (const bool b_first : {false, true}) {
      const auto device = make_device(name);
      const auto a = holding(*device, {5, 7, 9}), b = holding(*device, {1, 2, 3}),
                 result = holding(*device, {0, 0, 0}), twice = holding(*device, {0, 0, 0});
      BoundExecutable program(*device, difference(b_first), {});
      program.bind_output("difference", *result);
      program.bind_input("b", *b);
      program.bind_output("twice", *twice);
      program.bind_input("a", *a);
      program.run();
      EXPECT_EQ(read(*device, *result), (std::vector<float>{4, 5, 6})) << name;
      EXPECT_EQ(read(*device, *twice), (std::vector<float>{10, 14, 18})) << name;
      program.set_input(program.input_slot("a"), *b);
      program.run();
      EXPECT_EQ(read(*device, *result), (std::vector<float>{0, 0, 0})) << name;
    }
  }
}

TEST(BoundExecutable, refuses_an_unknown_name_and_names_what_has_no_memory) {
  const auto device = make_device("reference");
  BoundExecutable program(*device, difference(false), {});
  const auto values = device->allocate(12), result = device->allocate(12),
             twice = device->allocate(12);
  EXPECT_TRUE(contains(internal_error([&] { program.bind_input("c", *values); }),
                       "no input \"c\"; it has a, b"));
  program.bind_input("a", *values);
  program.bind_output("difference", *result);
  program.bind_output("twice", *twice);
  EXPECT_TRUE(contains(internal_error([&] { program.run(); }), "input \"b\" is not bound"));
}

TEST(BoundExecutable, refuses_memory_of_another_length) {
  const auto device = make_device("cpu");
  BoundExecutable program(*device, difference(false), {});
  const auto values = device->allocate(64);
  EXPECT_TRUE(contains(internal_error([&] { program.bind_input("a", *values); }),
                       "input \"a\" is f32[3], and is bound to 64 bytes"));
  EXPECT_TRUE(contains(internal_error([&] {
                         program.bind_output("twice", {*values, 60, 12});
                       }),
                       "output \"twice\" ends beyond its buffer"));
}

TEST(BoundExecutable, refuses_an_output_that_overlaps_an_input_or_another_output) {
  const auto device = make_device("cpu");
  const auto a = device->allocate(12), b = device->allocate(12), both = device->allocate(20);
  for (const bool over_an_input : {false, true}) {
    BoundExecutable program(*device, difference(false), {});
    program.bind_input("a", *a);
    program.bind_input("b", over_an_input ? View(*both, 0, 12) : View(*b));
    program.bind_output("twice", over_an_input ? View(*a) : View(*both, 0, 12));
    program.bind_output("difference", {*both, 8, 12});
    EXPECT_TRUE(contains(internal_error([&] { program.run(); }), "overlaps"));
  }
}

TEST(BoundExecutable, a_donated_output_takes_the_memory_of_its_input) {
  for (const std::string& name : backend_names()) {
    const auto device = make_device(name);
    const auto a = holding(*device, {5, 7, 9}), b = holding(*device, {1, 2, 3}),
               twice = holding(*device, {0, 0, 0});
    BoundExecutable program(*device, difference(true), {.donations = {{"difference", "a"}}});
    program.bind_input("a", *a);
    program.bind_input("b", *b);
    program.bind_output("twice", *twice);
    for (int i = 0; i < 2; ++i) program.run();
    EXPECT_EQ(read(*device, *a), (std::vector<float>{3, 3, 3})) << name;
    EXPECT_EQ(read(*device, *twice), (std::vector<float>{8, 10, 12})) << name;
    const auto other = device->allocate(12);
    BoundExecutable elsewhere(*device, difference(true), {.donations = {{"difference", "a"}}});
    elsewhere.bind_input("a", *a);
    elsewhere.bind_input("b", *b);
    elsewhere.bind_output("twice", *twice);
    elsewhere.bind_output("difference", *other);
    EXPECT_TRUE(contains(internal_error([&] { elsewhere.run(); }),
                         "must have the memory of its input \"a\""));
  }
}

TEST(BoundExecutable, refuses_donations_that_cannot_be) {
  const auto device = make_device("cpu");
  const auto compile = [&](std::vector<Donation> donations) {
    return internal_error(
        [&] { BoundExecutable(*device, difference(false), {.donations = std::move(donations)}); });
  };
  EXPECT_TRUE(contains(compile({{"difference", "c"}}), "which the graph has not"));
  EXPECT_TRUE(contains(compile({{"difference", "a"}, {"twice", "a"}}), "donated twice"));
  // The second output still needs a after the first has taken its memory.
  EXPECT_TRUE(contains(compile({{"twice", "a"}}), "has given its memory to \"twice\""));
}

TEST(BoundExecutable, announces_milestones_in_order_with_their_outputs) {
  for (const std::string& name : backend_names()) {
    const auto device = make_device(name);
    CompileOptions options;
    options.milestones = {{"twice"}, {"difference"}, {}};
    BoundExecutable program(*device, difference(false), options);
    const auto a = holding(*device, {1, 2, 3}), b = holding(*device, {5, 5, 5});
    const auto twice = device->allocate(12), result = device->allocate(12);
    program.bind_input("a", *a);
    program.bind_input("b", *b);
    program.bind_output("twice", *twice);
    program.bind_output("difference", *result);
    std::vector<std::size_t> reached;
    std::vector<float> first, last;
    program.run_to_milestones([&](std::size_t milestone) {
      reached.push_back(milestone);
      (milestone == 0 ? first : last) = read(*device, milestone == 0 ? *twice : *result);
      // The CPU says so as early as it can.
      if (name == "cpu" && milestone == 0) {
        EXPECT_EQ(read(*device, *result), (std::vector<float>{0, 0, 0}));
      }
    });
    EXPECT_EQ(reached, (std::vector<std::size_t>{0, 1, 2})) << name;
    EXPECT_EQ(first, (std::vector<float>{2, 4, 6})) << name;
    EXPECT_EQ(last, (std::vector<float>{-4, -3, -2})) << name;
  }
}

TEST(BoundExecutable, refuses_a_milestone_of_an_output_that_is_not_there) {
  const auto device = make_device("cpu");
  CompileOptions options;
  options.milestones = {{"sum"}};
  const std::string error = internal_error([&] { device->compile(difference(false), options); });
  EXPECT_TRUE(contains(error, "a milestone names \"sum\", which the graph has not"));
}

TEST(Device, that_nobody_knows_is_named_with_those_there_are) {
  try {
    make_device("gpu");
    FAIL() << "made";
  } catch (const UserError& error) {
    EXPECT_TRUE(contains(std::string(error.what()),
                         "--backend gpu: no such backend; this build has cpu, reference"));
  }
}

// What a plan says is what compiling gives, and needs no memory for it.
TEST(Device, plans_what_it_compiles) {
  for (const std::string& name : backend_names()) {
    const auto device = make_device(name, {.workers = 2, .threads = 2});
    const CompileOptions options{.worker = 1, .awaited = true};
    const Plan plan = device->plan(difference(false), options);
    const auto program = device->compile(difference(false), options);
    EXPECT_EQ(plan.arena_bytes, program->plan().arena_bytes) << name;
    ASSERT_EQ(plan.kernels.size(), 2U) << name;
    EXPECT_EQ(plan.kernels[0].name, "combine twice") << name;
    EXPECT_EQ(plan.kernels[0].flops, program->plan().kernels[0].flops) << name;
    EXPECT_EQ(plan.inputs[1].name, "b") << name;
    EXPECT_EQ(plan.outputs[1].name, "difference") << name;
  }
}

// A constant that has to be written first has no part in the cost of what reads it.
TEST(Device, counts_the_work_of_an_operation_once) {
  register_cuda_emulated_backend();
  const Shape x{40, 8}, w{600, 8}, rows{40};
  Graph graph;
  const Value third = fill(graph, rows, 1.0f / 3);
  const std::vector<Value> made =
      graph.add(linear_cross_entropy_grad_op, SoftmaxCrossEntropyAttributes{},
                {graph.input("x", {DType::kF32, x}, InputRole::kBatch),
                 graph.input("w", {DType::kF32, w}, InputRole::kParameter),
                 graph.input("labels", {DType::kI32, rows}, InputRole::kBatch), third},
                "head");
  for (const Value value : made) graph.output(cat("output", value.output), value);
  const double products = 3 * 2.0 * 40 * 600 * 8;
  for (const char* name : {"cpu", "cuda-emulated"}) {
    double flops = 0;
    for (const KernelCost& kernel : make_device(name)->plan(graph, {}).kernels)
      flops += kernel.flops;
    EXPECT_GE(flops, products) << name;
    EXPECT_LE(flops, products + 40 * 600 * 40.0) << name;  // and what losses take
  }
}

}  // namespace
}  // namespace podium
