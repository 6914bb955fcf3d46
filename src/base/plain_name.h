// What may name a model, a dataset or an operation.
#pragma once

#include <algorithm>
#include <string_view>

namespace podium {

// Letters, digits, '-', '_' and '.', the first a letter or a digit.
inline bool is_plain_name(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && name.size() <= 64 && is_plain(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_plain(c) || c == '-' || c == '_' || c == '.'; });
}

}  // namespace podium
