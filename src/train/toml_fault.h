// What must be looked for in a text before toml++ may parse it.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace podium {

// A place in a text, and what is wrong there.
struct TextFault {
  std::size_t at;
  const char* rule;
};

// What toml++ 3.3 and 3.4.0, its newest release, do not refuse but are undefined on: characters
// beyond ASCII where white space may stand (hundreds of them are "unreachable" to it), a table's
// header that begins with no key, and a key of so many names that the tables it stands for, one in
// the other, overflow the stack (later versions limit that: TOML_MAX_DOTTED_KEYS_DEPTH). What is no
// TOML otherwise is left to it.
std::optional<TextFault> fault_before_parsing(std::string_view text);

}  // namespace podium
