// A small font of our own for captions in pictures: digits, lower-case letters and a hyphen, five
// pixels wide and nine high, the last two of which are below the line.
#pragma once

#include <cstdint>
#include <string_view>

namespace podium {

inline constexpr std::int64_t kGlyphHeight = 9, kGlyphWidth = 5;
inline constexpr std::int64_t kGlyphStep = kGlyphWidth + 1;  // from one to the next

// Whether a character has ink there. Capitals look as small letters do; other characters than the
// above are blank.
bool has_ink(char character, std::int64_t row, std::int64_t column);

// In pixels, each dot of the font being `size` of them.
constexpr std::int64_t text_width(std::string_view text, std::int64_t size) {
  return text.empty() ? 0 : (static_cast<std::int64_t>(text.size()) * kGlyphStep - 1) * size;
}

}  // namespace podium
