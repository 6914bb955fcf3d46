// podium export: the network of a run, for other programs.
#include <CLI/CLI.hpp>
#include <iostream>

#include "base/words.h"
#include "cli/command.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "files/file_io.h"
#include "files/safetensors.h"
#include "onnx/onnx_file.h"
#include "train/plugin/plugin.h"
#include "train/predict/predictor.h"
#include "train/run/published.h"
#include "train/run/run_folder.h"

namespace podium {
namespace {

struct ExportArguments {
  std::string run, safetensors, onnx, step, dtype = "fp32";
  bool force = false;
};

// The network as other programs run it.
void write_onnx(const std::string& file, const Recipe& recipe, const Checkpoint& checkpoint) {
  const Predictor predictor(recipe, checkpoint);  // refuses what does not fit
  replace_text(file, onnx_file_of(recipe, model_of(recipe), predictor.fields(), checkpoint));
  if (recipe.evaluation.views > 1)
    say(cat("evaluation of this run takes the mean over ", recipe.evaluation.views,
            " views of an example (evaluation.views); the file has the network, for one"));
}

ExitCode export_run(const ExportArguments& arguments) {
  const bool to_onnx = !arguments.onnx.empty();
  const std::string& out = to_onnx ? arguments.onnx : arguments.safetensors;
  PODIUM_REQUIRE(!out.empty(), ExitCode::kUsage,
                 "nothing to write; name a file: --safetensors FILE or --onnx FILE");
  require_writable(out, to_onnx ? "--onnx" : "--safetensors", arguments.force);
  require_run(arguments.run);
  const Recipe recipe = read_run_recipe(arguments.run, {}, ModelNames::kRecorded);
  const Checkpoint checkpoint = checkpoint_of(arguments.run, arguments.step);
  const std::vector<NamedTensor> tensors = to_published(recipe.model, checkpoint.tensors);
  std::int64_t values = 0;
  for (const NamedTensor& t : tensors) values += t.tensor.elements();
  if (to_onnx) {
    write_onnx(out, recipe, checkpoint);
  } else {
    // Hugging Face's loader wants to know whose layouts these are.
    const FloatFormat floats = arguments.dtype == "fp16"   ? FloatFormat::kFp16
                               : arguments.dtype == "bf16" ? FloatFormat::kBf16
                                                           : FloatFormat::kFp32;
    write_safetensors(out, tensors, {{"format", "pt"}}, floats);
  }
  std::cout << printable(out) << ": " << count_text(std::ssize(tensors), "tensor") << " of "
            << printable(recipe.model) << ", " << count_text(values, "value") << ", after step "
            << checkpoint.step << "\n";
  return ExitCode::kDone;
}

}  // namespace

void add_export_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command =
      add_command(app, line, "export",
                  "Writes the network of a run for other programs, without the optimizer's state",
                  {"podium export runs/book-seed0 --safetensors model.safetensors",
                   "podium export runs/a --step best --onnx best.onnx"},
                  [arguments] { return export_run(*arguments); });
  command->add_option("RUN", arguments->run, "Run folder")->required();
  CLI::Option* const safetensors = command->add_option(
      "--safetensors", arguments->safetensors,
      "File to write: the parameters, under the names of the published networks (a GPT's "
      "are Hugging Face's)");
  command
      ->add_option("--dtype", arguments->dtype,
                   "Format of the numbers of --safetensors, one of fp32, fp16, bf16")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}))
      ->capture_default_str()
      ->needs(safetensors);
  command
      ->add_option("--onnx", arguments->onnx,
                   "File to write: the whole network as ONNX, with what normalises its input; "
                   "batches of any size")
      ->excludes(safetensors);
  add_step_flag(*command, arguments->step);
  add_force_flag(*command, arguments->force);
}

}  // namespace podium
