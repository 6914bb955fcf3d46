// libFuzzer target: any bytes as a model of SentencePiece. Either it is none, with words, or every
// token that it makes of a text lies below its vocabulary.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "data/text/sentencepiece.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  try {
    const auto tokenizer =
        podium::parse_sentencepiece({reinterpret_cast<const char*>(bytes), size}, "a.model");
    for (const std::int32_t token : tokenizer->tokens_of("  two  dogs,\n \xC3\xA9", "x"))
      if (token < 0 || token >= tokenizer->vocabulary()) std::abort();
  } catch (const podium::UserError&) {
  }
  return 0;
}
