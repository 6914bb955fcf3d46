#include "train/run/run_lines.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "nn/metric.h"

namespace podium {
namespace {

using nlohmann::json;

// The object of a line with its step; nothing where it is none.
std::optional<json> parse_line(std::string_view line, std::int64_t& step) {
  json value = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) return std::nullopt;
  const auto found = value.find("step");
  if (found == value.end() || !found->is_number_unsigned() ||
      found->get<std::uint64_t>() >
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return std::nullopt;
  step = found->get<std::int64_t>();
  return value;
}

// Sixteen hexadecimal digits.
bool read_hash(std::string_view text, std::uint64_t& hash) {
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return false;
  std::from_chars(text.data(), text.data() + text.size(), hash, 16);
  return true;
}

// A line as Podium writes it, of which a run has many; false: ask the parser of JSON.
bool read_plain(std::string_view line, HashLine& found) {
  constexpr std::string_view kStep = "{\"step\": ", kHash = ", \"hash\": \"", kEnd = "\"}";
  if (!line.starts_with(kStep) || !line.ends_with(kEnd)) return false;
  line.remove_prefix(kStep.size());
  line.remove_suffix(kEnd.size());
  const std::size_t at = line.find(kHash);
  if (at == 0 || at == std::string_view::npos || line[0] < '1' || line[0] > '9') return false;
  const char *const begin = line.data(), *const end = begin + at;
  const auto [rest, error] = std::from_chars(begin, end, found.step);
  return error == std::errc() && rest == end &&
         read_hash(line.substr(at + kHash.size()), found.hash);
}

}  // namespace

std::optional<HashLine> parse_hash_line(std::string_view line) {
  HashLine found;
  if (read_plain(line, found)) return found;
  const std::optional<json> value = parse_line(line, found.step);
  if (!value) return std::nullopt;
  const auto hash = value->find("hash");
  if (hash == value->end() || !hash->is_string()) return std::nullopt;
  if (!read_hash(hash->get_ref<const std::string&>(), found.hash)) return std::nullopt;
  return found;
}

namespace {

constexpr std::string_view kTest = "test_", kRate = "s_per_second", kSteps = "step";

// The names and values of a line in its order, which says what is its metric.
using OrderedJson = nlohmann::ordered_json;

struct Line {
  std::int64_t step = 0;
  bool is_test = false;
  const OrderedJson *loss = nullptr, *metric = nullptr, *rate = nullptr;
  LineNames names;
};

bool is_metric(std::string_view key, bool is_test) {
  if (is_test) return key.starts_with(kTest) && key != "test_loss" && key != "test_examples";
  return key != "step" && key != "loss" && key != "learning_rate" && key != "seconds" &&
         key != "input_wait_percent" && !key.ends_with("_per_second");
}

std::optional<Line> metrics_line(const OrderedJson& object) {
  Line line;
  if (!object.is_object()) return std::nullopt;
  const auto step = object.find("step");
  if (step == object.end() || !step->is_number_unsigned() ||
      step->get<std::uint64_t>() >
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return std::nullopt;
  line.step = step->get<std::int64_t>();
  line.is_test = object.contains("test_loss");
  const auto loss = object.find(line.is_test ? "test_loss" : "loss");
  if (loss == object.end()) return std::nullopt;
  line.loss = &*loss;
  for (const auto& [key, value] : object.items()) {
    if (line.metric == nullptr && is_metric(key, line.is_test)) {
      line.metric = &value;
      line.names.metric = line.is_test ? key.substr(kTest.size()) : key;
    }
    if (!key.ends_with(kRate)) continue;
    const std::string unit = key.substr(0, key.size() - kRate.size());
    if (unit == kSteps) continue;
    line.rate = &value;
    line.names.unit = unit;
  }
  return line;
}

// Whether the value is a number, or null, which stands for one that is not finite.
bool take_number(const OrderedJson* found, double& value) {
  if (found == nullptr || !(found->is_number() || found->is_null())) return false;
  value = found->is_null() ? kNoValue : found->get<double>();
  return true;
}

}  // namespace

std::optional<MetricsLine> parse_metrics_line(std::string_view text) {
  const OrderedJson object = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  const std::optional<Line> line = metrics_line(object);
  if (!line) return std::nullopt;
  if (line->is_test) {
    TestPoint point{.step = line->step};
    if (!take_number(line->loss, point.loss)) return std::nullopt;
    if (line->metric != nullptr && !take_number(line->metric, point.metric)) return std::nullopt;
    if (const auto found = object.find(cat(kTest, kBleuMetric)); found != object.end())
      static_cast<void>(take_number(&*found, point.bleu));
    return point;
  }
  TrainingPoint point{.step = line->step};
  if (!take_number(line->loss, point.loss) || !take_number(line->rate, point.items_per_second))
    return std::nullopt;
  if (line->metric != nullptr && !take_number(line->metric, point.metric)) return std::nullopt;
  const auto optional = [&](const char* name, double& value) {
    const auto found = object.find(name);
    if (found == object.end() || !take_number(&*found, value)) value = kNoValue;
  };
  optional("steps_per_second", point.steps_per_second);
  optional("input_wait_percent", point.input_wait_percent);
  optional("seconds", point.seconds);
  return point;
}

std::optional<LineNames> names_of_metrics_line(std::string_view text) {
  const OrderedJson object = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  const std::optional<Line> line = metrics_line(object);
  if (!line) return std::nullopt;
  return line->names;
}

}  // namespace podium
