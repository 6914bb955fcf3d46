// podium generate: text from the network of a run.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cli/command.h"
#include "cli/placement_flags.h"
#include "train/predict/generate.h"

namespace podium {
namespace {

struct GenerateArguments {
  std::string run, step, prompt = "\n";
  GenerateOptions options;
  Placement placement;
};

ExitCode generate_text(const GenerateArguments& arguments) {
  Placement placement = arguments.placement;
  if (placement.workers == 0) placement.workers = 1;  // there is one example at a time
  Predictor predictor = Predictor::load(arguments.run, {}, placement, arguments.step);
  std::string before = arguments.prompt == "\n" ? "" : arguments.prompt;
  generate(predictor, arguments.prompt, arguments.options, [&](std::string_view text) {
    std::cout << std::exchange(before, "") << text << std::flush;
  });
  std::cout << "\n";
  return ExitCode::kDone;
}

}  // namespace

void add_generate_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command =
      add_command(app, line, "generate", "Continues a text with the model of a run",
                  {"podium generate runs/shakespeare-char-small-seed0",
                   "podium generate runs/a --prompt ROMEO: --tokens 1000 --temperature 0.8 --top-k "
                   "20 --seed 3"},
                  [arguments] { return generate_text(*arguments); });
  command->add_option("RUN", arguments->run, "Run folder")->required();
  command->add_option("--prompt", arguments->prompt,
                      "Text to continue, which is written first; default: a new line");
  command->add_option("--tokens", arguments->options.tokens, "Number of tokens to write")
      ->check(at_least(1), "POSITIVE")
      ->capture_default_str();
  command
      ->add_option("--temperature", arguments->options.temperature,
                   "Divides the logits: below 1 the text is more usual, above it less; 0: always "
                   "the most probable token")
      ->check(between(0, 100), "NUMBER")
      ->capture_default_str();
  command
      ->add_option("--top-k", arguments->options.top_k,
                   "Draw only among so many of the most probable tokens; 0: among all")
      ->check(at_least(0), "COUNT")
      ->capture_default_str();
  command
      ->add_option("--seed", arguments->options.seed,
                   "Seed of the draws: equal seeds give equal text, on every device")
      ->capture_default_str();
  add_step_flag(*command, arguments->step);
  add_placement_flags(*command, arguments->placement);
}

}  // namespace podium
