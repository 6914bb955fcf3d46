#include "train/run/run_lines.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

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
