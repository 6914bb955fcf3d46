// Operations and layers that a program defines for itself: run by their reference on every backend,
// with the law of placement; and what the check finds in wrong ones.
#include <gtest/gtest.h>

#include <atomic>

#include "backend/operation_case.h"
#include "base/scratch_test_util.h"
#include "data/datasets/dataset.h"
#include "nn/network.h"
#include "ops/ops.h"
#include "train/loop/trainer.h"
#include "train/plugin/check_operation.h"

namespace podium {
namespace {

TensorType f32(Shape shape) { return {DType::kF32, std::move(shape)}; }

// --- an operation as a user writes one: x [N, C, ...] times s [N, C], power times

struct GateAttributes {
  std::int64_t power = 1;
  template <typename Visitor>
  void visit(Visitor&& v) const {
    v("power", power);
  }
};

float power_of(float x, std::int64_t power) {
  float y = 1;
  for (std::int64_t i = 0; i < power; ++i) y *= x;
  return y;
}

std::vector<TensorType> infer_gate(const InferContext& c) {
  const Shape& x = c.inputs[0].shape;
  c.require(x.rank() >= 2 && c.inputs[1] == f32({x[0], x[1]}), "needs x [N, C, ...] and s [N, C]");
  return {c.inputs[0]};
}
void reference_gate(const Attributes& a, ConstTensors in, Tensors out) {
  const Shape& x = in[0]->shape();
  const auto pixels = static_cast<std::size_t>(x.elements_from(2));
  for (std::size_t i = 0; i < in[0]->f32().size(); ++i)
    out[0]->f32()[i] =
        in[0]->f32()[i] * power_of(in[1]->f32()[i / pixels], a.as<GateAttributes>().power);
}
// ds = power s^(power - 1) <dy, x>.
void reference_gate_grad(const Attributes& a, ConstTensors in, Tensors out) {
  const std::int64_t power = a.as<GateAttributes>().power;
  const auto pixels = static_cast<std::size_t>(in[1]->shape().elements_from(2));
  for (std::size_t i = 0; i < out[0]->f32().size(); ++i) {
    float sum = 0;
    for (std::size_t p = i * pixels; p < (i + 1) * pixels; ++p)
      sum += in[0]->f32()[p] * in[1]->f32()[p];
    out[0]->f32()[i] = static_cast<float>(power) * power_of(in[2]->f32()[i], power - 1) * sum;
  }
}
std::vector<TensorType> infer_gate_grad(const InferContext& c) { return {c.inputs[2]}; }
std::vector<OpSample> gate_samples() {
  return {{GateAttributes{1}, {f32({2, 3, 5, 7}), f32({2, 3})}},
          {GateAttributes{2}, {f32({17, 5}), f32({17, 5})}},
          {GateAttributes{3}, {f32({33, 2, 3, 1}), f32({33, 2})}}};
}
std::vector<OpSample> gate_grad_samples() {
  return {{GateAttributes{2}, {f32({17, 3, 2, 2}), f32({17, 3, 2, 2}), f32({17, 3})}}};
}
const OpDef gate_grad_op = {.name = "gate_grad",
                            .infer = infer_gate_grad,
                            .reference = reference_gate_grad,
                            .samples = gate_grad_samples};

std::vector<Value> gradient_gate(const GradientContext& c);
const OpDef gate_op = {.name = "gate",
                       .infer = infer_gate,
                       .gradient = gradient_gate,
                       .reference = reference_gate,
                       .samples = gate_samples};

std::vector<Value> gradient_gate(const GradientContext& c) {
  const Attributes a = c.self().attributes;  // a copy: add1 moves the nodes
  const Value dy = c.output_gradients[0];
  return {c.graph.add1(gate_op, a, {dy, c.input(1)}),
          c.graph.add1(gate_grad_op, a, {dy, c.input(0), c.input(1)})};
}

// --- a layer as a user writes one, with parameters of its own and a statistic

// Channels weighed by what a small network makes of their means; a running mean of the weights.
Value weigh_channels(Network& net, const std::string& name, Value x) {
  const Shape shape = net.graph().shape(x);
  const Value means = net.global_avg_pool(x);
  const Value weight = net.parameter({.name = name + ".weight",
                                      .shape = {shape[1], shape[1]},
                                      .initialiser = Initialiser::kFanInUniform,
                                      .decays = true});
  const Value bias = net.parameter(
      {.name = name + ".bias", .shape = {shape[1]}, .initialiser = Initialiser::kOnes});
  const Value fixed = net.parameter({.name = name + ".fixed",
                                     .shape = {shape[1]},
                                     .initialiser = Initialiser::kOnes,
                                     .trained = false});
  const Value seen = net.statistic(name + ".seen", {shape[1]}, 0.5f);
  Graph& graph = net.graph();
  net.update(seen, combine(graph, 0.5f, seen, 0.5f, bias));
  Value s = bias_add(graph, matmul(graph, means, weight, {.transpose_b = true}, name), bias, name);
  s = bias_add(graph, s, fixed, name);
  return graph.add1(gate_op, GateAttributes{2}, {x, s}, name);
}

Value small_model(Network& net, Value x, std::int64_t classes) {
  x = net.batch_norm("bn1", net.conv2d("conv1", x, {.channels = 4, .kernel = 3, .stride = 4}));
  x = weigh_channels(net, "weigh1", net.relu(x));
  x = weigh_channels(net, "weigh2", net.conv2d("conv2", x, {.channels = 6, .stride = 2}));
  return net.dense("fc", net.flatten(x), {.units = classes, .bias = true});
}

Recipe glyphs_recipe() {
  Recipe recipe;
  recipe.name = recipe.model = "small";
  recipe.data = "glyphs";
  recipe.train_examples = 240, recipe.test_examples = 60;
  recipe.batch = 60, recipe.replicas = 4, recipe.epochs = 2;
  recipe.optimizer.name = "adam";
  recipe.optimizer.learning_rate = 0.01;
  return recipe;
}

std::shared_ptr<const ImageSet> glyphs(Split split) {
  return std::make_shared<const ImageSet>(
      load_dataset("glyphs", split, {.train_examples = 240, .test_examples = 60}));
}

struct Course {
  std::vector<std::uint64_t> hashes;
  float first_loss = 0, last_loss = 0;
  std::int64_t correct = 0;
  Checkpoint end;
};

Course trained_course(const Placement& placement) {
  static const auto training = glyphs(Split::kTrain), held_out = glyphs(Split::kTest);
  Trainer trainer(glyphs_recipe(), small_model, training, held_out, placement);
  Course course;
  while (trainer.steps_done() < trainer.total_steps()) {
    const StepResult step = trainer.step({.hash = true});
    if (course.hashes.empty()) course.first_loss = step.sums.loss;
    course.last_loss = step.sums.loss;
    course.hashes.push_back(step.hash);
  }
  course.correct = trainer.evaluate().sums.count(kCorrectCount);
  course.end = trainer.checkpoint();
  return course;
}

const Tensor& named(const Checkpoint& checkpoint, std::string_view name) {
  for (const NamedTensor& tensor : checkpoint.tensors)
    if (tensor.name == name) return tensor.tensor;
  throw UserError(cat("no tensor ", name));
}

TEST(OwnLayer, trains_to_the_same_bits_under_every_placement_and_backend) {
  const Course one = trained_course({.workers = 1});
  EXPECT_LT(one.last_loss, one.first_loss);
  for (const Placement& placement :
       {Placement{.workers = 2}, Placement{.workers = 3}, Placement{.workers = 4},
        Placement{.workers = 1, .threads = 3}, Placement{.workers = 2, .threads = 2},
        Placement{.workers = 2, .backend = "reference"}}) {
    const Course other = trained_course(placement);
    const std::string where =
        cat(placement.workers, " workers of ", placement.threads, " threads ", placement.backend);
    EXPECT_EQ(other.hashes, one.hashes) << where;
    EXPECT_EQ(other.correct, one.correct) << where;
  }
}

TEST(OwnLayer, has_its_parameters_and_statistics_in_the_checkpoint) {
  const Course course = trained_course({.workers = 2});
  for (const float x : named(course.end, "weigh2.fixed").f32()) EXPECT_EQ(x, 1.0f);
  EXPECT_NE(named(course.end, "weigh1.bias").f32()[0], 1.0f);  // trained
  // From 0.5 towards the bias, which starts at 1 and moves little.
  for (const float x : named(course.end, "weigh1.seen").f32()) {
    EXPECT_GT(x, 0.9f);
    EXPECT_LT(x, 1.1f);
  }
}

TEST(OwnOperation, passes_the_check_that_a_user_runs) {
  EXPECT_EQ(check_operation(gate_op), std::vector<std::string>{});
  EXPECT_EQ(check_operation(gate_grad_op), std::vector<std::string>{});
}

// What the CPU backend makes before the first step is all it needs.
TEST(OwnOperation, is_one_kernel_with_its_own_name_and_a_cost_of_its_bytes) {
  Graph graph;
  const Value x = graph.input("x", f32({32, 3, 4, 4}), InputRole::kBatch);
  const Value s = graph.input("s", f32({32, 3}), InputRole::kBatch);
  graph.output("y", graph.add1(gate_op, GateAttributes{}, {x, s}, "g"));
  const auto device = make_device("cpu");
  const std::vector<Tensor> inputs = {Tensor(f32({32, 3, 4, 4})), Tensor(f32({32, 3}))};
  LoadedProgram loaded(*device, graph, inputs);
  const Executable& program = loaded.program().executable();
  loaded.program().executable().start_profile();
  loaded.run();
  const std::vector<KernelProfile> kernels = program.profile();
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].name, "gate g");
  EXPECT_EQ(kernels[0].bytes, 4.0 * 32 * (3 * 16 * 2 + 3));
}

