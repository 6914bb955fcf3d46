// podium verify: computes steps of a run again, here, and compares every bit; or compares a run's
// folder with its receipt.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <system_error>

#include "base/json_text.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/commands/differences.h"
#include "cli/placement_flags.h"
#include "cli/progress_line.h"
#include "cli/signals.h"
#include "cli/table.h"
#include "cli/talk.h"
#include "files/file_io.h"
#include "plan/run_plan.h"
#include "report/progress.h"
#include "trust/receipt.h"
#include "trust/verify.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

struct VerifyArguments {
  std::string what, run, signers, identity, data_dir, budget;
  std::vector<std::string> overrides;
  Placement placement;
  std::int64_t steps = 0, replicas = 0;
  bool all = false, json = false;
  std::optional<std::uint64_t> seed;
};

constexpr double kDefaultBudget = 600;  // seconds

std::uint64_t seed_of_chance() {
  std::random_device device;
  // A number that a person can repeat.
  return device() % 1'000'000'000;
}

std::string on_device(const Placement& placement, const VerifyOutlook& outlook) {
  return cat(placement.backend.empty() ? "cpu" : placement.backend, " (", outlook.kind, ")");
}

void announce(const VerifyArguments& arguments, const VerifyOptions& options,
              const VerifyOutlook& outlook) {
  if (outlook.unreachable > 0)
    say(cat("the first ", count_text(outlook.unreachable, "step"),
            " cannot be computed again: the values that the run began with are not there"));
  if (!outlook.exact)
    say(cat("the run was computed as ", outlook.run_kind, ", whose bits ", outlook.kind,
            " does not have: whole intervals between checkpoints are computed, and may end as far "
            "from the run's as roundings explain, which takes two further computations"));
  if (arguments.replicas > 0)
    return say(cat(count_text(arguments.replicas, "replica"), " of each of ",
                   count_text(outlook.plan.steps(), "step"), ", drawn with --seed ", options.seed,
                   ", to compute on ", on_device(arguments.placement, outlook), ", about ",
                   duration_text(std::max(1.0, outlook.seconds()))));
  const auto drawn = std::ssize(outlook.plan.drawn);
  const std::string what = count_text(drawn, outlook.exact ? "step" : "interval");
  say(cat(drawn == outlook.hashed ? "all " + what
                                  : cat(what, " of ", with_commas(outlook.hashed),
                                        ", drawn with --seed ", options.seed),
          ": ", count_text(outlook.plan.steps(), "step"), " to compute from ",
          count_text(std::ssize(outlook.plan.walks), "starting point"), " on ",
          on_device(arguments.placement, outlook), ", about ",
          duration_text(std::max(1.0, outlook.seconds()))));
}

// What the steps that were drawn say of those that were not.
std::string strength(const VerifyOutlook& outlook) {
  const auto drawn = std::ssize(outlook.plan.drawn);
  const char* const unit = outlook.exact ? "steps" : "intervals";
  if (drawn == outlook.hashed) return cat("Every one of its ", unit, " was compared.");
  const auto wrong =
      static_cast<std::int64_t>(std::ceil(static_cast<double>(outlook.hashed) / 100));
  return cat("If 1% of its ", unit, " were wrong, this would have been seen with a probability of ",
             percent(chance_of_finding(outlook.hashed, drawn, wrong)), ".");
}

