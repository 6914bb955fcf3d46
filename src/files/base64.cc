#include "files/base64.h"

#include <algorithm>
#include <cstddef>

namespace podium {

std::string base64(std::span<const std::uint8_t> bytes) {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = std::min<std::size_t>(bytes.size() - i, 3);
    std::uint32_t word = static_cast<std::uint32_t>(bytes[i]) << 16;
    if (left > 1) word |= static_cast<std::uint32_t>(bytes[i + 1]) << 8;
    if (left > 2) word |= bytes[i + 2];
    for (std::size_t k = 0; k < 4; ++k)
      text += k <= left ? kDigits[(word >> (18 - 6 * k)) & 63] : '=';
  }
  return text;
}

}  // namespace podium
