// Faults that must be found in a text before toml++ may parse it.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace podium {

// A position in a text and the fault there.
struct TextFault {
  std::size_t at;
  const char* rule;
};

// Input that toml++ 3.3 and 3.4.0, its newest release, do not refuse but on which their behaviour
// is undefined: non-ASCII characters where they look for white space (they still do behind a quote
// in a bare value), a table header that does not begin with a key, a brace in place of an array's
// element, and a key with so many parts that the nested tables overflow the stack (later versions
// limit their number: TOML_MAX_DOTTED_KEYS_DEPTH). All other faults are left to toml++.
std::optional<TextFault> fault_before_parsing(std::string_view text);

}  // namespace podium
