#include "report/history.h"

#include <algorithm>
#include <functional>
#include <variant>

#include "train/file_io.h"
#include "train/plugin.h"
#include "train/run_folder.h"

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
  if (!hashes.empty()) last = hashes.rbegin()->first;
  if (!course.training.empty()) last = std::max(last, course.training.back().step);
  if (!course.tests.empty()) last = std::max(last, course.tests.back().step);
  return last;
}

Course parse_metrics(std::string_view text, const std::string& source) {
  Course course;
  for_each_line(text, source,
                R"({"step": N, "loss": ..., ...} or {"step": N, "test_accuracy": ..., ...})",
                [&](std::string_view line) {
                  const std::optional<MetricsLine> found = parse_metrics_line(line);
                  if (!found) return false;
                  if (const auto* test = std::get_if<TestPoint>(&*found))
                    course.tests.push_back(*test);
                  else
                    course.training.push_back(std::get<TrainingPoint>(*found));
                  return true;
                });
  return course;
}

std::map<std::int64_t, std::string> parse_hashes(std::string_view text, const std::string& source) {
  std::map<std::int64_t, std::string> hashes;
  for_each_line(text, source, R"({"step": N, "hash": "..."})", [&](std::string_view line) {
    std::optional<HashLine> found = parse_hash_line(line);
    if (found) hashes[found->step] = std::move(found->hash);
    return found.has_value();
  });
  return hashes;
}

std::map<std::int64_t, std::string> read_hashes(const fs::path& run) {
  const fs::path file = run / "hashes.jsonl";
  return parse_hashes(text_of(file), file.string());
}

RunHistory read_history(const fs::path& run) {
  require_run(run);
  const fs::path metrics = run / "metrics.jsonl";
  return {.folder = run,
          .recipe = read_run_recipe(run),
          .course = parse_metrics(text_of(metrics), metrics.string()),
          .hashes = read_hashes(run)};
}

}  // namespace podium