// Copies of the definition with one thing wrong each.
OpDef changed(const std::function<void(OpDef&)>& change) {
  OpDef op = gate_op;
  change(op);
  return op;
}
std::string only_finding(const OpDef& op, const OperationCheckOptions& options = {}) {
  const std::vector<std::string> found = check_operation(op, options);
  return found.size() == 1 ? found[0] : cat(found.size(), " findings");
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(OwnOperationCheck, names_what_a_definition_lacks) {
  EXPECT_EQ(only_finding(changed([](OpDef& d) { d.infer = nullptr; })), "[gate] has no `infer`");
  EXPECT_EQ(only_finding(changed([](OpDef& d) { d.reference = nullptr; })),
            "[gate] has no `reference`");
  EXPECT_EQ(only_finding(changed([](OpDef& d) { d.samples = nullptr; })),
            "[gate] has no `samples`");
}

TEST(OwnOperationCheck, finds_a_gradient_that_is_not_the_derivative) {
  const OpDef op = changed([](OpDef& d) {
    d.gradient = [](const GradientContext& c) {
      std::vector<Value> g = gradient_gate(c);
      g[1] = scale(c.graph, g[1], 0.9f);
      return g;
    };
  });
  const std::string found = only_finding(op);
  EXPECT_TRUE(has(found,
                  "[gate] of f32[2, 3, 5, 7], f32[2, 3] {power=1}: the gradient of output 0 "
                  "for input 1 is "))
      << found;
}

TEST(OwnOperationCheck, finds_a_gradient_of_the_wrong_shape_and_one_that_is_missing) {
  const OpDef wrong = changed([](OpDef& d) {
    d.gradient = [](const GradientContext& c) {
      const std::vector<Value> g = gradient_gate(c);
      return std::vector<Value>{g[1], g[1]};
    };
  });
  EXPECT_TRUE(has(only_finding(wrong),
                  "its gradient rule gives f32[2, 3] for input 0, which is "
                  "f32[2, 3, 5, 7]"))
      << only_finding(wrong);
  const OpDef missing = changed([](OpDef& d) {
    d.gradient = [](const GradientContext& c) {
      return std::vector<Value>{gradient_gate(c)[0], {}};
    };
  });
  EXPECT_TRUE(has(only_finding(missing), "input 1: ")) << only_finding(missing);
  EXPECT_EQ(check_operation(missing, {.constant_inputs = {1}}), std::vector<std::string>{});
}

TEST(OwnOperationCheck, finds_a_reference_that_adds_to_what_its_output_holds) {
  const OpDef op = changed([](OpDef& d) {
    d.reference = [](const Attributes&, ConstTensors in, Tensors out) {
      for (std::size_t i = 0; i < out[0]->f32().size(); ++i) out[0]->f32()[i] += in[0]->f32()[i];
    };
  });
  EXPECT_TRUE(has(only_finding(op), "it must write every element")) << only_finding(op);
}

TEST(OwnOperationCheck, finds_a_reference_that_replaces_its_output) {
  const OpDef op = changed([](OpDef& d) {
    d.reference = [](const Attributes&, ConstTensors in, Tensors out) { *out[0] = *in[0]; };
  });
  EXPECT_TRUE(has(only_finding(op), "its reference replaced output 0")) << only_finding(op);
}

TEST(OwnOperationCheck, finds_a_reference_that_depends_on_how_often_it_ran) {
  const OpDef op = changed([](OpDef& d) {
    d.reference = [](const Attributes& a, ConstTensors in, Tensors out) {
      static std::atomic<int> calls{0};
      reference_gate(a, in, out);
      out[0]->f32()[0] = static_cast<float>(++calls);
    };
  });
  EXPECT_TRUE(has(only_finding(op), "from its inputs alone")) << only_finding(op);
}

TEST(OwnOperationCheck, finds_samples_that_break_the_shape_rule) {
  const OpDef op = changed([](OpDef& d) {
    d.samples = [] { return std::vector<OpSample>{{GateAttributes{}, {f32({2, 3}), f32({3})}}}; };
  });
  EXPECT_TRUE(has(only_finding(op), "needs x [N, C, ...] and s [N, C]")) << only_finding(op);
}

// --- models that a program gets wrong

std::string model_error(const Model& model) {
  const auto set = glyphs(Split::kTest);
  Recipe recipe = glyphs_recipe();
  return user_error(ExitCode::kUsage, [&] { Trainer(recipe, model, set, set, {.workers = 1}); });
}

TEST(OwnModel, a_trained_parameter_that_nothing_reads_is_an_error_that_names_it) {
  const std::string text = model_error([](Network& net, Value x, std::int64_t classes) {
    net.parameter({.name = "lonely", .shape = {3}});
    return net.dense("fc", net.flatten(x), {.units = classes});
  });
  EXPECT_TRUE(
      has(text, "[\"lonely\"] is a trained parameter that no loss depends on; use it or remove it"))
      << text;
}

TEST(OwnModel, a_statistic_without_a_next_value_is_an_error_that_names_it) {
  const std::string text = model_error([](Network& net, Value x, std::int64_t classes) {
    net.statistic("seen", {3});
    return net.dense("fc", net.flatten(x), {.units = classes});
  });
  EXPECT_TRUE(has(
      text, "[\"seen\"] is a statistic without a next value; give it one with Network::update()"))
      << text;
}

TEST(OwnModel, a_reference_that_throws_ends_the_step_with_its_words) {
  static const OpDef op = changed([](OpDef& d) {
    d.gradient = [](const GradientContext& c) { return std::vector<Value>{c.output_gradients[0]}; };
    d.reference = [](const Attributes&, ConstTensors, Tensors) {
      throw UserError("the gate is shut");
    };
  });
  const auto set = glyphs(Split::kTrain);
  for (const std::int64_t workers : {1, 2}) {
    Trainer trainer(glyphs_recipe(),
                    [](Network& net, Value x, std::int64_t classes) {
                      const Value y = net.dense("fc", net.flatten(x), {.units = classes});
                      return net.graph().add1(op, GateAttributes{}, {y, y});
                    },
                    set, set, {.workers = workers});
    EXPECT_EQ(user_error(ExitCode::kUsage, [&] { trainer.step(); }), "the gate is shut");
  }
}

}  // namespace
}  // namespace podium