std::string text_of(const VerifyArguments& arguments, const VerifyResult& result) {
  const VerifyOutlook& outlook = result.outlook;
  std::string text;
  for (const WrongStep& wrong : result.wrong) {
    text += cat("step ", with_commas(wrong.step), " is wrong");
    if (!wrong.recorded.empty()) text += cat(": the run has ", wrong.recorded);
    if (!wrong.computed.empty()) text += cat(", here it is ", wrong.computed);
    if (wrong.from != wrong.step)
      text += cat(", computed from ",
                  wrong.from == 0 ? "the start" : cat("the checkpoint of step ", wrong.from));
    if (!wrong.note.empty()) text += "; " + wrong.note;
    text += '\n';
    if (!wrong.tensors.empty())
      text += cat("the checkpoint of step ", wrong.checkpoint, " and what was computed here:\n",
                  difference_table(wrong.tensors));
  }
  for (const Distance& distance : result.distances) {
    if (!distance.is_too_far()) continue;
    text += cat("from step ", distance.from, " to ", distance.to,
                ", the parameters end elsewhere: ", percent(distance.share),
                " of the way from what was computed here, and roundings explain ",
                percent(distance.allowed), "\n");
  }
  if (result.replicas > 0)
    return text + cat(count_text(result.replicas, "replica"), " of ",
                      count_text(result.starts, "step"), " of ", printable(arguments.what),
                      " computed again on ", on_device(arguments.placement, outlook), " in ",
                      duration_text(result.seconds),
                      result.equal() ? ": all gradients are equal.\n" : ".\n");
  text +=
      cat(with_commas(result.recomputed), " steps of ", printable(arguments.what),
          " computed again on ", on_device(arguments.placement, outlook), " in ",
          duration_text(result.seconds), ", from ", count_text(result.starts, "starting point"));
  if (outlook.exact && result.equal()) {
    text += cat(": all of ", count_text(result.compared, "hash", "hashes"), " are equal");
    if (result.proven_checkpoints > 0)
      text +=
          cat(", and ", count_text(result.proven_checkpoints, "checkpoint"), " in every tensor");
  } else if (result.equal()) {
    const auto farthest = std::ranges::max_element(result.distances, {}, &Distance::share);
    text += cat(": the parameters end within what roundings explain, at most ",
                percent(farthest->share), " of their way apart, where ", percent(farthest->allowed),
                " would be explained. These are not equal bits");
  }
  text += ".\n";
  if (result.equal()) text += strength(outlook) + "\n";
  return text;
}

nlohmann::ordered_json json_of(const VerifyOptions& options, const VerifyResult& result) {
  const VerifyOutlook& outlook = result.outlook;
  nlohmann::ordered_json json = {
      {"equal", result.equal()},
      {"exact", outlook.exact},
      {"run_kind", outlook.run_kind},
      {"kind", outlook.kind},
      {"seed", options.seed},
      {"steps_with_hash", outlook.hashed},
      {"drawn", outlook.plan.drawn},
      {"recomputed", result.recomputed},
      {"hashes_compared", result.compared},
      {"replicas_computed", result.replicas},
      {"starting_points", result.starts},
      {"proven_checkpoints", result.proven_checkpoints},
      {"chance_of_seeing_one_percent",
       chance_of_finding(
           outlook.hashed, std::ssize(outlook.plan.drawn),
           static_cast<std::int64_t>(std::ceil(static_cast<double>(outlook.hashed) / 100)))},
      {"planned_seconds", outlook.seconds()},
      {"seconds", result.seconds},
      {"wrong", nlohmann::ordered_json::array()},
      {"distances", nlohmann::ordered_json::array()}};
  for (const WrongStep& wrong : result.wrong) {
    auto tensors = nlohmann::ordered_json::array();
    for (const TensorDifference& d : wrong.tensors)
      tensors.push_back(difference_json<nlohmann::ordered_json>(d));
    json["wrong"].push_back({{"step", wrong.step},
                             {"from", wrong.from},
                             {"recorded", wrong.recorded},
                             {"computed", wrong.computed},
                             {"note", wrong.note},
                             {"checkpoint", wrong.checkpoint},
                             {"tensors", tensors}});
  }
  for (const Distance& distance : result.distances)
    json["distances"].push_back({{"from", distance.from},
                                 {"to", distance.to},
                                 {"share", distance.share},
                                 {"allowed", distance.allowed}});
  return json;
}

ExitCode recompute(const VerifyArguments& arguments) {
  VerifyOptions options{.data_dir = arguments.data_dir,
                        .placement = arguments.placement,
                        .overrides = arguments.overrides,
                        .replicas = arguments.replicas,
                        .all = arguments.all,
                        .steps = arguments.steps,
                        .budget_seconds = kDefaultBudget,
                        .seed = arguments.seed ? *arguments.seed : seed_of_chance(),
                        .stop = StopToken(stop_request())};
  if (!arguments.budget.empty()) options.budget_seconds = parse_duration(arguments.budget);
  ProgressLine line;
  const VerifyObserver observer{
      .planned = [&](const VerifyOutlook& outlook) { announce(arguments, options, outlook); },
      .made =
          [&](std::int64_t done, std::int64_t all) {
            line(cat(with_commas(done), " of ", with_commas(std::max(done, all)), " steps"));
          }};
  const VerifyResult result = verify_run(arguments.what, options, observer);
  line.end();
  if (arguments.json)
    std::cout << json_text(json_of(options, result)) << "\n";
  else
    std::cout << text_of(arguments, result);
  return result.equal() ? ExitCode::kDone : ExitCode::kDifferent;
}

