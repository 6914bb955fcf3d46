// Byte-pair encoding on bytes (Radford et al. 2019): a pattern cuts text into pieces, and within
// each piece the pair of tokens that was merged first in training is merged, again and again.
//
// Bytes that are not UTF-8 are pieces of their own, so that every text has tokens that give it
// back. A text never has a special token such as <|endoftext|>: what is spelled like one is text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/text/tokenizer.h"

namespace podium {

// What GPT-2 cuts text with.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// A vocabulary and how it was made.
struct BpeModel {
  std::vector<std::string> tokens;  // the bytes of each; special ones are spelled out
  // Pairs of tokens, in the order in which training merged them, and what they became.
  struct Merge {
    std::int32_t left, right, merged;
  };
  std::vector<Merge> merges;
  std::vector<bool> special;  // of each token: no text has it
  // Regular expressions; each cuts what those before it have left in pieces.
  std::vector<std::string> patterns = {std::string(kGpt2Pattern)};
  bool whole_pieces_first = false;  // a piece that is a token needs no merges
};

// Throws UserError(kData), which begins with `source`, if a byte has no token, or a pattern is no
// regular expression of PCRE2.
std::shared_ptr<const Tokenizer> bpe_tokenizer(BpeModel model, const std::string& source,
                                               std::vector<std::string> files = {});

// GPT-2's two files: {"token": number} and a line for each merge. Throws UserError(kData), which
// names the file and the line.
std::shared_ptr<const Tokenizer> open_bpe_files(const std::string& encoder,
                                                const std::string& merges);
BpeModel parse_bpe(std::string_view encoder, std::string_view merges,
                   const std::string& encoder_file, const std::string& merges_file);
// Hugging Face's tokenizer.json. Throws UserError(kData), which names the file, if it is damaged,
// or is not of byte-level byte-pair encoding: says what it has instead.
std::shared_ptr<const Tokenizer> open_bpe_json(const std::string& file);
BpeModel parse_bpe_json(std::string_view text, const std::string& file);

}  // namespace podium
