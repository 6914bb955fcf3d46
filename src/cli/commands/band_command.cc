// podium band: how well a recipe ends over seeds, and whether a run is one of these.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/json_text.h"
#include "base/numerics/hash.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/placement_flags.h"
#include "cli/run_watch.h"
#include "cli/signals.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "nn/models.h"
#include "report/band.h"
#include "report/trackers/run_board.h"
#include "train/run/initial.h"
#include "train/run/run.h"
#include "train/run/run_folder.h"

namespace podium {
namespace {

// The largest integer of TOML.
constexpr auto kMostSeed = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

struct BandArguments {
  RecipeArguments recipe;
  Placement placement;
  std::string out, data_dir, check, band;
  std::int64_t seeds = 0;
  std::uint64_t first_seed = 0;
  bool json = false;
};

std::string summary(const Band& band) {
  const auto [least, most] =
      std::minmax_element(band.runs.begin(), band.runs.end(),
                          [](const BandRun& a, const BandRun& b) { return a.metric < b.metric; });
  const TaskWords& words = band.words;
  std::string text =
      cat(count_text(std::ssize(band.runs), "run"), ": ", words.metric_name(), ": mean ",
          words.metric_text(band.mean()), ", least ", words.metric_text(least->metric), ", most ",
          words.metric_text(most->metric));
  if (band.runs.size() >= 2)
    text += words.unit == "%" ? cat(", deviation ", fixed(100 * band.deviation(), 3), " points")
                              : cat(", deviation ", words.metric_text(band.deviation()));
  if (band.runs.size() < kLeastBandRuns)
    return text + cat("\nfewer than ", kLeastBandRuns,
                      " runs are too few to predict further runs; use --seeds ", kLeastBandRuns,
                      " or more\n");
  return text + cat("\n99 of 100 further runs end between ", words.metric_text(band.low()), " and ",
                    words.metric_text(band.high()), "\n");
}

ExitCode make(const BandArguments& arguments, const CommandLine& line) {
  Recipe recipe = with_initial_hash(
      read_named_recipe(arguments.recipe.recipe, arguments.recipe.overrides, arguments.data_dir));
  const std::filesystem::path folder =
      arguments.out.empty() ? cat("runs/", recipe.name, "-band") : arguments.out;
  require_own_folder(folder);
  const std::filesystem::path file = folder / "band.json";
  PODIUM_REQUIRE(
      static_cast<std::uint64_t>(arguments.seeds - 1) <= kMostSeed - arguments.first_seed,
      ExitCode::kUsage, "--first-seed ", arguments.first_seed, " --seeds ", arguments.seeds,
      ": the last seed would be above ", kMostSeed);
  Band band{.recipe = band_recipe(recipe), .runs = {}};
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) {
    Band before = read_band(file, 0);
    PODIUM_REQUIRE(before.recipe == band.recipe, ExitCode::kUsage, file.string(),
                   ": is of another recipe (- the band's, + yours):\n",
                   line_difference(before.recipe, band.recipe), "choose another folder with --out");
    band = std::move(before);
  }
  Table table({"SEED", "METRIC", "LOSS", "TRAINING", "PARAMETERS"});
  for (std::int64_t i = 0; i < arguments.seeds; ++i) {
    recipe.seed = arguments.first_seed + static_cast<std::uint64_t>(i);
    RunOptions options;
    options.out = folder / cat("seed-", recipe.seed);
    options.data_dir = arguments.data_dir;
    options.placement = arguments.placement;
    options.command_line = line.words;
    options.stop_request = stop_request();
    say(cat("run folder    ", options.out.string()));
    RunBoard board(options.out);
    RunWatch watch(recipe, options, false);
    Observers both{&board, &watch};
    const RunResult result = run(recipe, model_of(recipe), options, both);
    watch.finish();
    if (result.stopped) {
      say(cat("stopped on request in seed ", recipe.seed, "; the same command resumes the run"));
      return ExitCode::kStopped;
    }
    const std::string hash = hash_text(result.parameter_hash);
    band.words = watch.words();
    add_run(band, {recipe.seed, result.evaluation.metric(), hash});
    write_band(file, band);
    table.add({cat(recipe.seed), band.words.metric_text(result.evaluation.metric()),
               fixed(result.evaluation.sums.loss, 4),
               result.steps_made == 0 ? "before" : fixed(result.train_seconds, 0) + " s", hash});
  }
  if (arguments.json) {
    std::cout << *read_text(file);
  } else {
    std::cout << table.text() << summary(band) << "band " << file.string() << "\n";
  }
  return ExitCode::kDone;
}

ExitCode check(const BandArguments& arguments) {
  const Recipe recipe =
      read_named_recipe(arguments.recipe.recipe, arguments.recipe.overrides, arguments.data_dir);
  std::string file = arguments.band;
  if (file.empty())
    file = arguments.out.empty() ? find_band(recipe.name).string()
                                 : (std::filesystem::path(arguments.out) / "band.json").string();
  if (file.empty()) file = cat("runs/", recipe.name, "-band/band.json");  // where it is missed
  const Band band = read_band(file);
  const LoadedRun loaded = load_run(arguments.check, arguments.data_dir, arguments.placement);
  const std::string own = band_recipe(loaded.recipe);
  PODIUM_REQUIRE(own == band.recipe, ExitCode::kUsage, arguments.check,
                 ": its recipe is not that of ", file, " (- the band's, + the run's):\n",
                 line_difference(band.recipe, own),
                 "a band applies only to runs of its own recipe");
  Trainer& trainer = *loaded.trainer;
  PODIUM_REQUIRE(trainer.steps_done() == trainer.total_steps(), ExitCode::kUsage, arguments.check,
                 ": has made ", trainer.steps_done(), " of ", trainer.total_steps(),
                 " steps; a band applies only to finished runs; `podium train` resumes it");
  const TaskWords words = trainer.words();
  PODIUM_REQUIRE(words.metric == band.words.metric, ExitCode::kUsage, file, ": is of ",
                 band.words.metric_name(), "; ", arguments.check, " has ", words.metric_name());
  const double metric = trainer.evaluate().metric();
  const bool inside = metric >= band.low() && metric <= band.high();
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"run", arguments.check},  {"band", file},
                                         {words.metric, metric},    {"inside", inside},
                                         {"low", band.low()},       {"high", band.high()},
                                         {"mean", band.mean()},     {"deviation", band.deviation()},
                                         {"runs", band.runs.size()}};
    std::cout << json_text(json) << "\n";
  } else {
    std::cout << printable(arguments.check) << ": " << words.metric_text(metric) << ", "
              << (inside ? "inside" : "outside") << " the band of " << file << "\n"
              << summary(band);
  }
  return inside ? ExitCode::kDone : ExitCode::kDifferent;
}

