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

}  // namespace podium
