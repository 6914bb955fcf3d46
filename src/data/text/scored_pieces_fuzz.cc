// libFuzzer target: any bytes as a tokenizer of llama2.c.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "data/text/scored_pieces.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  try {
    const auto tokenizer = podium::parse_scored_pieces(text, "input");
    for (const std::int32_t token : tokenizer->tokens_of(text, "input"))
      if (token < 0 || token >= tokenizer->vocabulary()) std::abort();
  } catch (const podium::UserError&) {
  }
  return 0;
}
