// libFuzzer target: any bytes as a text of characters. Either they are not UTF-8, or their tokens
// are below the vocabulary and give the text back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "data/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  try {
    const auto tokenizer = podium::character_tokenizer({{"input", std::string(text)}});
    std::string again;
    for (const std::int32_t token : tokenizer->tokens_of(text, "input")) {
      if (token < 0 || token >= tokenizer->vocabulary()) std::abort();
      again += tokenizer->text_of(token);
    }
    if (again != text) std::abort();
  } catch (const podium::UserError&) {
  }
  return 0;
}
