// libFuzzer target: any bytes as a tokenizer.json, as GPT-2's two files, and as a text. A tokenizer
// that is read gives every text back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "data/text/bpe.h"

namespace {

void require_round_trip(const podium::Tokenizer& tokenizer, std::string_view text) {
  std::string again;
  for (const std::int32_t token : tokenizer.tokens_of(text, "input")) {
    if (token < 0 || token >= tokenizer.vocabulary()) std::abort();
    again += tokenizer.text_of(token);
  }
  if (again != text) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  const std::size_t half = text.find('\x1f');
  try {
    if (half == std::string_view::npos) {
      require_round_trip(*podium::bpe_tokenizer(podium::parse_bpe_json(text, "input"), "input"),
                         text);
    } else {
      const std::string_view encoder = text.substr(0, half), merges = text.substr(half + 1);
      require_round_trip(
          *podium::bpe_tokenizer(podium::parse_bpe(encoder, merges, "input", "input"), "input"),
          text);
    }
  } catch (const podium::UserError&) {
  }
  // Any text, by bytes and one merge.
  static const auto tokenizer = [] {
    podium::BpeModel model;
    for (int byte = 0; byte < 256; ++byte) model.tokens.emplace_back(1, static_cast<char>(byte));
    model.tokens.emplace_back("  ");
    model.merges.push_back({' ', ' ', 256});
    return podium::bpe_tokenizer(model, "fuzz");
  }();
  require_round_trip(*tokenizer, text);
  return 0;
}
