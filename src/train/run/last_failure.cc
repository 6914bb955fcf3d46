#include "train/run/last_failure.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "files/file_io.h"
#include "parallel/failure_record.h"

namespace podium {
namespace {

using nlohmann::json;

std::string text_of(const json& object, const char* name) {
  if (!object.is_object()) return "";
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Empty where it is not known.
std::string date_of_last_start(const std::filesystem::path& run) {
  const json file = json::parse(read_text(run / "environment.json").value_or(""), nullptr, false);
  if (!file.is_object() || !file.contains("starts")) return "";
  const json& starts = file["starts"];
  return starts.is_array() && !starts.empty() ? text_of(starts.back(), "date") : "";
}

}  // namespace

std::string last_failure(const std::filesystem::path& run) {
  const std::string since = date_of_last_start(run),
                    text = read_text(run / kFailureFile).value_or("");
  std::string found;
  std::int64_t most = -1;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const json line = json::parse(text.substr(begin, end - begin), nullptr, false);
    begin = end + 1;
    const std::string failure = text_of(line, "failure");
    // Dates of this form are in order as texts are.
    if (failure.empty() || text_of(line, "date") < since) continue;
    const auto heard = line.find("heard");
    const std::int64_t ranks =
        heard != line.end() && heard->is_number_integer() ? heard->get<std::int64_t>() : 0;
    if (ranks > most) most = ranks, found = failure;
  }
  return found;
}

}  // namespace podium
