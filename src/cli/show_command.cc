// podium show: a recipe's model, what it costs, and the resolved recipe.
#include <CLI/CLI.hpp>
#include <iostream>

#include "base/words.h"
#include "cli/command.h"
#include "cli/table.h"
#include "compile/stablehlo/stablehlo.h"
#include "data/dataset.h"
#include "nn/models.h"
#include "ops/ops.h"
#include "train/program.h"
#include "train/recipe.h"
#include "train/run.h"

namespace podium {
namespace {

struct ShowArguments {
  RecipeArguments recipe;
  bool graph = false, stablehlo = false;
};

Cost cost_of(const Graph& graph, const Node& node) {
  std::vector<TensorType> inputs;
  for (const Value value : node.inputs) inputs.push_back(graph.type(value));
  return podium::cost_of(*node.op, node.attributes, inputs, node.outputs);
}

double flops_of(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op != nullptr) flops += cost_of(graph, node).flops;
  }
  return flops;
}

// The shape of what a layer gives for one image.
std::string image_shape(const TensorType& type) {
  std::vector<std::int64_t> extents(type.shape.extents().begin(), type.shape.extents().end());
  if (!extents.empty()) extents.erase(extents.begin());
  return to_string(Shape(extents));
}

// Layers in the order of computation, with the parameters that each reads.
std::string layers_of(const Graph& graph) {
  Table table({"LAYER", "OPERATION", "OUTPUT", "PARAMETERS", "FLOP/IMAGE"});
  for (const Node& node : graph.nodes()) {
    if (node.op == nullptr) continue;
    std::int64_t parameters = 0;
    for (const Value value : node.inputs) {
      const Node& input = graph.node(value);
      if (input.op == nullptr && input.role == InputRole::kParameter &&
          input.name.find("running_") == std::string::npos)
        parameters += graph.shape(value).elements();
    }
    table.add({node.name, node.op->name, image_shape(node.outputs[0]),
               parameters == 0 ? "" : with_commas(parameters),
               with_commas(static_cast<std::int64_t>(cost_of(graph, node).flops))});
  }
  return table.text();
}

ExitCode show(const ShowArguments& arguments) {
  Recipe recipe = read_named_recipe(arguments.recipe.recipe, arguments.recipe.overrides);
  const SourceFields data = example_fields(recipe, "");
  const ModelInfo& model = find_model(recipe.model);
  ReplicaInputs inputs{.image = Shape{data.channels, data.height, data.width},
                       .images = recipe.batch / recipe.replicas,
                       .classes = data.classes};
  if (has_pictures(recipe)) recipe.train_examples = data.count;
  const Optimizers optimizers(recipe);
  const ReplicaProgram training = build_replica_program(
      model.build, inputs, recipe.seed, recipe.batch, recipe.label_smoothing, false, optimizers);
  optimizers.require_parameters(training.layout, recipe.model);
  if (arguments.graph) {
    std::cout << to_string(training.graph);
    return ExitCode::kDone;
  }
  if (arguments.stablehlo) {
    std::cout << stablehlo::module_text(training.graph, recipe.name);
    return ExitCode::kDone;
  }
  inputs.images = 1;
  const Graph forward = build_evaluation_program(model.build, inputs);

  std::int64_t values = 0;
  for (const FlatEntry& entry : training.layout.parameters) values += entry.elements();
  const std::int64_t steps = total_steps(recipe);
  const double step_flops = flops_of(training.graph) * static_cast<double>(recipe.replicas);
  std::cout << printable(cat(recipe.name, ": ", recipe.description)) << "\n\nmodel " << model.name
            << ", " << model.description << "\n"
            << layers_of(forward) << "\n"
            << with_commas(values) << " parameters in " << training.layout.parameters.size()
            << " tensors; forward " << scaled(flops_of(forward), "FLOP") << " an image\n"
            << "a step " << scaled(step_flops, "FLOP") << " for " << recipe.batch
            << " images; the run's " << with_commas(steps) << " steps "
            << scaled(step_flops * static_cast<double>(steps), "FLOP") << "\n\n"
            << "parameters\n";
  Table parameters({"NAME", "SHAPE", "VALUES", "OPTIMIZER", "WEIGHT DECAY"});
  for (const FlatEntry& entry : training.layout.parameters) {
    const bool decays = entry.trained && optimizers.weight_decay(entry) != 0;
    parameters.add({entry.name, to_string(entry.shape()), with_commas(entry.elements()),
                    entry.trained                    ? optimizers.of(entry).name
                    : optimizers.freezes(entry.name) ? "frozen"
                                                     : "not trained",
                    decays ? "yes" : "no"});
  }
  std::cout << parameters.text() << "\nrecipe, resolved\n" << to_toml(recipe);
  return ExitCode::kDone;
}

}  // namespace

void add_show_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<ShowArguments>();
  CLI::App* command =
      add_command(app, line, "show", "Shows a recipe: model, shapes, costs, all keys",
                  {"podium show mnist", "podium show mnist replicas=1 --graph"},
                  [arguments] { return show(*arguments); });
  add_recipe_arguments(*command, arguments->recipe);
  command->add_flag("--graph", arguments->graph,
                    "Print the program of one replica's step, one operation per line");
  command->add_flag("--stablehlo", arguments->stablehlo,
                    "Print that program as StableHLO, which XLA compiles");
}

}  // namespace podium
