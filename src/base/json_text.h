// Results as JSON. File names need not be UTF-8; what is not is replaced, since nothing computed
// should be lost by a name.
#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace podium {

// A text as JSON writes it, for code that has no JSON library. Its bytes are taken as they are.
inline std::string json_quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    if (static_cast<unsigned char>(letter) < 0x20) {
      std::array<char, 8> code;
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(letter));
      quoted += code.data();
      continue;
    }
    if (letter == '"' || letter == '\\') quoted += '\\';
    quoted += letter;
  }
  return quoted + '"';
}

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
