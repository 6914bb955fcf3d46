// podium translate: sentences in another language, by the model of a run on pairs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/placement_flags.h"
#include "files/byte_source.h"
#include "train/predict/translate.h"

namespace podium {
namespace {

struct TranslateArguments {
  std::string run, file, step;
  std::vector<std::string> texts;
  TranslateOptions options;
  Placement placement;
  bool json = false;
};

std::vector<std::string> sentences_of(const std::string& file) {
  const std::string text =
      unpacked_text(file, "name a file with a sentence on each line", std::uint64_t{1} << 30);
  const std::vector<std::string_view> lines = lines_of(text);
  return {lines.begin(), lines.end()};
}

ExitCode translate_sentences(const TranslateArguments& arguments) {
  PODIUM_REQUIRE(arguments.file.empty() != arguments.texts.empty(), ExitCode::kUsage,
                 "nothing to translate, or two things: name a file, or give sentences with --text");
  Predictor predictor = Predictor::load(arguments.run, {}, arguments.placement, arguments.step);
  const std::vector<std::string> sentences =
      arguments.file.empty() ? arguments.texts : sentences_of(arguments.file);
  translate(predictor, sentences, arguments.options, [&](std::size_t i, const Translation& found) {
    if (arguments.json)
      std::cout << json_text(nlohmann::ordered_json{{"source", sentences[i]},
                                                    {"translation", found.text},
                                                    {"score", found.score}})
                << "\n";
    else
      std::cout << found.text << "\n";
    std::cout << std::flush;
  });
  return ExitCode::kDone;
}

}  // namespace

void add_translate_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<TranslateArguments>();
  CLI::App* command =
      add_command(app, line, "translate", "Translates sentences with the model of a run on pairs",
                  {"podium translate runs/multi30k-seed0 test.en > test.de",
                   "podium translate runs/multi30k-seed0 --text \"Two dogs play in the snow.\" "
                   "--beam 8 --json"},
                  [arguments] { return translate_sentences(*arguments); });
  command->add_option("RUN", arguments->run, "Run folder")->required();
  command->add_option("FILE", arguments->file, "A sentence on each line, plain or gzip");
  command
      ->add_option("--text", arguments->texts,
                   "A sentence to translate, in place of a file; may be given several times")
      ->allow_extra_args(false);
  command
      ->add_option("--beam", arguments->options.beam,
                   "Hypotheses of a sentence that are followed; 1: always the most probable token")
      ->check(between(1, 64), "COUNT")
      ->capture_default_str();
  add_step_flag(*command, arguments->step);
  add_placement_flags(*command, arguments->placement);
  command->add_flag(
      "--json", arguments->json,
      "Write a JSON object for each sentence, with its score: the mean of its tokens' "
      "logarithms of probabilities");
}

}  // namespace podium