ExitCode check_against_receipt(const VerifyArguments& arguments) {
  const fs::path file = arguments.what;
  const fs::path run = arguments.run.empty() ? file.parent_path() : fs::path(arguments.run);
  const Receipt receipt = parse_receipt(read_text(file).value_or(""), file.string());
  std::string signature;
  if (!arguments.signers.empty())
    signature = check_signature(file, arguments.signers, arguments.identity);
  const std::vector<std::string> problems =
      check_receipt(receipt, run.empty() ? "." : run, StopToken(stop_request()));
  if (arguments.json) {
    std::cout << json_text(nlohmann::ordered_json{{"equal", problems.empty()},
                                                  {"files", receipt.files.size()},
                                                  {"hashes", receipt.hashes},
                                                  {"root", receipt.root},
                                                  {"signature", signature},
                                                  {"problems", problems}})
              << "\n";
  } else {
    for (const std::string& problem : problems) std::cout << printable(problem) << "\n";
    if (problems.empty())
      std::cout
          << count_text(std::ssize(receipt.files), "file") << " and "
          << count_text(receipt.hashes, "line") << " of hashes are as the receipt of "
          << printable(receipt.date) << " has them: " << printable(receipt.recipe) << ", "
          << count_text(receipt.steps, "step") << ", computed as " << printable(receipt.kind)
          << "\nThat the steps were computed as they say is what `podium verify RUN` proves\n";
    if (!signature.empty()) std::cout << printable(signature) << "\n";
  }
  return problems.empty() ? ExitCode::kDone : ExitCode::kDifferent;
}

ExitCode verify(const VerifyArguments& arguments) {
  std::error_code ignored;
  const bool is_receipt = fs::is_regular_file(arguments.what, ignored);
  PODIUM_REQUIRE(is_receipt || (arguments.run.empty() && arguments.signers.empty()),
                 ExitCode::kUsage, arguments.what, ": --run and --signers go with a receipt, and ",
                 fs::exists(arguments.what, ignored)
                     ? "this is a folder; its receipt is made by `podium seal RUN`"
                     : "there is no such file");
  PODIUM_REQUIRE(
      !is_receipt || (arguments.steps == 0 && arguments.replicas == 0 && !arguments.all &&
                      arguments.budget.empty()),
      ExitCode::kUsage, arguments.what,
      ": --steps, --replicas, --budget and --all go with the folder of a run, whose steps they "
      "compute; a receipt is compared with the files");
  return is_receipt ? check_against_receipt(arguments) : recompute(arguments);
}

}  // namespace

void add_verify_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* command =
      add_command(app, line, "verify",
                  "Proves a run: computes drawn steps of it again, here, and compares every bit",
                  {"podium verify runs/mnist-seed0",
                   "podium verify runs/gpu --backend cpu --steps 40", "podium verify runs/a --all",
                   "podium verify receipt.json --run runs/a --signers allowed_signers"},
                  [arguments] { return verify(*arguments); });
  command->add_option("RUN", arguments->what, "Run folder, or a receipt that `podium seal` wrote")
      ->required();
  command->add_option("OVERRIDE", arguments->overrides,
                      "data.path=PATH: where the run's data are now");
  auto* const steps = command->add_option("--steps", arguments->steps, "Draw this many steps")
                          ->check(at_least(1), "POSITIVE");
  auto* const budget = command->add_option(
      "--budget", arguments->budget,
      "Draw as many steps as can be computed in about this time: 90s, 10m, 2h (default: 10m)");
  auto* const all = command->add_flag("--all", arguments->all, "Compute every step again");
  auto* const replicas = command->add_option(
      "--replicas", arguments->replicas,
      "Instead of whole steps, this many drawn replicas of the step after each checkpoint, at "
      "their share of its cost; for a run with run.witness=true");
  replicas->check(at_least(1), "POSITIVE")->excludes(steps)->excludes(budget)->excludes(all);
  steps->excludes(budget)->excludes(all);
  budget->excludes(all);
  command->add_option("--seed", arguments->seed,
                      "Of the drawing (default: a new one, which is printed)");
  command->add_option("--run", arguments->run,
                      "With a receipt: the run's folder (default: the receipt's)");
  auto* const signers = command->add_option(
      "--signers", arguments->signers,
      "With a receipt: a file of allowed signers, as ssh-keygen(1) describes it; the receipt must "
      "be signed by one of them");
  command->add_option("--identity", arguments->identity, "Which of the signers it must be")
      ->needs(signers);
  add_placement_flags(*command, arguments->placement);
  add_input_flags(*command, arguments->placement);
  add_data_dir_flag(*command, arguments->data_dir);
  command->add_flag("--json", arguments->json, "Write one JSON object");
}

}  // namespace podium
