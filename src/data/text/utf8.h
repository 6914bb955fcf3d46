// UTF-8 (RFC 3629).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace podium {

// The bytes of the character that the text begins with; 0: it begins with none.
inline std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const std::uint32_t first = byte(0);
  if (text.empty() || (first >= 0x80 && first < 0xC2) || first > 0xF4) return 0;
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  // Longer than needed, a surrogate, or beyond U+10FFFF.
  const std::uint32_t second = byte(1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90))
    return 0;
  return length;
}

// The text with each byte that is no part of UTF-8 as the character that it is in Latin-1: itself
// where all is UTF-8.
inline std::string as_utf8(std::string_view text) {
  std::string all;
  all.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length > 0) {
      all += text.substr(0, length);
    } else {
      const auto byte = static_cast<unsigned char>(text.front());
      all += static_cast<char>(0xC0 | (byte >> 6));
      all += static_cast<char>(0x80 | (byte & 0x3F));
    }
    text.remove_prefix(length > 0 ? length : 1);
  }
  return all;
}

}  // namespace podium
