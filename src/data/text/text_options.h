// Text in a file, as named in a recipe: `data = "text:FILE"`, or the [data] table.
#pragma once

#include <cstdint>
#include <string>

namespace podium {

// A value of a recipe's `data` that is not the name of a dataset: the text of a file.
inline constexpr const char* kTextData = "text";
// What a token is.
inline constexpr const char* kByteTokens = "bytes";
inline constexpr const char* kCharTokens = "chars";

// The keys of a recipe's [data] table that only text has.
struct TextOptions {
  std::string tokenizer = kByteTokens;
  std::int64_t context = 256;  // tokens of an example
  bool operator==(const TextOptions&) const = default;
};

}  // namespace podium
