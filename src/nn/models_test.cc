#include "nn/models.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/ops.h"

namespace podium {
namespace {

// What a model of images returns.
Value logits_of(const Model& model, Network& net, Value images, std::int64_t classes) {
  const Shape& shape = net.graph().shape(images);
  Inputs inputs(net.graph(),
                {{.name = "images", .shape = Shape{shape[1], shape[2], shape[3]}},
                 {.name = "labels", .dtype = DType::kI32, .below = classes, .target = true}},
                shape[0], false);
  inputs.set("images", images);
  return output_of(model.forward(net, inputs), "logits");
}

struct Mnist {
  explicit Mnist(Mode mode, std::int64_t classes = 10)
      : images(graph.input("images", {DType::kF32, {32, 1, 28, 28}}, InputRole::kBatch)),
        step(graph.input("step", {DType::kU32, {}}, InputRole::kScalar)),
        net(graph, mode, 0, step, step),
        logits(mnist_model(net, images, classes)) {}

  Graph graph;
  Value images, step;
  Network net;
  Value logits;
};

TEST(MnistModel, has_the_parameters_of_the_published_network) {
  const Mnist mnist(Mode::kTrain);
  std::vector<std::string> found;
  std::int64_t elements = 0;
  for (const Parameter& parameter : mnist.net.parameters()) {
    found.push_back(parameter.name + " " + to_string(parameter.shape));
    elements += parameter.shape.elements();
  }
  const std::vector<std::string> expected = {
      "conv1.weight [6, 1, 3, 3]",   "bn1.weight [6]",   "bn1.bias [6]",
      "conv2.weight [12, 6, 6, 6]",  "bn2.weight [12]",  "bn2.bias [12]",
      "conv3.weight [24, 12, 6, 6]", "bn3.weight [24]",  "bn3.bias [24]",
      "fc1.weight [200, 1176]",      "bn4.weight [200]", "bn4.bias [200]",
      "fc2.weight [10, 200]"};
  EXPECT_EQ(found, expected);
  EXPECT_EQ(elements, 250698);
}

TEST(MnistModel, has_the_running_statistics_of_four_batch_norms) {
  const Mnist mnist(Mode::kTrain);
  std::vector<std::string> found;
  for (const Statistic& statistic : mnist.net.statistics())
    found.push_back(statistic.name + " " + to_string(statistic.shape));
  const std::vector<std::string> expected = {"bn1.running_mean [6]",   "bn1.running_var [6]",
                                             "bn2.running_mean [12]",  "bn2.running_var [12]",
                                             "bn3.running_mean [24]",  "bn3.running_var [24]",
                                             "bn4.running_mean [200]", "bn4.running_var [200]"};
  EXPECT_EQ(found, expected);
}

TEST(MnistModel, starts_from_glorot_uniform_and_decays_weights_alone) {
  const Mnist mnist(Mode::kTrain);
  for (const Parameter& p : mnist.net.parameters()) {
    const bool weight = p.name.starts_with("conv") || p.name.starts_with("fc");
    EXPECT_EQ(p.decays, weight) << p.name;
    EXPECT_EQ(p.initialiser == Initialiser::kGlorotUniform, weight) << p.name;
  }
}

TEST(MnistModel, normalises_as_published) {
  const Mnist train(Mode::kTrain), evaluate(Mode::kEvaluate);
  int norms = 0;
  for (const Mnist* mnist : {&train, &evaluate}) {
    for (const Node& node : mnist->graph.nodes()) {
      if (node.op == &batch_norm_op || node.op == &batch_norm_inference_op) {
        EXPECT_EQ(node.attributes.as<BatchNormAttributes>().epsilon, 1e-3f);
        ++norms;
      } else if (node.op == &batch_norm_running_op) {
        EXPECT_EQ(node.attributes.as<BatchNormRunningAttributes>().momentum, 0.99f);
      }
    }
  }
  EXPECT_EQ(norms, 8);
}

TEST(MnistModel, drops_half_of_the_200_features_in_training_alone) {
  const Mnist train(Mode::kTrain), evaluate(Mode::kEvaluate);
  ASSERT_EQ(train.net.dropouts().size(), 1U);
  const Value mask = train.net.dropouts()[0].mask;
  EXPECT_EQ(train.graph.shape(mask), (Shape{32, 200}));
  EXPECT_EQ(train.graph.node(mask).attributes.as<DropoutMaskAttributes>().rate, 0.5f);
  EXPECT_TRUE(evaluate.net.dropouts().empty());
}

TEST(MnistModel, ends_in_one_logit_a_class) {
  const Mnist digits(Mode::kTrain), letters(Mode::kEvaluate, 47);
  EXPECT_EQ(digits.graph.shape(digits.logits), (Shape{32, 10}));
  EXPECT_EQ(letters.graph.shape(letters.logits), (Shape{32, 47}));
  letters.graph.verify();
}

TEST(Models, are_found_by_name) {
  for (const ModelInfo& model : all_models()) {
    EXPECT_EQ(&find_model(model.name), &model);
    EXPECT_FALSE(model.description.empty()) << model.name;
  }
}

Value two_layers(Network& net, Value x, std::int64_t classes) {
  return net.dense("b", net.dense("a", net.flatten(x), {.units = 3}), {.units = classes});
}

TEST(Models, of_a_program_are_found_once_they_are_registered) {
  const std::size_t count = all_models().size();
  const ModelInfo& first = all_models().front();
  register_model({"two-layers", "of this test", two_layers});
  EXPECT_EQ(all_models().size(), count + 1);
  EXPECT_EQ(&all_models().front(), &first);
  EXPECT_EQ(find_model("two-layers").description, "of this test");
  Graph graph;
  Network net(graph, Mode::kTrain, 1);
  const Value x = graph.input("x", {DType::kF32, {2, 1, 4, 4}}, InputRole::kBatch);
  EXPECT_EQ(graph.shape(logits_of(find_model("two-layers").build, net, x, 5)), (Shape{2, 5}));
}

TEST(Models, of_a_name_that_is_taken_or_of_no_function_are_refused) {
  const auto error = [](ModelInfo model) {
    try {
      register_model(std::move(model));
    } catch (const UserError& thrown) {
      return std::string(thrown.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_EQ(error({"mnist", "", two_layers}),
            "model \"mnist\" is registered already; give it another name");
  EXPECT_EQ(error({"none", "", {}}), "model \"none\" has no function that builds it");
  for (const char* name : {"", "a b", "-a", "a/b"})
    EXPECT_EQ(error({name, "", two_layers}),
              cat("model \"", name,
                  "\": a name has letters, digits, '-', '_' and '.', and begins "
                  "with one of the first two"));
}

TEST(Models, an_unknown_name_is_an_error_that_lists_the_known_ones) {
  try {
    find_model("mnst");
    FAIL() << "nothing was thrown";
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(text.find("\"mnst\""), std::string::npos) << text;
    for (const ModelInfo& model : all_models())
      EXPECT_NE(text.find(model.name), std::string::npos) << text;
  }
}

std::int64_t values_of(const Network& net) {
  std::int64_t values = 0;
  for (const Parameter& parameter : net.parameters()) values += parameter.shape.elements();
  return values;
}

const Parameter& named(const Network& net, std::string_view name) {
  for (const Parameter& parameter : net.parameters())
    if (parameter.name == name) return parameter;
  throw InternalError(__FILE__, __LINE__, cat("no parameter ", name));
}

struct Cifar {
  explicit Cifar(const Model& model, Mode mode = Mode::kTrain)
      : images(graph.input("images", {DType::kF32, {4, 3, 32, 32}}, InputRole::kBatch)),
        step(graph.input("step", {DType::kU32, {}}, InputRole::kScalar)),
        net(graph, mode, 0, step, step),
        logits(logits_of(model, net, images, 10)) {}

  Graph graph;
  Value images, step;
  Network net;
  Value logits;
};

TEST(DavidNetModel, has_the_sizes_of_the_published_network) {
  const Cifar cifar(davidnet_model);
  EXPECT_EQ(cifar.graph.shape(cifar.logits), (Shape{4, 10}));
  EXPECT_EQ(values_of(cifar.net), 6573120);
  EXPECT_EQ(named(cifar.net, "layer3.res2.conv.weight").shape, (Shape{512, 512, 3, 3}));
  EXPECT_EQ(named(cifar.net, "linear.weight").shape, (Shape{10, 512}));
  for (const Parameter& p : cifar.net.parameters()) EXPECT_TRUE(p.trained) << p.name;
}

TEST(ResNet32Model, has_thirty_two_layers_with_weights) {
  const Cifar cifar(resnet32_model);
  EXPECT_EQ(cifar.graph.shape(cifar.logits), (Shape{4, 10}));
  std::int64_t layers = 0;
  for (const Parameter& p : cifar.net.parameters()) layers += p.decays ? 1 : 0;
  EXPECT_EQ(layers, 32);
  EXPECT_EQ(values_of(cifar.net), 464154);
  EXPECT_EQ(named(cifar.net, "stage3.1.conv1.weight").shape, (Shape{64, 32, 3, 3}));
  EXPECT_EQ(named(cifar.net, "stage3.1.conv1.weight").initialiser, Initialiser::kFanOutNormal);
}

TEST(ResNet32Model, shares_the_first_activation_with_the_first_shortcut) {
  const Cifar cifar(resnet32_model);
  const auto first_sum = std::ranges::find_if(cifar.graph.nodes(),
                                              [](const Node& node) { return node.op == &add_op; });
  ASSERT_NE(first_sum, cifar.graph.nodes().end());
  EXPECT_EQ(cifar.graph.node(first_sum->inputs[1]).op, &activate_op);
}

TEST(SprintModel, has_the_sizes_of_the_published_network) {
  const Cifar cifar(sprint_model);
  EXPECT_EQ(cifar.graph.shape(cifar.logits), (Shape{4, 10}));
  EXPECT_EQ(values_of(cifar.net), 1971640);
  const Parameter& whiten = named(cifar.net, "whiten.weight");
  EXPECT_FALSE(whiten.trained);
  EXPECT_EQ(whiten.shape, (Shape{24, 3, 2, 2}));
  EXPECT_EQ(whiten.initialiser, Initialiser::kWhitening);
  for (const Parameter& p : cifar.net.parameters())
    EXPECT_FALSE(p.name.ends_with("bn1.weight") || p.name.ends_with("bn2.weight")) << p.name;
}

TEST(Models, have_the_same_parameters_in_evaluation) {
  for (const ModelInfo& model : all_models()) {
    if (!model.build || model.name == "mnist" || model.name == "two-layers")
      continue;  // other inputs
    const Cifar train(model.build), evaluate(model.build, Mode::kEvaluate);
    ASSERT_EQ(train.net.parameters().size(), evaluate.net.parameters().size());
    for (std::size_t i = 0; i < train.net.parameters().size(); ++i)
      EXPECT_EQ(train.net.parameters()[i].name, evaluate.net.parameters()[i].name);
  }
}

}  // namespace
}  // namespace podium
