#include "report/history.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <system_error>
#include <variant>

#include "data/datasets/dataset.h"
#include "files/file_io.h"
#include "report/starts.h"
#include "train/plugin/plugin.h"
#include "train/run/run_folder.h"

namespace podium {
namespace {

namespace fs = std::filesystem;
// Calls f for each line; f says whether it was what it should be.
void for_each_line(std::string_view text, const std::string& source, const char* form,
                   const std::function<bool(std::string_view)>& f) {
  std::int64_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const bool sound = f(line);
    if (!sound && text.empty()) break;
    PODIUM_REQUIRE(sound, ExitCode::kData, source, ":", number, ": not a line ", form,
                   "; repair or remove that line. `podium train` with this folder as --out "
                   "leaves it out and keeps the file as it is beside the new one");
  }
}

std::string text_of(const fs::path& file) { return read_text(file).value_or(""); }

}  // namespace

std::int64_t RunHistory::last_step() const {
  std::int64_t last = 0;
  if (!hashes.empty()) last = hashes.back().first;
  if (!course.training.empty()) last = std::max(last, course.training.back().step);
  if (!course.tests.empty()) last = std::max(last, course.tests.back().step);
  return last;
}

double RunHistory::steps_per_second(const TrainingPoint& point) const {
  // Older Podiums wrote no steps per second; their items were the examples of the batch.
  return std::isfinite(point.steps_per_second)
             ? point.steps_per_second
             : point.items_per_second / static_cast<double>(recipe.batch);
}

HashComparison compare_hashes(const StepHashes& a, const StepHashes& b) {
  HashComparison result;
  auto other = b.begin();
  for (const auto& [step, hash] : a) {
    while (other != b.end() && other->first < step) ++other;
    if (other == b.end()) break;
    if (other->first != step) continue;
    ++result.compared;
    if (other->second != hash) {
      result.first_difference = step;
      break;
    }
    result.last_equal = step;
  }
  return result;
}

Course parse_metrics(std::string_view text, const std::string& source) {
  Course course;
  for_each_line(text, source,
                R"({"step": N, "loss": ..., ...} or {"step": N, "test_accuracy": ..., ...})",
                [&](std::string_view line) {
                  const std::optional<MetricsLine> found = parse_metrics_line(line);
                  if (!found) return false;
                  const auto* const test = std::get_if<TestPoint>(&*found);
                  // The lines of a run all have the same names.
                  if (test != nullptr ? course.tests.empty() : course.training.empty()) {
                    const LineNames names = names_of_metrics_line(line).value_or(LineNames());
                    (test != nullptr ? course.test_metric : course.training_metric) = names.metric;
                    if (!names.unit.empty()) course.item = names.unit;
                  }
                  if (test != nullptr)
                    course.tests.push_back(*test);
                  else
                    course.training.push_back(std::get<TrainingPoint>(*found));
                  return true;
                });
  return course;
}

StepHashes parse_hashes(std::string_view text, const std::string& source) {
  StepHashes hashes;
  for_each_line(text, source, R"({"step": N, "hash": "..."})", [&](std::string_view line) {
    const std::optional<HashLine> found = parse_hash_line(line);
    if (!found) return false;
    auto place = hashes.end();
    if (!hashes.empty() && hashes.back().first >= found->step)
      place = std::ranges::lower_bound(hashes, found->step, {}, &StepHashes::value_type::first);
    if (place != hashes.end() && place->first == found->step)
      place->second = found->hash;  // a later line counts
    else
      hashes.insert(place, {found->step, found->hash});
    return true;
  });
  return hashes;
}

StepHashes read_hashes(const fs::path& run) {
  const fs::path file = run / "hashes.jsonl";
  return parse_hashes(text_of(file), file.string());
}

namespace {

// What was recorded is read without the model and the dataset, which may be a plugin's or a
// program's own. The size of such a dataset is what the run's first start says of it.
Recipe recorded_recipe(const fs::path& run) {
  Recipe recipe = read_run_recipe(run, {}, ModelNames::kRecorded);
  const bool known =
      has_files(recipe) || std::ranges::any_of(dataset_list(), [&](const DatasetInfo& info) {
        return info.name == recipe.data;
      });
  if (known || recipe.train_examples != 0) return recipe;
  for (const RunStart& start : read_starts(run)) {
    const std::string& text = start.training_data;  // "4000 examples, hash ..."
    std::int64_t examples = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), examples);
    if (read.ec != std::errc() || examples < 1) continue;
    recipe.train_examples = examples + recipe.validation;
    break;
  }
  return recipe;
}

}  // namespace

RunHistory read_history(const fs::path& run) {
  require_run(run);
  const fs::path metrics = run / "metrics.jsonl";
  return {.folder = run,
          .recipe = recorded_recipe(run),
          .course = parse_metrics(text_of(metrics), metrics.string()),
          .hashes = read_hashes(run)};
}

}  // namespace podium
