// podium eval: a run's last checkpoint over the held-out set, every example once.
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/json_text.h"
#include "cli/command.h"
#include "cli/placement_flags.h"
#include "cli/table.h"
#include "train/environment.h"
#include "train/run.h"

namespace podium {
namespace {

struct Arguments {
  std::string run, data_dir;
  Placement placement;
  std::int64_t batch = 0;
  bool json = false;
};

ExitCode evaluate(const Arguments& arguments) {
  std::vector<std::string> overrides;
  if (arguments.batch != 0) overrides.push_back(cat("evaluation.batch=", arguments.batch));
  LoadedRun loaded = load_run(arguments.run, arguments.data_dir, arguments.placement, overrides);
  Trainer& trainer = *loaded.trainer;
  const EvaluationResult result = trainer.evaluate();
  const double speed =
      result.seconds > 0 ? static_cast<double>(result.examples) / result.seconds : 0;
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"recipe", loaded.recipe.name},
                                         {"seed", loaded.recipe.seed},
                                         {"steps", trainer.steps_done()},
                                         {"replicas", loaded.recipe.replicas},
                                         {"workers", trainer.placement().workers},
                                         {"evaluation_batch", trainer.evaluation_batch()},
                                         {"loss", result.loss},
                                         {"accuracy", result.accuracy()},
                                         {"correct", result.correct},
                                         {"examples", result.examples},
                                         {"parameter_hash", hash_text(trainer.parameter_hash())},
                                         {"eval_seconds", result.seconds},
                                         {"images_per_second", speed},
                                         {"peak_memory_bytes", peak_memory_bytes()}};
    std::cout << json_text(json) << "\n";
    return ExitCode::kDone;
  }
  std::cout << arguments.run << ", step " << trainer.steps_done() << ": "
            << percent(result.accuracy()) << " (" << with_commas(result.correct) << " of "
            << with_commas(result.examples) << "), loss " << fixed(result.loss, 4) << ", "
            << with_commas(static_cast<std::int64_t>(speed)) << " images/s\nparameters "
            << hash_text(trainer.parameter_hash()) << "\n";
  return ExitCode::kDone;
}

}  // namespace

void add_eval_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      add_command(app, line, "eval", "Evaluates the last checkpoint of a run",
                  {"podium eval runs/mnist-seed0", "podium eval runs/a --batch 100 --json"},
                  [arguments] { return evaluate(*arguments); });
  command->add_option("RUN", arguments->run, "Run folder")->required();
  command->add_option("--batch", arguments->batch, "Images per batch; does not affect the result")
      ->check(at_least(1), "POSITIVE");
  add_placement_flags(*command, arguments->placement);
  add_data_dir_flag(*command, arguments->data_dir);
  command->add_flag("--json", arguments->json, "Write one JSON object");
}

}  // namespace podium
