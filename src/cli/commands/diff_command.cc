// podium diff: the first step at which two runs differ, and in which tensors by how much.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_text.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/commands/differences.h"
#include "cli/table.h"
#include "files/file_io.h"
#include "report/history.h"
#include "train/loop/checkpoint.h"
#include "train/run/run_folder.h"
#include "trust/tensor_difference.h"

namespace podium {
namespace {

namespace fs = std::filesystem;

struct DiffArguments {
  std::string a, b;
  bool json = false;
};

// The last step that the run's folder knows of. Not every step has a hash (run.hash_every_steps).
std::int64_t last_step(const fs::path& run, const StepHashes& hashes) {
  std::int64_t last = hashes.empty() ? 0 : hashes.back().first;
  for (const CheckpointPlace& place : list_checkpoints(run)) last = std::max(last, place.step);
  return last;
}

// The checkpoints of both runs at the same step: the first at or after `step`, else the last
// before.
std::optional<std::pair<Checkpoint, Checkpoint>> common_checkpoint(
    const fs::path& a, const fs::path& b, std::optional<std::int64_t> step) {
  std::map<std::int64_t, fs::path> places;
  for (const CheckpointPlace& place : list_checkpoints(a)) places[place.step] = place.folder;
  std::optional<std::pair<fs::path, fs::path>> chosen;
  for (const CheckpointPlace& place : list_checkpoints(b)) {
    const auto other = places.find(place.step);
    if (other == places.end()) continue;
    chosen = {other->second, place.folder};
    if (step && place.step >= *step) break;
  }
  if (!chosen) return std::nullopt;
  return std::pair{load_checkpoint(chosen->first), load_checkpoint(chosen->second)};
}

ExitCode diff(const DiffArguments& arguments) {
  const fs::path a = arguments.a, b = arguments.b;
  for (const fs::path& run : {a, b}) require_run(run);
  const std::string recipes =
      line_difference(*read_text(a / "recipe.toml"), *read_text(b / "recipe.toml"));
  const StepHashes hashes_a = read_hashes(a), hashes_b = read_hashes(b);
  const std::int64_t last_a = last_step(a, hashes_a), last_b = last_step(b, hashes_b);
  const HashComparison hashes = compare_hashes(hashes_a, hashes_b);
  const auto checkpoints = common_checkpoint(a, b, hashes.first_difference);
  std::vector<TensorDifference> tensors;
  if (checkpoints) tensors = tensor_differences(checkpoints->first, checkpoints->second);
  PODIUM_REQUIRE(hashes.compared != 0 || checkpoints, ExitCode::kData, a.string(), " and ",
                 b.string(),
                 " have no step in common, neither in hashes.jsonl nor among their checkpoints; "
                 "train them further");
  const bool same_length = last_a == last_b;
  const bool equal = !hashes.first_difference && tensors.empty() && same_length;

  if (arguments.json) {
    nlohmann::ordered_json json = {{"equal", equal},
                                   {"steps_compared", hashes.compared},
                                   {"steps_a", last_a},
                                   {"steps_b", last_b},
                                   {"first_difference", nullptr},
                                   {"recipes_equal", recipes.empty()},
                                   {"checkpoint", nullptr},
                                   {"tensors", nlohmann::ordered_json::array()}};
    if (hashes.first_difference) json["first_difference"] = *hashes.first_difference;
    if (checkpoints) json["checkpoint"] = checkpoints->first.step;
    for (const TensorDifference& d : tensors)
      json["tensors"].push_back(difference_json<nlohmann::ordered_json>(d));
    std::cout << json_text(json) << "\n";
    return equal ? ExitCode::kDone : ExitCode::kDifferent;
  }
  if (!recipes.empty()) std::cout << "the recipes differ:\n" << recipes << "\n";
  if (hashes.first_difference) {
    std::cout << "the runs differ from step " << *hashes.first_difference << " on";
    if (hashes.last_equal != 0) std::cout << "; step " << hashes.last_equal << " is equal";
    std::cout << "\n";
  } else if (hashes.compared == 0) {
    std::cout << "no step has a hash in both runs (run.hash_every_steps), so only checkpoints are "
                 "compared\n";
  } else {
    std::cout << "the parameters are equal after each of "
              << count_text(hashes.compared, "compared step") << "\n";
  }
  if (!same_length) {
    std::cout << printable(a.string()) << " has steps up to " << last_a << ", "
              << printable(b.string()) << " up to " << last_b << "\n";
  }
  if (!checkpoints) {
    std::cout << "the runs have no checkpoint of the same step, so no tensors were compared\n";
  } else if (tensors.empty()) {
    std::cout << "every tensor of the checkpoints of step " << checkpoints->first.step
              << " is equal\n";
  } else {
    std::cout << "the checkpoints of step " << checkpoints->first.step << " differ:\n";
    std::cout << difference_table(tensors);
  }
  return equal ? ExitCode::kDone : ExitCode::kDifferent;
}

}  // namespace

void add_diff_command(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<DiffArguments>();
  CLI::App* command =
      add_command(app, line, "diff",
                  "Finds the first step at which two runs differ; exits with 0 if they are equal",
                  {"podium diff runs/a runs/b", "podium diff runs/a runs/b --json"},
                  [arguments] { return diff(*arguments); });
  command->add_option("RUN_A", arguments->a, "Folder of the first run")->required();
  command->add_option("RUN_B", arguments->b, "Folder of the second run")->required();
  command->add_flag("--json", arguments->json, "Write one JSON object");
}

}  // namespace podium
