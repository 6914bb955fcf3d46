// podium inspect: all that one step computed, in one safetensors file.
#include <CLI/CLI.hpp>
#include <iostream>

#include "base/numerics/hash.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/output_file.h"
#include "cli/placement_flags.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "files/file_io.h"
#include "files/safetensors.h"
#include "nn/models.h"
#include "optim/optimizer.h"
#include "train/run/initial.h"
#include "train/run/run.h"

namespace podium {
namespace {

struct InspectArguments {
  RecipeArguments recipe;
  std::int64_t step = 1;
  std::string out, data_dir;
  Placement placement;
  bool force = false, activations = false;
};

ExitCode inspect(const InspectArguments& arguments) {
  require_writable(arguments.out, "--out", arguments.force);
  const Recipe recipe =
      read_named_recipe(arguments.recipe.recipe, arguments.recipe.overrides, arguments.data_dir);
  const RunData data = load_data(recipe, arguments.data_dir);
  Trainer trainer(recipe, model_of(recipe), data.train, data.held_out, arguments.placement);
  take_initial(trainer);
  PODIUM_REQUIRE(arguments.step <= trainer.total_steps(), ExitCode::kUsage, "--step ",
                 arguments.step, ": the recipe has ", count_text(trainer.total_steps(), "step"));
  const auto check = [](const StepResult& step, const std::string& remedy) {
    PODIUM_REQUIRE(step.non_finite.empty(), ExitCode::kDiverged, "step ", step.step, ": ",
                   step.divergence(), "; ", remedy);
  };
  while (trainer.steps_done() + 1 < arguments.step)
    check(trainer.step({.throw_on_divergence = false}), "inspect this step or an earlier one");
  const double rate =
      learning_rate_at(recipe.optimizer, recipe.schedule,
                       {trainer.steps_done(), trainer.steps_per_epoch(), trainer.total_steps()});
  const InspectedStep step = trainer.inspect_step(arguments.activations);
  const std::string hash = hash_text(trainer.parameter_hash());
  write_safetensors(arguments.out, step.tensors,
                    {{"step", cat(arguments.step)},
                     {"steps_per_epoch", cat(trainer.steps_per_epoch())},
                     {"total_steps", cat(trainer.total_steps())},
                     {"learning_rate", cat(rate)},
                     {"parameter_hash", hash},
                     {"recipe", to_toml(recipe)}});
  check(step.result, cat(arguments.out, " holds the step, which changed no parameter"));
  std::cout << printable(arguments.out) << ": step " << arguments.step << " in "
            << step.tensors.size() << " tensors; parameters after it " << hash << "\n";
  return ExitCode::kDone;
}

}  // namespace

void add_inspect_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command =
      add_command(app, line, "inspect",
                  "Writes everything that one training step computes to a safetensors file",
                  {"podium inspect mnist --step 5 --out step5.safetensors",
                   "podium inspect mnist replicas=1 seed=3 --step 1 --out first.safetensors"},
                  [arguments] { return inspect(*arguments); });
  add_recipe_arguments(*command, arguments->recipe);
  command
      ->add_option(
          "--step", arguments->step,
          "Step to write, counted from 1 as in hashes.jsonl; earlier steps are computed first")
      ->check(at_least(1), "POSITIVE")
      ->required();
  command->add_option("--out", arguments->out, "File to write")->required();
  command->add_flag(
      "--activations", arguments->activations,
      "Also write what activations return and what max pooling reads, which takes far "
      "more memory");
  add_force_flag(*command, arguments->force);
  add_placement_flags(*command, arguments->placement);
  add_input_flags(*command, arguments->placement);
  add_data_dir_flag(*command, arguments->data_dir);
}

}  // namespace podium
