// A tokenizer of llama2.c (.bin): SentencePiece's byte-pair encoding, where every piece has a
// score, and of two neighbours those are joined whose joint piece has the highest.
//
// The file: an int32 (the longest piece in bytes), then for each piece a float score, an int32
// length and its bytes. Pieces 3 to 258 stand for bytes that no other piece has.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/tokenizer.h"

namespace podium {

struct ScoredPiece {
  std::string text;
  float score = 0;
};
// What becomes of a text's blanks before it is cut into pieces.
struct PieceBlanks {
  bool prefix = false;    // one stands before the text
  bool collapse = false;  // several become one, and those at the ends are left out
};
// Pieces 0 to 2 are unknown, begin and end, the next 256 stand for bytes.
std::shared_ptr<const Tokenizer> scored_pieces(std::vector<ScoredPiece> pieces,
                                               const PieceBlanks& blanks, const std::string& file);
inline constexpr std::int32_t kEndPiece = 2, kFirstBytePiece = 3,
                              kBytePieces = kFirstBytePiece + 256;

// Throws UserError(kData), which names the file and the byte, if it is damaged.
std::shared_ptr<const Tokenizer> open_scored_pieces(const std::string& file);
std::shared_ptr<const Tokenizer> parse_scored_pieces(std::string_view bytes,
                                                     const std::string& file);

}  // namespace podium
