#include "files/toml_fault.h"

#include <cctype>

namespace podium {

std::optional<TextFault> fault_before_parsing(std::string_view text) {
  constexpr const char* kStray =
      "not TOML: a non-ASCII character is allowed in a comment or in a string of one line, but "
      "not here";
  constexpr const char* kBareQuote =
      "not TOML: a string begins at a line's start or after white space, =, a comma, [, { or a dot";
  constexpr const char* kKeyAfterDot =
      "a key that follows a dot without white space is limited to ASCII; write it without other "
      "characters";
  constexpr const char* kLongKey =
      "a key with more than 16 dots; a recipe's have three at most, as in optimizer.group.1.name";
  constexpr const char* kBrace = "not TOML: } may not follow [ or a comma";
  const auto beyond_ascii = [&](std::size_t i) {
    return static_cast<unsigned char>(text[i]) >= 0x80;
  };
  const auto skip_blanks = [&](std::size_t i) {
    while (i < text.size() && (text[i] == ' ' || text[i] == '\t')) ++i;
    return i;
  };
  constexpr int kMostDots = 16;
  int dots = 0;  // of the key, where one stands here; no value has as many
  bool line_begins = true;
  char last = 0;  // before this one, without white space and comments
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (beyond_ascii(i)) return TextFault{i, kStray};
    if (std::string_view("\n=,[]{}").find(c) != std::string_view::npos) dots = 0;
    if (c == '.' && ++dots > kMostDots) return TextFault{i, kLongKey};
    if (c == '[' && line_begins) {
      std::size_t key = skip_blanks(i + 1);
      if (key < text.size() && text[key] == '[') key = skip_blanks(key + 1);
      if (key < text.size() && !beyond_ascii(key) && std::isalnum(text[key]) == 0 &&
          std::string_view("_-\"'").find(text[key]) == std::string_view::npos)
        return TextFault{key, "not TOML: expected the name of a table here, as in [optimizer]"};
    }
    if (c == '}' && (last == '[' || last == ',')) return TextFault{i, kBrace};
    if (std::string_view(" \t\r\n#").find(c) == std::string_view::npos) last = c;
    line_begins = c == '\n' || (line_begins && (c == ' ' || c == '\t'));
    if (c == '#') {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (c == '"' || c == '\'') {
      // After any other character toml++ still reads a bare value, and looks for white space in it.
      const char before = i == 0 ? '\n' : text[i - 1];
      if (std::string_view("\n \t=,[{.").find(before) == std::string_view::npos)
        return TextFault{i, kBareQuote};
      const std::string_view triple = c == '"' ? "\"\"\"" : "'''";
      const bool one_line = text.substr(i, 3) != triple;
      const std::string_view end = one_line ? triple.substr(0, 1) : triple;
      for (i += end.size(); i < text.size() && text.substr(i, end.size()) != end; ++i) {
        if (one_line && text[i] == '\n') break;
        if (!one_line && beyond_ascii(i)) return TextFault{i, kStray};
        if (before == '.' && beyond_ascii(i)) return TextFault{i, kKeyAfterDot};
        if (c == '"' && text[i] == '\\' && i + 1 < text.size() && !beyond_ascii(i + 1)) ++i;
      }
      i += end.size() - 1;
      // One or two more quotes belong to the string of several lines that they end.
      for (int more = 0; !one_line && more < 2 && i + 1 < text.size() && text[i + 1] == c; ++more)
        ++i;
    }
  }
  return std::nullopt;
}

}  // namespace podium
