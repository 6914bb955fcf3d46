// podium show: a recipe's model, the memory and work of a run with a placement, the resolved
// recipe.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>

#ifdef PODIUM_HAS_PJRT
#include "backend/pjrt/pjrt_device.h"
#include "backend/pjrt/topology.h"
#endif
#include "base/words.h"
#include "cli/command.h"
#include "cli/placement_flags.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "compile/stablehlo/stablehlo.h"
#include "files/byte_text.h"
#include "nn/models.h"
#include "ops/images/unpadded.h"
#include "ops/ops.h"
#include "plan/step_model.h"
#include "train/machine/memory.h"
#include "train/program/program.h"
#include "train/recipe/recipe.h"
#include "train/run/rank_plan.h"
#include "train/run/run.h"

namespace podium {
namespace {

struct ShowArguments {
  RecipeArguments recipe;
  Placement placement;
  int ranks = 1;
  bool all = false, graph = false, stablehlo = false;
  std::string topology;  // --compile-for
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

// The shape of what a layer gives for one example.
std::string example_shape(const TensorType& type) {
  std::vector<std::int64_t> extents(type.shape.extents().begin(), type.shape.extents().end());
  if (!extents.empty()) extents.erase(extents.begin());
  return to_string(Shape(extents));
}

// Layers in the order of computation, with the parameters that each reads.
std::string layers_of(const Graph& graph) {
  Table table({"LAYER", "OPERATION", "OUTPUT", "PARAMETERS", "FLOP/EXAMPLE"});
  for (const Node& node : graph.nodes()) {
    if (node.op == nullptr) continue;
    std::int64_t parameters = 0;
    for (const Value value : node.inputs) {
      const Node& input = graph.node(value);
      if (input.op == nullptr && input.role == InputRole::kParameter &&
          input.name.find("running_") == std::string::npos)
        parameters += graph.shape(value).elements();
    }
    table.add({node.name, node.op->name, example_shape(node.outputs[0]),
               parameters == 0 ? "" : with_commas(parameters),
               with_commas(static_cast<std::int64_t>(cost_of(graph, node).flops))});
  }
  return table.text();
}

#ifdef PODIUM_HAS_PJRT
std::string counted(const std::map<std::string, int>& counts) {
  std::vector<std::string> words;
  for (const auto& [name, count] : counts) words.push_back(cat(count, " ", name));
  return words.empty() ? "none" : join_words(words);
}

// The whole step on as many of the devices as have equally many replicas.
pjrt::ProgramOfDevices step_on(int devices, const Recipe& recipe, const Model& model,
                               const DataShape& data, Placement placement) {
  int used = static_cast<int>(std::min<std::int64_t>(devices, recipe.replicas));
  while (recipe.replicas % used != 0) --used;
  placement.workers = used;
  return {whole_step_text(recipe, model, data, placement,
                          make_absent_pjrt_device({.workers = used}, used)),
          used};
}

// What a device computes in a step, as XLA counts it: its replicas, its part of the tree over all
// replicas, and what follows (update, means, norm, hashes) of its shard.
double step_flops(const Recipe& recipe, const Model& model, const DataShape& data, int devices,
                  const ReplicaProgram& training) {
  const RankPlan plan =
      plan_rank(recipe, model, data, {.workers = devices, .backend = "cpu"}, {devices});
  const std::int64_t replicas = recipe.replicas / devices;
  double flops = unpadded_flops(training.graph) * static_cast<double>(replicas);
  for (const ProgramPlan& program : plan.workers[0].programs)
    for (const KernelCost& kernel : program.plan.kernels)
      if (program.name != "replica") flops += static_cast<double>(program.step_runs) * kernel.flops;
  const double words = static_cast<double>(training.layout.bytes) / sizeof(float);
  return flops + static_cast<double>(recipe.replicas - 1) * words / devices;
}

// A step, compiled for devices that need not be there.
ExitCode compile_for(const ShowArguments& arguments, const Recipe& recipe, const Model& model,
                     const DataShape& data, const ReplicaProgram& training) {
  const char* const plugin = std::getenv("PODIUM_PJRT_PLUGIN");
  PODIUM_REQUIRE(plugin != nullptr && *plugin != '\0', ExitCode::kUsage,
                 "--compile-for: name the library with the compiler in PODIUM_PJRT_PLUGIN; "
                 "scripts/install-dependencies.sh tpu downloads libtpu and prints its path");
  pjrt::CompiledFacts facts;
  int used = 0;
  with_memory_remedy(recipe, [&] {
    facts = pjrt::compile_for(plugin, arguments.topology, [&](int devices) {
      pjrt::ProgramOfDevices program = step_on(devices, recipe, model, data, arguments.placement);
      used = program.devices;
      return program;
    });
  });
  const std::int64_t replicas = recipe.replicas / used;
  Table table({"OF THE WHOLE STEP", arguments.topology});
  table.add({"devices of the topology", cat(facts.devices, ", ", facts.platform)});
  table.add({"devices of the step", cat(used, ", each with ", count_text(replicas, "replica"))});
  table.add({"compiled in", cat(fixed(facts.seconds, 1), " s")});
  table.add({"memory, arguments", format_bytes(facts.arguments)});
  table.add({"memory, results", format_bytes(facts.results)});
  table.add({"memory, temporary", format_bytes(facts.temporary)});
  table.add({"memory, code", format_bytes(facts.code)});
  const std::string limit = facts.limit > 0 ? cat(" of ", format_bytes(facts.limit)) : "";
  if (facts.peak > 0) table.add({"peak memory", cat(format_bytes(facts.peak), limit)});
  const double own_flops = step_flops(recipe, model, data, used, training);
  table.add({"work, as compiled", scaled(facts.flops, "FLOP")});
  table.add({"work, of Podium's graphs", scaled(own_flops, "FLOP")});
  table.add({"difference", cat(fixed(100 * (facts.flops / own_flops - 1), 2), "%")});
  table.add({"memory traffic", scaled(facts.bytes_accessed, "B")});
  table.add({"precision of products", counted(facts.precisions)});
  table.add({"collectives", counted(facts.collectives)});
  std::cout << table.text();
  return ExitCode::kDone;
}
#else
ExitCode compile_for(const ShowArguments&, const Recipe&, const Model&, const DataShape&,
                     const ReplicaProgram&) {
  throw UserError("--compile-for: this build of Podium has no PJRT (docs/tpu.md)");
}
#endif
// Rows of memory; neighbours that are alike become one.
class MemoryTable {
 public:
  void add(const std::string& what, std::int64_t number, const MemoryUse& use) {
    if (!rows_.empty() && rows_.back().what == what && rows_.back().use == use) {
      rows_.back().last = number;
    } else {
      rows_.push_back({what, number, number, use});
    }
  }
  std::string text() const {
    MemoryUse all;
    for (const Row& row : rows_) all += row.use;
    std::vector<std::string> head = {"MEMORY"};
    for (const MemoryKind& kind : kMemoryKinds) {
      if (all.*kind.bytes == 0) continue;
      head.emplace_back(kind.name);
      std::ranges::transform(head.back(), head.back().begin(), [](char c) {
        return static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      });
    }
    head.emplace_back("TOTAL");
    Table table(head);
    for (const Row& row : rows_) {
      std::vector<std::string> cells = {row.what};
      if (row.first != row.last)
        cells[0] += cat("s ", row.first, " to ", row.last, ", each");
      else if (row.first >= 0)
        cells[0] += cat(" ", row.first);
      for (const MemoryKind& kind : kMemoryKinds) {
        const std::int64_t bytes = row.use.*kind.bytes;
        if (all.*kind.bytes != 0) cells.push_back(bytes == 0 ? "" : format_bytes(bytes));
      }
      cells.push_back(format_bytes(row.use.total()));
      table.add(cells);
    }
    return table.text();
  }

