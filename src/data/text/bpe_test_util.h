// A vocabulary of bytes as GPT-2's and Hugging Face's files spell them, for tests.
#pragma once

#include <string>

#include "base/error.h"

namespace podium {

// {"!": 33, ...}, tokens 0 to 255, and `more` entries: "\"he\": 256".
inline std::string spelled_vocabulary(const std::string& more) {
  std::string json = "{";
  int other = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool seen = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    const int code = seen ? byte : other++;
    std::string character;
    if (code < 0x80) {
      if (code == '"' || code == '\\') character = "\\";
      character += static_cast<char>(code);
    } else {
      character = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
    }
    json += cat("\"", character, "\": ", byte, ", ");
  }
  return json + more + "}";
}

}  // namespace podium
