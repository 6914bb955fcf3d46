// podium eval: a run's last checkpoint over the held-out set, every example once.
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/json_text.h"
#include "base/numerics/hash.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/placement_flags.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "train/machine/environment.h"
#include "train/predict/translate.h"
#include "train/run/run.h"
#include "train/run/run_text.h"

namespace podium {
namespace {

struct EvalArguments {
  std::string run, data_dir, step, text;
  Placement placement;
  std::int64_t batch = 0;
  bool json = false, per_class = false;
  std::vector<std::string> overrides;
};

// Of each class: its name, how many examples were taken for it, of how many.
nlohmann::ordered_json classes_json(const EvaluationResult& result, const Field& target) {
  const ConfusionMatrix& counts = result.confusion;
  auto classes = nlohmann::ordered_json::array();
  for (std::int64_t label = 0; label < counts.classes(); ++label)
    classes.push_back({{"class", label},
                       {"name", word_of(target, label)},
                       {"accuracy", counts.accuracy(label)},
                       {"correct", counts.at(label, label)},
                       {"examples", counts.examples(label)},
                       {"undecided", counts.at(label, -1)}});
  return classes;
}

// A row for each class, a column for each class that it was taken for; null for so many classes
// that few would read it.
nlohmann::ordered_json confusion_json(const ConfusionMatrix& counts) {
  constexpr std::int64_t kMostRows = 1000;
  if (counts.classes() > kMostRows) return nullptr;
  auto rows = nlohmann::ordered_json::array();
  for (std::int64_t label = 0; label < counts.classes(); ++label) {
    auto row = nlohmann::ordered_json::array();
    for (std::int64_t guess = 0; guess < counts.classes(); ++guess)
      row.push_back(counts.at(label, guess));
    rows.push_back(row);
  }
  return rows;
}

// The counts above 0, for any number of classes.
nlohmann::ordered_json cells_json(const ConfusionMatrix& counts) {
  auto cells = nlohmann::ordered_json::array();
  for (const auto& [place, count] : counts.cells())
    if (place.second >= 0) cells.push_back({place.first, place.second, count});
  return cells;
}

// Each class with the class that it is most often mistaken for.
std::string classes_text(const EvaluationResult& result, const Field& target) {
  const ConfusionMatrix& counts = result.confusion;
  struct Mistake {
    std::int64_t count = 0, guess = 0;
  };
  std::vector<Mistake> most(static_cast<std::size_t>(counts.classes()));
  for (const auto& [place, count] : counts.cells()) {
    Mistake& own = most[static_cast<std::size_t>(place.first)];
    if (place.second >= 0 && place.second != place.first && count > own.count)
      own = {count, place.second};
  }
  Table table({"CLASS", "ACCURACY", "CORRECT", "EXAMPLES", "MOST OFTEN MISTAKEN FOR"});
  for (std::int64_t label = 0; label < counts.classes(); ++label) {
    const Mistake& worst = most[static_cast<std::size_t>(label)];
    table.add({word_of(target, label), percent(counts.accuracy(label)),
               with_commas(counts.at(label, label)), with_commas(counts.examples(label)),
               worst.count == 0
                   ? ""
                   : cat(word_of(target, worst.guess), " (", with_commas(worst.count), ")")});
  }
  return table.text();
}

// Of text: comparable over tokenizers. 0: of anything else.
double bits_per_byte(const LoadedRun& loaded, const EvaluationResult& result) {
  if (!has_text(loaded.recipe)) return 0;
  const Source& set = loaded.trainer->evaluation_set();
  if (loaded.recipe.text.vocabulary > 0 && loaded.recipe.text.tokenizer == kByteTokens) return 0;
  const std::int64_t bytes = predicted_bytes(set, *tokenizer_of(loaded.recipe, set.fields()));
  return bytes == 0 ? 0
                    : result.sums.loss * static_cast<double>(result.sums.items) /
                          (std::numbers::ln2 * static_cast<double>(bytes));
}

ExitCode evaluate(const EvalArguments& arguments, const CommandLine& line) {
  std::vector<std::string> overrides = arguments.overrides;
  for (const std::string& override : overrides)
    PODIUM_REQUIRE(
        override.starts_with("data.path="), ExitCode::kUsage, "\"", override,
        "\": eval takes data.path=FOLDER alone, where the pictures of the run were moved; "
        "the rest of its recipe is fixed");
  if (arguments.batch != 0) overrides.push_back(cat("evaluation.batch=", arguments.batch));
  LoadedRun loaded = arguments.text.empty()
                         ? load_run(arguments.run, arguments.data_dir, arguments.placement,
                                    overrides, arguments.step)
                         : load_run_on_text(arguments.run, arguments.text, arguments.data_dir,
                                            arguments.placement, arguments.step);
  Trainer& trainer = *loaded.trainer;
  EvaluationResult result = trainer.evaluate();
  if (loaded.recipe.evaluation.translations != 0)
    add_translations(trainer, trainer.checkpoint(), result);
  const double speed =
      result.seconds > 0 ? static_cast<double>(result.sums.items) / result.seconds : 0;
  const TaskWords words = trainer.words();
  const double bits = bits_per_byte(loaded, result);
  const std::vector<Field> fields = trainer.evaluation_set().fields();
  // Of classes; otherwise there is nothing to tell them apart by.
  const Field target = target_of(fields) == nullptr ? Field() : *target_of(fields);
  if (arguments.json) {
    nlohmann::ordered_json json = {{"recipe", loaded.recipe.name},
                                   {"seed", loaded.recipe.seed},
                                   {"steps", trainer.steps_done()},
                                   {"replicas", loaded.recipe.replicas},
                                   {"workers", trainer.placement().workers},
                                   {"evaluation_batch", trainer.evaluation_batch()},
                                   {"loss", result.sums.loss}};
    for (const MetricValue& metric : result.metrics) json[metric.name] = metric.value;
    for (const std::string& name : trainer.counts()) json[name] = result.sums.count(name);
    if (bits > 0) json["bits_per_byte"] = bits;
    json["examples"] = result.sums.examples;
    json["parameter_hash"] = hash_text(trainer.parameter_hash());
    json["eval_seconds"] = result.seconds;
    json[words.rate_key()] = speed;
    json["peak_memory_bytes"] = peak_memory_bytes();
    if (target.below > 0) {
      json["classes"] = classes_json(result, target);
      json["confusion"] = confusion_json(result.confusion);
      json["confusion_cells"] = cells_json(result.confusion);
    }
    std::cout << json_text(json) << "\n";
    return ExitCode::kDone;
  }
  std::cout << printable(line.typed(arguments.run)) << ", step " << trainer.steps_done() << ": "
            << evaluation_text(result, words) << ", "
            << (bits > 0 ? cat(fixed(bits, 4), " bits per byte, ") : "")
            << with_commas(static_cast<std::int64_t>(speed)) << " " << words.rate_unit()
            << "\nparameters " << hash_text(trainer.parameter_hash()) << "\n";
  if (arguments.per_class && target.below == 0)
    say("--per-class: the target of this run has no classes");
  else if (arguments.per_class)
    std::cout << "\n" << classes_text(result, target);
  return ExitCode::kDone;
}

}  // namespace

void add_eval_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<EvalArguments>();
  CLI::App* command =
      add_command(app, line, "eval", "Evaluates the last checkpoint of a run",
                  {"podium eval runs/mnist-seed0", "podium eval runs/a --batch 100 --json"},
                  [arguments, &line] { return evaluate(*arguments, line); });
  command->add_option("RUN", arguments->run, "Run folder")->required();
  command->add_option("OVERRIDE", arguments->overrides,
                      "data.path=FOLDER: where the run's pictures are now");
  command
      ->add_option("--text", arguments->text,
                   "A text, a folder of texts or shards, all of which is evaluated instead of the "
                   "held-out part of the run's own")
      ->excludes("OVERRIDE");
  command->add_option("--batch", arguments->batch, "Examples per batch; does not affect the result")
      ->check(at_least(1), "POSITIVE");
  add_step_flag(*command, arguments->step);
  add_placement_flags(*command, arguments->placement);
  add_data_dir_flag(*command, arguments->data_dir);
  command->add_flag("--per-class", arguments->per_class,
                    "Show the accuracy of each class, and what it is most often mistaken for");
  command->add_flag("--json", arguments->json,
                    "Write one JSON object, with each class and the confusion matrix: one row per "
                    "class, one column per predicted class");
}

}  // namespace podium