ExitCode band(const BandArguments& arguments, const CommandLine& line) {
  PODIUM_REQUIRE((arguments.seeds != 0) != !arguments.check.empty(), ExitCode::kUsage,
                 "give --seeds N to train a band, or --check RUN to check a run against it");
  return arguments.check.empty() ? make(arguments, line) : check(arguments);
}

}  // namespace

void add_band_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<BandArguments>();
  CLI::App* command = add_command(
      app, line, "band", "Trains a recipe over seeds to make a band, or checks a run against one",
      {"podium band mnist --seeds 10                # resumes where it was stopped",
       "podium band mnist --check runs/a            # 0: inside, 1: outside"},
      [arguments, &line] { return band(*arguments, line); });
  add_recipe_arguments(*command, arguments->recipe);
  command->add_option("--seeds", arguments->seeds, "Number of seeds to train")
      ->check(at_least(1), "POSITIVE");
  command->add_option("--first-seed", arguments->first_seed, "First seed; default: 0")
      ->check(at_least(0), "NONNEGATIVE");
  command->add_option("--out", arguments->out,
                      "Folder for the runs and band.json; default: runs/RECIPE-band");
  command->add_option("--check", arguments->check, "Folder of a finished run to check");
  command->add_option("--band", arguments->band,
                      "Band file; default: that in --out, the one that came with Podium, or "
                      "runs/RECIPE-band/band.json");
  add_placement_flags(*command, arguments->placement);
  add_input_flags(*command, arguments->placement);
  add_data_dir_flag(*command, arguments->data_dir);
  command->add_flag("--json", arguments->json, "Write JSON");
}

}  // namespace podium
