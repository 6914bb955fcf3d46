#include "train/run_lines.h"

#include <limits>
#include <nlohmann/json.hpp>

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

// Whether the field is a number, or null, which stands for one that is not finite.
bool read_number(const json& line, const char* name, double& value) {
  const auto found = line.find(name);
  if (found == line.end() || !(found->is_number() || found->is_null())) return false;
  value = found->is_null() ? std::numeric_limits<double>::quiet_NaN() : found->get<double>();
  return true;
}

// One that may be missing; NaN then.
void read_optional(const json& line, const char* name, double& value) {
  if (!read_number(line, name, value)) value = kNoValue;
}

bool is_hash(const std::string& text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

std::optional<HashLine> parse_hash_line(std::string_view line) {
  HashLine found;
  const std::optional<json> value = parse_line(line, found.step);
  if (!value) return std::nullopt;
  const auto hash = value->find("hash");
  if (hash == value->end() || !hash->is_string()) return std::nullopt;
  found.hash = hash->get<std::string>();
  if (!is_hash(found.hash)) return std::nullopt;
  return found;
}

std::optional<MetricsLine> parse_metrics_line(std::string_view line) {
  std::int64_t step = 0;
  const std::optional<json> value = parse_line(line, step);
  if (!value) return std::nullopt;
  if (value->contains("test_accuracy")) {
    TestPoint point{.step = step};
    if (!read_number(*value, "test_accuracy", point.accuracy) ||
        !read_number(*value, "test_loss", point.loss))
      return std::nullopt;
    return point;
  }
  TrainingPoint point{.step = step};
  if (!read_number(*value, "loss", point.loss) ||
      !read_number(*value, "accuracy", point.accuracy) ||
      !read_number(*value, "images_per_second", point.images_per_second))
    return std::nullopt;
  read_optional(*value, "input_wait_percent", point.input_wait_percent);
  read_optional(*value, "seconds", point.seconds);
  return point;
}

}  // namespace podium
