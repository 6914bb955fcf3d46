// podium train: a recipe, from its start or its last checkpoint to its end.
#include <CLI/CLI.hpp>
#include <cmath>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_text.h"
#include "base/numerics/hash.h"
#include "base/words.h"
#include "cli/as_rank.h"
#include "cli/command.h"
#include "cli/placement_flags.h"
#include "cli/run_watch.h"
#include "cli/signals.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "files/byte_text.h"
#include "nn/models.h"
#include "report/run_reports.h"
#include "report/trackers/mlperf_log.h"
#include "train/machine/memory.h"
#include "train/recipe/recipe_keys.h"
#include "train/run/run.h"
#include "train/run/stored_run.h"

namespace podium {
namespace {

struct TrainArguments {
  RecipeArguments recipe;
  RunOptions run;
  std::string out, memory_limit, init, price, mlperf_log;
  TrackerOptions trackers;
  std::vector<std::string> init_map, init_fresh;
  bool json = false, quiet = false;
  RankOptions ranks;
};

// Per second of `seconds`, 0 where there were none.
double rate(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

// Its metric and counts by their names; null where nothing was evaluated.
void add_evaluation(nlohmann::ordered_json& json, const EvaluationResult& result,
                    const RunWatch& watch) {
  const bool known = result.sums.examples != 0;
  const auto add = [&](const std::string& name, const auto& value) {
    json[name] = known ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  add("loss", result.sums.loss);
  if (!watch.words().metric.empty()) add(watch.words().metric, result.metric());
  for (const MetricValue& metric : result.metrics)
    if (metric.name == kBleuMetric) add(metric.name, metric.value);
  for (const std::string& name : watch.counts()) add(name, result.sums.count(name));
  add("examples", result.sums.examples);
}

nlohmann::ordered_json json_of(const Recipe& recipe, const RunOptions& options,
                               const RunResult& result, const RunWatch& watch) {
  const EvaluationResult& last = result.last_evaluation;
  const auto made = static_cast<double>(result.steps_made);
  // JSON has no NaN: what was not computed is null.
  const auto known = [](bool is, const auto& value) {
    return is ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  const bool prepared = result.prepared;
  nlohmann::ordered_json json = {{"recipe", recipe.name},
                                 {"seed", recipe.seed},
                                 {"steps", known(prepared, result.steps)},
                                 {"total_steps", known(prepared, result.total_steps)},
                                 {"epochs", known(prepared, result.epochs)},
                                 {"replicas", recipe.replicas},
                                 {"workers", known(prepared, watch.workers())},
                                 {"threads", options.placement.threads},
                                 {"input_threads", options.placement.input_threads},
                                 {"backend", known(prepared, watch.backend())},
                                 {"train_loss", known(result.steps_made != 0, result.train_loss)}};
  add_evaluation(json, result.evaluation, watch);
  json.update(nlohmann::ordered_json{
      {"last_evaluation", nullptr},
      {"best_step", known(result.best_step != 0, result.best_step)},
      {"parameter_hash", known(prepared, hash_text(result.parameter_hash))},
      {"steps_made", result.steps_made},
      {"start_seconds", result.start_seconds},
      {"train_seconds", result.train_seconds},
      {"eval_seconds", result.eval_seconds},
      {watch.words().rate_key(),
       rate(static_cast<double>(watch.items_made()), result.train_seconds)},
      {"steps_per_second", rate(made, result.train_seconds)},
      {"input_wait_percent", result.input_wait_percent},
      {"peak_memory_bytes", known(prepared, result.peak_memory_bytes)},
      {"joules", known(result.joules.has_value(), result.joules.value_or(0))},
      {"cost", nullptr},
      {"stopped", result.stopped},
      {"out", options.out.string()}});
  if (options.price)
    json["cost"] = {{"usd", options.price->usd(result.seconds)},
                    {"price", options.price->text()},
                    {"date", options.price->price.date}};
  if (last.sums.examples != 0) {
    json["last_evaluation"] = {{"step", last.step}};
    add_evaluation(json["last_evaluation"], last, watch);
  }
  return json;
}

std::string report_of(const Recipe& recipe, const RunOptions& options, const RunResult& result,
                      const RunWatch& watch) {
  const auto evaluation = [&](const EvaluationResult& e) {
    return evaluation_text(e, watch.words(), recipe.validation != 0 ? " held out" : "");
  };
  std::string text = cat(recipe.name, ", seed ", recipe.seed, ": ");
  if (!result.prepared) return text + "stopped before the first step; nothing was saved\n";
  if (result.evaluation.sums.examples != 0) text += evaluation(result.evaluation) + ", ";
  text += cat(with_commas(result.steps), " of ", count_text(result.total_steps, "step"));
  if (result.steps_made != 0) {
    text += cat(", trained ", fixed(result.train_seconds, 1), " s at ",
                with_commas(static_cast<std::int64_t>(
                    rate(static_cast<double>(watch.items_made()), result.train_seconds))),
                " ", watch.words().rate_unit());
  } else {
    text += result.stopped ? ", none of them by this command" : ", all made earlier";
  }
  if (options.price)
    text += cat(", cost ", usd_text(options.price->usd(result.seconds)), " (",
                options.price->text(), ")");
  // Of a stopped run: the last parameters have no metric, and it must not pass for theirs.
  const EvaluationResult& last = result.last_evaluation;
  if (result.evaluation.sums.examples == 0 && last.sums.examples != 0)
    text += cat("\nlast evaluation after step ", with_commas(last.step), ": ", evaluation(last));
  if (result.best_step != 0)
    text += cat("\nbest checkpoint: that of step ", with_commas(result.best_step));
  return text + cat("\nparameters ", hash_text(result.parameter_hash), ", in ",
                    printable(options.out.string()), "\n");
}

// The flags are overrides of [init].
void add_init(TrainArguments& arguments) {
  const auto add = [&](const char* key, const std::string& value) {
    arguments.recipe.overrides.push_back(cat(key, "=", value));
  };
  const auto array = [](const std::vector<std::string>& words) {
    std::vector<std::string> quoted;
    for (const std::string& word : words) quoted.push_back(quoted_text(word));
    return cat("[", join_words(quoted), "]");
  };
  if (!arguments.init.empty()) add("init.from", quoted_text(arguments.init));
  if (!arguments.init_map.empty()) add("init.map", array(arguments.init_map));
  if (!arguments.init_fresh.empty()) add("init.fresh", array(arguments.init_fresh));
}

// Nothing to see: rank 0 shows the run.
class Silence : public RunObserver {};

ExitCode train_as_rank(TrainArguments& arguments, const CommandLine& line, Transport& ranks) {
  const bool leads = ranks.rank() == 0;
  set_quiet(arguments.quiet || !leads);
  add_init(arguments);
  const Recipe recipe = read_named_recipe(arguments.recipe.recipe, arguments.recipe.overrides,
                                          arguments.run.data_dir);
  RunOptions& options = arguments.run;
  options.out =
      arguments.out.empty() ? cat("runs/", recipe.name, "-seed", recipe.seed) : arguments.out;
  if (!arguments.price.empty()) options.price = choose_price(arguments.price, known_prices());
  if (!arguments.memory_limit.empty()) options.memory_limit = parse_bytes(arguments.memory_limit);
  options.command_line = line.words;
  options.stop_request = stop_request();
  say(cat("run folder    ", options.out.string()));

  if (ranks.ranks() > 1) options.placement.ranks = &ranks;
  if (!leads) {
    Silence silence;
    const bool stopped = run(recipe, model_of(recipe), options, silence).stopped;
    return stopped ? ExitCode::kStopped : ExitCode::kDone;
  }

  RunResult result;
  const std::filesystem::path named = options.out;
  train_into(named, [&](const std::filesystem::path& folder, RunObserver& publisher) {
    options.out = folder;
    RunReports reports(folder, arguments.trackers);
    RunWatch watch(recipe, options, arguments.quiet);
    std::optional<MlperfLog> log;
    Observers all{&reports, &watch};
    if (!arguments.mlperf_log.empty()) all.add(log.emplace(arguments.mlperf_log));
    all.add(publisher);
    result = run(recipe, model_of(recipe), options, all);
    watch.finish();
    reports.finish(result);
    if (log) log->finish();
    options.out = named;
    if (arguments.json) {
      std::cout << json_text(json_of(recipe, options, result, watch)) << "\n";
    } else {
      std::cout << report_of(recipe, options, result, watch);
    }
  });
  if (!result.stopped) return ExitCode::kDone;
  const bool saved = result.prepared && result.steps > 0;
  say(cat("stopped on request ",
          saved ? cat("after step ", result.steps, " and saved; the same command resumes the run")
                : std::string("before the first step; nothing was saved")));
  return ExitCode::kStopped;
}

}  // namespace

void add_train_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = add_command(
      app, line, "train", "Trains a recipe, or resumes an unfinished run of it",
      {"podium train mnist",
       "podium train mnist seed=3 optimizer.learning_rate=0.02 --workers 2 --out runs/a"},
      [arguments, &line] {
        return as_rank(arguments->ranks,
                       [&](Transport& ranks) { return train_as_rank(*arguments, line, ranks); });
      });
  add_recipe_arguments(*command, arguments->recipe);
  command->add_option("--out", arguments->out, "Run folder; default: runs/RECIPE-seedN");
  command->add_option("--mlperf-log", arguments->mlperf_log,
                      "File for a log of the run in MLPerf's format");
  command->add_option("--mlflow", arguments->trackers.mlflow,
                      "Address of an MLflow tracking server, which gets the run's curves and "
                      "settings, too");
  command->add_option(
      "--prometheus", arguments->trackers.prometheus,
      "File (.prom) for the newest values of the run, for Prometheus' node exporter");
  add_placement_flags(*command, arguments->run.placement);
  add_input_flags(*command, arguments->run.placement);
  add_data_dir_flag(*command, arguments->run.data_dir);
  command
      ->add_option("--steps", arguments->run.stop_steps,
                   "Stop after this step of the run; the schedule does not change")
      ->check(at_least(1), "POSITIVE");
  command
      ->add_option("--epochs", arguments->run.stop_epochs,
                   "Stop after this epoch of the run; the schedule does not change")
      ->check(at_least(1), "POSITIVE");
  command->add_option("--init", arguments->init,
                      "Initial values: a run's folder, one of its checkpoints or a safetensors "
                      "file; sets init.from");
  command
      ->add_option("--init-map", arguments->init_map,
                   "\"old*=new*\" renames tensors of --init; may be given more than once")
      ->allow_extra_args(false);
  command
      ->add_option("--init-fresh", arguments->init_fresh,
                   "Pattern of parameters that get new initial values, such as a new head: "
                   "\"fc.*\"; may be given more than once")
      ->allow_extra_args(false);
  command->add_flag("--fresh", arguments->run.fresh,
                    "Start over; the contents of the folder move to previous-1 in it");
  command->add_option("--memory-limit", arguments->memory_limit,
                      "Largest amount of memory of this process, such as 2GiB: the run's, the "
                      "program's own and that of decoding its data; a run that needs more ends "
                      "before step 1 and names a setting that fits");
  command->add_option("--price", arguments->price,
                      "Price of the machine, as PROVIDER/MACHINE (`podium prices`): the progress "
                      "shows the cost so far, and the run records it");
  add_rank_flags(*command, arguments->ranks);
  command->add_option("--trace", arguments->run.trace,
                      "File for a trace of all ranks; open it in ui.perfetto.dev");
  command->add_flag("--json", arguments->json, "Write one JSON object to stdout at the end");
  command->add_flag("--quiet", arguments->quiet,
                    "Show no progress and no messages except warnings");
}

}  // namespace podium
