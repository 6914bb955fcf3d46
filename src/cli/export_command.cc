// podium export: the network of a run, for other programs.
#include <CLI/CLI.hpp>
#include <iostream>

#include "base/words.h"
#include "cli/command.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "files/safetensors.h"
#include "train/plugin/plugin.h"
#include "train/run/published.h"
#include "train/run/run_folder.h"

namespace podium {
namespace {

struct ExportArguments {
  std::string run, out, step;
  bool force = false;
};

ExitCode export_run(const ExportArguments& arguments) {
  require_writable(arguments.out, "--safetensors", arguments.force);
  require_run(arguments.run);
  const Recipe recipe = read_run_recipe(arguments.run, {}, ModelNames::kRecorded);
  const Checkpoint checkpoint = checkpoint_of(arguments.run, arguments.step);
  const std::vector<NamedTensor> tensors = to_published(recipe.model, checkpoint.tensors);
  std::int64_t values = 0;
  for (const NamedTensor& t : tensors) values += t.tensor.elements();
  // Hugging Face's loader wants to know whose layouts these are.
  write_safetensors(arguments.out, tensors, {{"format", "pt"}});
  std::cout << printable(arguments.out) << ": " << count_text(std::ssize(tensors), "tensor")
            << " of " << printable(recipe.model) << ", " << count_text(values, "value")
            << ", after step " << checkpoint.step << "\n";
  return ExitCode::kDone;
}

}  // namespace

void add_export_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command =
      add_command(app, line, "export",
                  "Writes the network of a run for other programs, without the optimizer's state",
                  {"podium export runs/book-seed0 --safetensors model.safetensors",
                   "podium export runs/a --step best --safetensors best.safetensors"},
                  [arguments] { return export_run(*arguments); });
  command->add_option("RUN", arguments->run, "Run folder")->required();
  command
      ->add_option("--safetensors", arguments->out,
                   "File to write: FP32, under the names of the published networks (a GPT's are "
                   "Hugging Face's)")
      ->required();
  add_step_flag(*command, arguments->step);
  add_force_flag(*command, arguments->force);
}

}  // namespace podium
