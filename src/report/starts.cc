#include "report/starts.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/error.h"
#include "base/words.h"
#include "files/file_io.h"

namespace podium {
namespace {

using nlohmann::json;
constexpr std::uint64_t kMostBytes = 64 << 20;

// Of an object: what is missing, null or of another type is the default.
template <typename T>
T value_or(const json& object, const char* name, T otherwise) {
  const auto found = object.find(name);
  if (found == object.end()) return otherwise;
  if constexpr (std::is_same_v<T, std::string>)
    return found->is_string() ? found->get<std::string>() : otherwise;
  else
    return found->is_number() ? found->get<T>() : otherwise;
}

std::string text_of(const json& object, const char* name) {
  return value_or(object, name, std::string());
}

std::optional<ChosenPrice> price_of(const json& start) {
  const auto found = start.find("price");
  if (found == start.end() || !found->is_object()) return std::nullopt;
  ChosenPrice chosen;
  chosen.machines = value_or<std::int64_t>(*found, "machines", 1);
  Price& price = chosen.price;
  price.provider = text_of(*found, "provider"), price.machine = text_of(*found, "machine");
  price.device = text_of(*found, "device"), price.region = text_of(*found, "region");
  price.count = value_or<std::int64_t>(*found, "count", 0);
  price.kind = text_of(*found, "kind"), price.date = text_of(*found, "date");
  price.usd_per_hour = value_or<double>(*found, "usd_per_hour", 0);
  price.includes = text_of(*found, "includes"), price.source = text_of(*found, "source");
  if (price.date.empty() || !(price.usd_per_hour > 0)) return std::nullopt;
  return chosen;
}

std::optional<TaskWords> words_in(const json& start) {
  const auto found = start.find("metric");
  if (found == start.end() || !found->is_object()) return std::nullopt;
  TaskWords words;
  words.item = text_of(start, "item");
  words.metric = text_of(*found, "name"), words.unit = text_of(*found, "unit");
  const auto more = found->find("more_is_better");
  if (more != found->end() && more->is_boolean()) words.more_is_better = more->get<bool>();
  if (words.item.empty()) words.item = "example";
  return words;
}

std::optional<StartOutcome> outcome_of(const json& start) {
  const auto found = start.find("outcome");
  if (found == start.end() || !found->is_object()) return std::nullopt;
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  StartOutcome outcome;
  outcome.to_step = value_or<std::int64_t>(*found, "to_step", 0);
  outcome.seconds = value_or(*found, "seconds", kUnknown);
  outcome.start_seconds = value_or(*found, "start_seconds", kUnknown);
  outcome.train_seconds = value_or(*found, "train_seconds", kUnknown);
  outcome.eval_seconds = value_or(*found, "eval_seconds", kUnknown);
  outcome.input_wait_percent = value_or(*found, "input_wait_percent", kUnknown);
  outcome.peak_memory_bytes = value_or<std::int64_t>(*found, "peak_memory_bytes", 0);
  outcome.planned_memory_bytes = value_or<std::int64_t>(*found, "planned_memory_bytes", 0);
  if (const auto joules = found->find("joules"); joules != found->end() && joules->is_number())
    outcome.joules = joules->get<double>();
  outcome.joules_of = text_of(*found, "joules_of");
  return outcome;
}

}  // namespace

std::string RunStart::placement() const {
  if (workers == 0) return "unknown placement";
  std::string text;
  if (ranks > 1) text = cat(ranks, " ranks of ");
  text += count_text(workers, "worker");
  if (threads > 1) text += cat(" of ", threads, " threads");
  if (input_threads > 0) text += ", " + count_text(input_threads, "input thread");
  if (!backend.empty() && backend != "cpu") text += cat(", backend ", backend);
  return text;
}

std::vector<RunStart> parse_starts(std::string_view text, const std::string& source) {
  const json whole = json::parse(text, nullptr, /*allow_exceptions=*/false);
  PODIUM_REQUIRE(
      whole.is_object() && whole.contains("starts") && whole["starts"].is_array(), ExitCode::kData,
      source,
      ": is not {\"starts\": [...]}; remove the file (the record of its machines is then lost)");
  std::vector<RunStart> starts;
  for (const json& entry : whole["starts"]) {
    PODIUM_REQUIRE(entry.is_object(), ExitCode::kData, source, ": start ", starts.size() + 1,
                   " is not an object; remove it, or the file");
    RunStart start;
    start.from_step = value_or<std::int64_t>(entry, "from_step", 0);
    start.date = text_of(entry, "date"), start.hostname = text_of(entry, "hostname");
    start.cpu = text_of(entry, "cpu"), start.vector_target = text_of(entry, "vector_target");
    start.kind = text_of(entry, "kind"), start.backend = text_of(entry, "backend");
    start.podium_version = text_of(entry, "podium_version");
    start.git_commit = text_of(entry, "git_commit"), start.compiler = text_of(entry, "compiler");
    start.workers = value_or<std::int64_t>(entry, "workers", 0);
    start.threads = value_or<std::int64_t>(entry, "threads", 1);
    start.input_threads = value_or<std::int64_t>(entry, "input_threads", 0);
    start.ranks = value_or<std::int64_t>(entry, "ranks", 1);
    start.training_data = text_of(entry, "training_data");
    start.evaluation_data = text_of(entry, "evaluation_data");
    start.words = words_in(entry);
    start.price = price_of(entry);
    start.outcome = outcome_of(entry);
    starts.push_back(std::move(start));
  }
  return starts;
}

TaskWords words_of(const std::vector<RunStart>& starts, const Course& course) {
  if (!starts.empty() && starts.back().words) return *starts.back().words;
  TaskWords words;
  if (!course.item.empty()) words.item = course.item;
  if (!course.test_metric.empty() && course.test_metric != words.metric) {
    words.metric = course.test_metric;
    words.unit.clear();
  }
  return words;
}

std::vector<RunStart> read_starts(const std::filesystem::path& run) {
  const std::filesystem::path file = run / "environment.json";
  const auto text = read_text(file, kMostBytes);
  return text ? parse_starts(*text, file.string()) : std::vector<RunStart>();
}

}  // namespace podium
