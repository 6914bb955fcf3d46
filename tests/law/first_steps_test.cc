// The first steps of the MNIST recipe on the CPU backend equal those on the reference, which is
// the contract; and fusion changes no bit of the programs that runs execute.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/targets.h"
#include "backend/operation_case.h"
#include "backend/reference/reference_device.h"
#include "compile/fuse.h"
#include "data/datasets/dataset.h"
#include "law_util.h"
#include "ops/ops.h"
#include "program_util.h"
#include "train/program/program.h"

namespace podium {
namespace {

// With a batch of 64, which the reference can afford.
void expect_first_steps_of_the_reference(const std::vector<std::string>& overrides, int steps) {
  std::vector<std::string> all = {"batch=64"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  const Recipe recipe = read_recipe(find_recipe("mnist"), all);
  const RunData data = load_data(recipe, "");
  const auto trainer = [&](const std::string& backend) {
    return std::make_unique<Trainer>(recipe, find_model(recipe.model).build, data.train,
                                     data.held_out, Placement{.workers = 2, .backend = backend});
  };
  ASSERT_EQ(recipe.replicas, 8);
  const auto cpu = trainer("cpu"), reference = trainer("reference");
  for (int step = 1; step <= steps; ++step) {
    const StepResult a = cpu->step({.hash = true}), b = reference->step({.hash = true});
    ASSERT_EQ(a.hash, b.hash) << "step " << step;
    ASSERT_EQ(a.sums.loss, b.sums.loss) << "step " << step;
    ASSERT_EQ(a.sums.count(kCorrectCount), b.sums.count(kCorrectCount)) << "step " << step;
  }
}

TEST(FirstSteps, of_mnist_on_the_cpu_backend_are_those_of_the_reference) {
  if (!locate_files(find_dataset("mnist"), "").has_value())
    GTEST_SKIP() << "the files of MNIST are not here; podium data fetch mnist gets them";
  expect_first_steps_of_the_reference({}, 20);
}

TEST(FirstSteps, of_the_mnist_recipe_on_drawn_digits_are_those_of_the_reference) {
  expect_first_steps_of_the_reference({"data=glyphs", "train_examples=2048", "test_examples=100"},
                                      6);
}

// --- fusion

std::vector<Tensor> run_on_cpu(const Graph& graph, const std::vector<Tensor>& inputs, bool fused) {
  const auto device = make_device("cpu", {.threads = 2});
  LoadedProgram program(*device, graph, inputs, {.fuse = fused});
  program.run();
  return program.results();
}

void expect_equal(const Graph& graph, const std::vector<Tensor>& actual,
                  const std::vector<Tensor>& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(std::memcmp(actual[i].data(), expected[i].data(),
                          static_cast<std::size_t>(expected[i].type().bytes())),
              0)
        << what << ": " << graph.outputs()[i].name;
  }
}

std::int64_t nodes_of(const Graph& graph, const OpDef& op) {
  return std::ranges::count_if(graph.nodes(), [&](const Node& node) { return node.op == &op; });
}

// On the CPU backend, with fusion and without, the program gives the bits expected.
void expect_on_cpu(const Graph& graph, const std::vector<Tensor>& inputs,
                   const std::vector<Tensor>& expected) {
  for (const std::string& target : cpu::vector_targets()) {
    cpu::set_vector_target(target);
    expect_equal(graph, run_on_cpu(graph, inputs, true), expected, "fused, on " + target);
    expect_equal(graph, run_on_cpu(graph, inputs, false), expected, "not fused, on " + target);
  }
  cpu::set_vector_target(cpu::vector_targets().front());
}

// The program as it stands on the reference is the truth, which it gives fused there, too.
void expect_fusion_changes_nothing(const Graph& graph) {
  const std::vector<Tensor> inputs = values_for(graph);
  const std::vector<Tensor> expected = interpret(without_dead_nodes(graph), inputs);
  expect_equal(graph, interpret(fuse(graph), inputs), expected, "fused, on the reference");
  expect_on_cpu(graph, inputs, expected);
}

const BatchInputs kMnistInputs{
    .fields = image_fields(1, 28, 28, 10), .rows = 19, .label_smoothing = 0.1f};

TEST(Fusion, changes_no_bit_of_a_replicas_program) {
  for (const bool inspect : {false, true}) {
    const Graph graph =
        build_replica_program(find_model("mnist").build, kMnistInputs, 3, 152, inspect).graph;
    EXPECT_EQ(nodes_of(graph, activate_op), 4);
    EXPECT_EQ(nodes_of(fuse(graph), activate_op), 0) << "nothing was fused: the test shows nothing";
    EXPECT_EQ(nodes_of(fuse(graph), activate_grad_op), 0);
    expect_fusion_changes_nothing(graph);
  }
}

TEST(Fusion, changes_no_bit_of_the_evaluation_program) {
  const Graph graph = build_evaluation_program(find_model("mnist").build, kMnistInputs);
  EXPECT_EQ(nodes_of(fuse(graph), activate_op), 0);
  expect_fusion_changes_nothing(graph);
}

// Those of CIFAR-10 are too large for the reference: the truth is the program that is not fused.
// They have every pattern.
TEST(Fusion, changes_no_bit_of_the_programs_of_cifar10) {
  const BatchInputs cifar{
      .fields = image_fields(3, 32, 32, 10), .rows = 17, .label_smoothing = 0.1f};
  std::string patterns;
  for (const char* model : {"resnet32", "davidnet", "sprint"}) {
    SCOPED_TRACE(model);
    const Graph training =
        build_replica_program(find_model(model).build, cifar, 3, 152, false).graph;
    const Graph evaluation = build_evaluation_program(find_model(model).build, cifar);
    for (const Graph* graph : {&training, &evaluation}) {
      const Graph fused = fuse(*graph);
      for (const Node& node : fused.nodes()) patterns += node.attributes.text() + "; ";
      const std::vector<Tensor> inputs = values_for(*graph);
      expect_on_cpu(*graph, inputs, run_on_cpu(*graph, inputs, false));
    }
  }
  for (const char* pattern : {"normalises", "defers", "pools", "places", "adds"})
    EXPECT_NE(patterns.find(cat(pattern, "=true")), std::string::npos) << pattern;
}

TEST(Fusion, changes_no_bit_of_the_updates) {
  const FlatLayout layout =
      build_replica_program(find_model("mnist").build, kMnistInputs, 3, 152, false).layout;
  for (const char* optimizer : {"adam", "sgd"}) {
    OptimizerOptions options;
    options.name = optimizer;
    options.weight_decay = 0.01;
    expect_fusion_changes_nothing(build_update_program(layout, options, 8, 0, layout.bytes).graph);
  }
}

// What must not be fused: somebody else reads what batch_norm made, or the mask is another relu's.
TEST(Fusion, leaves_alone_what_others_read) {
  for (const bool output_of_norm : {false, true}) {
    for (const bool other_reader : {false, true}) {
      Graph graph;
      const TensorType images{DType::kF32, Shape{18, 3, 5, 6}}, channel{DType::kF32, Shape{3}};
      const Value x = graph.input("x", images, InputRole::kBatch);
      const Value dy = graph.input("dy", images, InputRole::kBatch);
      const Value other = graph.input("other", images, InputRole::kBatch);
      const Value gamma = graph.input("gamma", channel, InputRole::kParameter);
      const Value beta = graph.input("beta", channel, InputRole::kParameter);
      const BatchNormOutputs norm = batch_norm(graph, x, gamma, beta, 1e-3f, "norm");
      const ActivationAttributes kRelu{{ActivationKind::kRelu}};
      const Value y = relu(graph, norm.y, "relu");
      const Value dnorm = graph.add1(activate_grad_op, kRelu, {dy, norm.y}, "mask");
      const Value other_mask = graph.add1(activate_grad_op, kRelu, {dy, other}, "other mask");
      for (const Value masked : {dnorm, other_mask}) {
        const auto gradients = graph.add(batch_norm_grad_op, BatchNormAttributes{.epsilon = 1e-3f},
                                         {masked, x, gamma, beta, norm.mean, norm.inv_std}, "norm");
        for (std::size_t i = 0; i < gradients.size(); ++i)
          graph.output(cat("gradient", i, masked == dnorm ? "" : " of the other mask"),
                       gradients[i]);
      }
      graph.output("y", y);
      if (output_of_norm) graph.output("norm", norm.y);
      if (other_reader) graph.output("sum", add(graph, norm.y, other));
      EXPECT_EQ(nodes_of(fuse(graph), activate_op), output_of_norm || other_reader ? 1 : 0);
      expect_fusion_changes_nothing(graph);
    }
  }
}

}  // namespace
}  // namespace podium
