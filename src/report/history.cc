#include "report/history.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "train/file_io.h"
#include "train/run_folder.h"

namespace podium {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Calls f for each line; f says whether it was what it should be.
void for_each_line(std::string_view text, const std::string& source, const char* form,
                   const std::function<bool(const json&)>& f) {
  std::int64_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const json value = json::parse(line, nullptr, false);
    const bool sound = value.is_object() && value.contains("step") &&
                       value["step"].is_number_integer() && f(value);
    if (!sound && text.empty()) break;
    PODIUM_REQUIRE(sound, ExitCode::kData, source, ":", number, ": not a line ", form,
                   "; mend that line or take it out");
  }
}

// Whether the field is a number, or null, which stands for one that is not finite.
bool read_number(const json& line, const char* name, double& value) {
  const auto found = line.find(name);
  if (found == line.end() || !(found->is_number() || found->is_null())) return false;
  value = found->is_null() ? std::numeric_limits<double>::quiet_NaN() : found->get<double>();
  return true;
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
                [&](const json& line) {
                  const auto step = line["step"].get<std::int64_t>();
                  if (line.contains("test_accuracy")) {
                    TestPoint point{.step = step};
                    if (!read_number(line, "test_accuracy", point.accuracy) ||
                        !read_number(line, "test_loss", point.loss))
                      return false;
                    course.tests.push_back(point);
                    return true;
                  }
                  TrainingPoint point{.step = step};
                  if (!read_number(line, "loss", point.loss) ||
                      !read_number(line, "accuracy", point.accuracy) ||
                      !read_number(line, "images_per_second", point.images_per_second))
                    return false;
                  course.training.push_back(point);
                  return true;
                });
  return course;
}

std::map<std::int64_t, std::string> parse_hashes(std::string_view text, const std::string& source) {
  std::map<std::int64_t, std::string> hashes;
  for_each_line(text, source, R"({"step": N, "hash": "..."})", [&](const json& line) {
    if (!line.contains("hash") || !line["hash"].is_string()) return false;
    hashes[line["step"].get<std::int64_t>()] = line["hash"].get<std::string>();
    return true;
  });
  return hashes;
}

std::map<std::int64_t, std::string> read_hashes(const fs::path& run) {
  const fs::path file = run / "hashes.jsonl";
  return parse_hashes(text_of(file), file.string());
}

RunHistory read_history(const fs::path& run) {
  require_run(run);
  const fs::path metrics = run / "metrics.jsonl", recipe = run / "recipe.toml";
  return {.folder = run,
          .recipe = parse_recipe(text_of(recipe), recipe.string()),
          .course = parse_metrics(text_of(metrics), metrics.string()),
          .hashes = read_hashes(run)};
}

}  // namespace podium