 private:
  struct Row {
    std::string what;
    std::int64_t first, last;  // -1: it has no number
    MemoryUse use;
  };
  std::vector<Row> rows_;
};

// The kernels of a worker's programs, each with its cost in one run; programs of one name together.
std::string kernels_of(const WorkerPlan& worker) {
  struct Section {
    const ProgramPlan* program;
    std::vector<KernelCost> kernels;
    double flops = 0, bytes = 0;
  };
  std::vector<Section> sections;
  for (const ProgramPlan& program : worker.programs) {
    const auto known = std::ranges::find_if(
        sections, [&](const Section& one) { return one.program->name == program.name; });
    Section& own =
        known != sections.end() ? *known : sections.emplace_back(Section{&program, {}, 0, 0});
    for (const KernelCost& step : program.plan.kernels) {
      // Steps of one name, of an operation or of its turns, are one.
      const auto same = std::ranges::find(own.kernels, step.name, &KernelCost::name);
      KernelCost& kernel =
          same != own.kernels.end() ? *same : own.kernels.emplace_back(KernelCost{step.name, 0, 0});
      kernel.flops += step.flops, kernel.bytes += step.bytes;
      own.flops += step.flops, own.bytes += step.bytes;
    }
  }
  std::string text;
  for (const Section& section : sections) {
    const ProgramPlan& program = *section.program;
    const std::int64_t runs = program.step_runs + program.evaluation_runs;
    text += cat("\n", program.name, ": ", scaled(section.flops, "FLOP"), " and ",
                format_bytes(static_cast<std::int64_t>(section.bytes)), " a run, ",
                count_text(runs, "run"),
                program.step_runs != 0 ? " a step\n" : " a batch of evaluation\n");
    Table table({"KERNEL", "FLOP", "BYTES", "FLOP/BYTE"});
    for (const KernelCost& kernel : section.kernels) {
      if (kernel.bytes == 0 && kernel.flops == 0) continue;
      table.add({kernel.name, with_commas(static_cast<std::int64_t>(kernel.flops)),
                 with_commas(static_cast<std::int64_t>(kernel.bytes)),
                 kernel.bytes > 0 ? fixed(kernel.flops / kernel.bytes, 2) : ""});
    }
    text += table.text();
  }
  return text;
}

struct PlanText {
  std::string memory;   // of each rank and worker
  std::string kernels;  // of the first worker
};
PlanText plan_of(const Recipe& recipe, const Model& model, const DataShape& data,
                 Placement placement, int ranks) {
  require_ranks(ranks, recipe.replicas);
  if (placement.workers != 0) require_workers(placement.workers, recipe.replicas);
  if (placement.workers == 0)
    placement.workers =
        std::clamp<std::int64_t>(default_workers(recipe.replicas, placement) / ranks, 1,
                                 std::max<std::int64_t>(recipe.replicas / ranks, 1));
  const std::vector<int> workers(static_cast<std::size_t>(ranks),
                                 static_cast<int>(placement.workers));
  MemoryTable memory;
  std::string kernels, batch;
  for (int rank = 0; rank < ranks; ++rank) {
    const RankPlan plan = plan_rank(recipe, model, data, placement, workers, rank);
    if (ranks > 1) {
      memory.add("rank", rank, plan.memory());
    } else {
      memory.add("shared", -1, plan.shared);
      for (std::size_t i = 0; i < plan.workers.size(); ++i)
        memory.add("worker", static_cast<std::int64_t>(i), plan.workers[i].memory);
      memory.add("all", -1, plan.memory());
    }
    if (rank == 0) kernels = kernels_of(plan.workers.front());
    if (rank == 0) batch = std::to_string(plan.evaluation_batch);
  }
  return {cat(ranks == 1 ? "" : cat(ranks, " ranks of "), count_text(placement.workers, "worker"),
              " of ", count_text(placement.threads, "thread"), "; evaluation batch ", batch, "\n",
              memory.text()),
          cat("programs of worker 0\n", kernels)};
}

std::string parameters_of(const FlatLayout& layout, const Optimizers& optimizers) {
  Table parameters({"NAME", "SHAPE", "VALUES", "OPTIMIZER", "WEIGHT DECAY"});
  for (const FlatEntry& entry : layout.parameters) {
    const bool decays = entry.trained && optimizers.weight_decay(entry) != 0;
    parameters.add({entry.name, to_string(entry.shape()), with_commas(entry.elements()),
                    entry.trained                    ? optimizers.of(entry).name
                    : optimizers.freezes(entry.name) ? "frozen"
                                                     : "not trained",
                    decays ? "yes" : "no"});
  }
  return parameters.text();
}

ExitCode show(const ShowArguments& arguments) {
  Recipe recipe = read_named_recipe(arguments.recipe.recipe, arguments.recipe.overrides);
  const PlannedData planned = planned_data(recipe);
  if (!planned.note.empty()) say(planned.note);
  const DataShape& data = planned.shape;
  const ModelInfo& info = find_model(recipe.model);
  const Model model = model_of(recipe);
  BatchInputs inputs = batch_inputs(recipe, data.fields, recipe.batch / recipe.replicas);
  if (has_files(recipe)) recipe.train_examples = data.training;
  const Optimizers optimizers(recipe);
  const ReplicaProgram training =
      build_replica_program(model, inputs, recipe.seed, recipe.batch, false, optimizers);
  optimizers.require_parameters(training.layout, recipe.model);
  if (arguments.graph) {
    std::cout << to_string(training.graph);
    return ExitCode::kDone;
  }
  if (arguments.stablehlo) {
    std::cout << stablehlo::module_text(training.graph, recipe.name);
    return ExitCode::kDone;
  }
  if (!arguments.topology.empty()) return compile_for(arguments, recipe, model, data, training);
  const PlanText plan = plan_of(recipe, model, data, arguments.placement, arguments.ranks);
  inputs.rows = 1;
  const Graph forward = build_evaluation_program(model, inputs);

  std::int64_t values = 0;
  for (const FlatEntry& entry : training.layout.parameters) values += entry.elements();
  const std::int64_t steps = total_steps(recipe);
  const auto replicas = static_cast<double>(recipe.replicas);
  const double step_flops = direct_flops(training.graph) * replicas,
               executed = flops_of(training.graph) * replicas;
  std::cout << printable(cat(recipe.name, ": ", recipe.description)) << "\n\nmodel " << info.name
            << ", " << info.description << "\n"
            << (arguments.all ? layers_of(forward) + "\n" : "") << with_commas(values)
            << " parameters in " << training.layout.parameters.size() << " tensors; forward "
            << scaled(direct_flops(forward), "FLOP") << " an example\n"
            << "a step " << scaled(step_flops, "FLOP") << " for "
            << count_text(recipe.batch, "example") << "; the run's "
            << (recipe.pairs.buckets.empty() ? "" : "at most ") << count_text(steps, "step") << " "
            << scaled(step_flops * static_cast<double>(steps), "FLOP")
            << "\n(as papers count: direct convolutions, 2 for a multiply-add; executed are "
            << scaled(executed, "FLOP") << " a step, "
            << (executed < step_flops ? "with Winograd's algorithm where it pays" : "the same way")
            << ")\n\n";
  if (arguments.all)
    std::cout << "parameters\n"
              << parameters_of(training.layout, optimizers) << "\n"
              << plan.kernels << "\n";
  std::cout << plan.memory << "\nrecipe, resolved"
            << (arguments.all ? "\n" : "; --all shows layers, parameters and kernels, too\n")
            << to_toml(recipe);
  return ExitCode::kDone;
}

}  // namespace

void add_show_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<ShowArguments>();
  CLI::App* command =
      add_command(app, line, "show", "Shows a recipe: model, shapes, memory, costs, all keys",
                  {"podium show mnist", "podium show mnist replicas=4 --workers 4"},
                  [arguments] { return show(*arguments); });
  add_recipe_arguments(*command, arguments->recipe);
  add_placement_flags(*command, arguments->placement);
  add_input_flags(*command, arguments->placement);
  command
      ->add_option("--ranks", arguments->ranks, "Number of ranks, each with --workers; default: 1")
      ->check(at_least(1, std::numeric_limits<int>::max()), "POSITIVE");
  command->add_flag("--all", arguments->all,
                    "Show layers, parameters and the kernels of the first worker's programs, too");
  command->add_flag("--graph", arguments->graph,
                    "Print the program of one replica's step, one operation per line");
  command->add_flag("--stablehlo", arguments->stablehlo,
                    "Print that program as StableHLO, which XLA compiles");
  command->add_option("--compile-for", arguments->topology,
                      "Compile the whole step with PODIUM_PJRT_PLUGIN for devices that need not be "
                      "present, such as v5e:2x4, and print its memory, cost and collectives");
}

}  // namespace podium
