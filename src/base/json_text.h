// Results as JSON. File names need not be UTF-8; what is not is replaced, since nothing computed
// should be lost by a name.
#pragma once

#include <string>

namespace podium {

// Of an nlohmann::json or ordered_json.
template <typename Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// An object as one line of a run's .jsonl files: {"step": 1, "loss": 0.5}.
template <typename Json>
std::string json_line(const Json& object) {
  std::string text = "{";
  for (const auto& [name, value] : object.items())
    text += (text.size() == 1 ? "" : ", ") + json_text(Json(name)) + ": " + json_text(value);
  return text + "}";
}

}  // namespace podium
